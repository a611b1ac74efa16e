"""A run of the kit on one agent: who it is, every scene on clean ground, the verdicts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from accord.check.agent.launch import Launcher
from accord.check.agent.scenes import UNTRIED, scenes
from accord.check.agent.script import AgentScript, script_for_agent
from accord.check.agent.stage import EVERYTHING, Stage
from accord.check.conversation import Over
from accord.check.ledger import Ledger, Rule
from accord.check.report import Report
from accord.check.run import Options, Run, clean_ground, due, report
from accord.check.verdict import FAULTS, SCHEMA, Fault
from accord.errors import HandshakeFailed, NeverStarted
from accord.schema.rules import rules as rules_where

_FAULTS: Final[tuple[Fault, ...]] = tuple(fault for fault in FAULTS if fault != "dialects")
"""The faults of clients that an agent is tried with."""


def agent_rules() -> list[Rule]:
    """Everything an agent is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="AGENT")), *_FAULTS]


async def check_agent(
    launcher: Launcher, wanted: Sequence[Rule] | None = None, options: Options[AgentScript] | None = None
) -> Report:
    """Hold an agent to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no agent."""
    options = Options() if options is None else options
    chosen = agent_rules() if wanted is None else list(wanted)
    with clean_ground() as folder:
        initialized = await first_words(launcher, Path(folder, "first"), options)
        script = options.script or script_for_agent(initialized.get("agentInfo"))
        run = agent_run(launcher, Path(folder), script, initialized, options)
        ledger = await run.play(due(scenes(), chosen))
    return report("agent", initialized.get("agentInfo"), script, ledger, chosen, UNTRIED)


def agent_run(
    launcher: Launcher,
    root: Path,
    script: AgentScript,
    initialized: dict[str, Any],
    options: Options[AgentScript],
) -> Run[Stage]:
    """Scenes with an agent whose handshake is known."""

    def stage(folder: Path, ledger: Ledger) -> Stage:
        return Stage(folder, launcher, script, ledger, bounds=options.bounds, clock=options.clock)

    return Run(root, stage, initialized.get("agentCapabilities"), options)


async def first_words(launcher: Launcher, root: Path, options: Options[AgentScript]) -> dict[str, Any]:
    """One handshake, to know whom we are dealing with."""
    stage = Stage(root, launcher, AgentScript(""), Ledger(), bounds=options.bounds, clock=options.clock)
    try:
        talk = await stage.connect()
        try:
            answer = await talk.begin(EVERYTHING)
        except Over as over:
            if talk.end is not None and talk.end.exit_code is not None and not talk.initialized:
                words = talk.launched.stderr.strip()
                raise NeverStarted(
                    f"the agent ended before it began: {talk.end.reason}" + (f"\n{words}" if words else "")
                ) from None
            raise HandshakeFailed(f"the agent did not shake hands: {over}") from None
        if not answer.ok:
            raise HandshakeFailed(f"the agent did not shake hands: initialize gave {answer.says}")
        return talk.initialized
    finally:
        for talk in stage.talks:
            await talk.leave()
