"""A run of the kit on one client: who it is, every scene on clean ground, the verdicts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from accord.check.client.launch import Launcher
from accord.check.client.scenes import UNTRIED, scenes
from accord.check.client.script import ClientScript, script_for_client
from accord.check.client.stage import Stage, Traits, tail
from accord.check.conversation import Over
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line
from accord.check.report import Report
from accord.check.run import Options, Run, clean_ground, due, report
from accord.check.verdict import FAULTS, SCHEMA
from accord.errors import HandshakeFailed
from accord.schema.rules import rules as rules_where
from accord.trace.exchange import at

_FIRST_WORD: Final = "marigold"


def client_rules() -> list[Rule]:
    """Everything a client is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="CLIENT")), *FAULTS]


async def check_client(
    launcher: Launcher, wanted: Sequence[Rule] | None = None, options: Options[ClientScript] | None = None
) -> Report:
    """Hold a client to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no client."""
    options = Options() if options is None else options
    chosen = client_rules() if wanted is None else list(wanted)
    with clean_ground() as folder:
        traits = await first_run(launcher, Path(folder, "first"), options)
        script = options.script or script_for_client(traits.info)
        run = client_run(launcher, Path(folder), script, traits, options)
        ledger = await run.play(due(scenes(), chosen))
    return report("client", traits.info, script, ledger, chosen, UNTRIED)


def client_run(
    launcher: Launcher, root: Path, script: ClientScript, traits: Traits, options: Options[ClientScript]
) -> Run[Stage]:
    """Scenes with a client that is known."""

    def stage(folder: Path, ledger: Ledger) -> Stage:
        return Stage(
            folder, launcher, script, ledger, bounds=options.bounds, traits=traits, clock=options.clock
        )

    return Run(root, stage, traits.offered, options)


async def first_run(launcher: Launcher, root: Path, options: Options[ClientScript]) -> Traits:
    """One plain turn, to know whom we are dealing with. Raises `HandshakeFailed` where none comes about."""
    script = options.script or ClientScript("")
    stage = Stage(root, launcher, script, Ledger(), bounds=options.bounds, clock=options.clock)
    try:
        try:
            turn = await stage.turn()
        except Over as over:
            words = tail(stage.client.output, 1000)
            raise HandshakeFailed(f"the client made no turn: {over}\nit says: {words}") from None
        turn.part.say(_FIRST_WORD)
        turn.part.stop(turn.prompt)
        leaves = await stage.client.wait(options.bounds.leave)
        shows = _FIRST_WORD in stage.client.printed
        asked = next(line for line in turn.part.lines if _is_first(line))
        return Traits(at(asked.params, "clientInfo"), turn.part.offered, shows, leaves)
    finally:
        for client in stage.clients:
            await client.end()


def _is_first(line: Line) -> bool:
    return line.sender == "client" and line.method in ("initialize", "session/new", "session/prompt")
