"""A run of the kit on one client: who it is, every scene on clean ground, the verdicts."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from accord.check.agent.lines import Line
from accord.check.agent.stage import Missing
from accord.check.agent.talk import Over
from accord.check.bounds import Bounds
from accord.check.client.launch import Launcher
from accord.check.client.scene import Scene
from accord.check.client.scenes import UNTRIED, scenes
from accord.check.client.script import ClientScript, client_script_for
from accord.check.client.stage import Stage, Traits, tail
from accord.check.ledger import Ledger, Rule, find
from accord.check.report import Report
from accord.check.verdict import FAULTS, SCHEMA
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import HandshakeFailed
from accord.schema.rules import rules as rules_where
from accord.trace.exchange import at

Progress = Callable[[int, int, str], None]
"""Told of each scene that begins: how many are done, how many there are, and its name."""

_FIRST_WORD = "marigold"


class ClientOptions(Struct, frozen=True, kw_only=True):
    """How a run goes."""

    script: ClientScript | None = None
    """None: the shipped one that fits the client's name."""
    bounds: Bounds = Bounds()
    jobs: int = 2
    """How many scenes are played at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None


def client_rules() -> list[Rule]:
    """Everything a client is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="CLIENT")), *FAULTS]


async def check_client(
    launcher: Launcher, wanted: Sequence[Rule] | None = None, options: ClientOptions | None = None
) -> Report:
    """Hold a client to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no client."""
    options = ClientOptions() if options is None else options
    chosen = client_rules() if wanted is None else list(wanted)
    root = Path(tempfile.mkdtemp(prefix="accord-check-"))
    try:
        traits = await first_run(launcher, root / "first", options)
        script = options.script or client_script_for(traits.info)
        run = ClientRun(launcher, root, script, traits, options)
        ledger = await run.play([scene for scene in scenes() if set(scene.rules) & set(chosen)])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for number, why in UNTRIED.items():
        ledger.unseen(number, f"not tried: {why}")
    return Report(
        kind="client",
        name=str(at(traits.info, "name") or "unknown"),
        version=str(at(traits.info, "version") or "unknown"),
        script=script.name,
        findings=find(ledger, chosen, ours=script.ours),
    )


async def first_run(launcher: Launcher, root: Path, options: ClientOptions) -> Traits:
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


class ClientRun:
    """Plays scenes with a client that is known."""

    def __init__(
        self, launcher: Launcher, root: Path, script: ClientScript, traits: Traits, options: ClientOptions
    ) -> None:
        self.launcher = launcher
        self.root = root
        self.script = script
        self.traits = traits
        self.options = options
        self._done = 0
        self._total = 0

    async def play(self, wanted: Iterable[Scene]) -> Ledger:
        """Play them, a few at a time; the ledger has them in their order."""
        due = list(wanted)
        self._total = len(due)
        room = asyncio.Semaphore(self.options.jobs)

        async def one(number: int, scene: Scene) -> Ledger:
            async with room:
                return await self._scene(number, scene)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, scene)) for number, scene in enumerate(due)]
        whole = Ledger()
        for task in tasks:
            whole.take(task.result())
        return whole

    async def _scene(self, number: int, scene: Scene) -> Ledger:
        if self.options.progress is not None:
            self.options.progress(self._done, self._total, scene.name)
        ledger = Ledger(scene.name)
        gate = at(self.traits.offered, *scene.gate.split(".")) if scene.gate else True
        if gate is True or isinstance(gate, dict):
            await self._played(number, scene, ledger)
        else:
            for rule in scene.rules:
                ledger.absent(rule, f"it does not advertise {scene.gate}")
        self._done += 1
        return ledger

    async def _played(self, number: int, scene: Scene, ledger: Ledger) -> None:
        options = self.options
        stage = Stage(
            self.root / f"scene-{number}",
            self.launcher,
            self.script,
            ledger,
            bounds=options.bounds,
            traits=self.traits,
            clock=options.clock,
        )
        why = ""
        try:
            await scene.play(stage)
        except Missing as missing:
            why = str(missing)
        except Over as over:
            why = f"the conversation ended early: {over}"
            if stage.clients:
                why += f"; the client says: {tail(stage.client.output)}"
        except Exception as error:  # noqa: BLE001 - an answer that no scene foresaw must not end the run
            why = f"the scene could not go on: {type(error).__name__}: {error}"
        finally:
            await stage.aclose()
        for rule in scene.rules:
            if not ledger.of(rule):
                ledger.unseen(rule, why or "it did not happen in this scene")
        shutil.rmtree(stage.root, ignore_errors=True)
