"""A run: every wanted scene on a stage of its own, a few at a time, and the verdicts that follow.

A scene that crashes the agent, or that finds no end, costs its own rules and nothing else.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from accord.check.agent.launch import Launcher
from accord.check.agent.scene import Scene
from accord.check.agent.scenes import UNTRIED, scenes
from accord.check.agent.stage import EVERYTHING, Missing, Stage
from accord.check.agent.talk import Over
from accord.check.bounds import Bounds
from accord.check.ledger import Ledger, Rule, find
from accord.check.report import Report
from accord.check.script import Script, script_for
from accord.check.verdict import SCHEMA, Fault
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import ConnectionClosed, HandshakeFailed, NeverStarted
from accord.schema.rules import rules as rules_where
from accord.trace.exchange import at

Progress = Callable[[int, int, str], None]
"""Told of each scene that begins: how many are done, how many there are, and its name."""


_FAULTS: Final[tuple[Fault, ...]] = (
    *("fault-dies", "fault-stalls", "fault-twice", "fault-unknown-ids", "fault-types"),
    *("fault-huge", "fault-noise", "fault-slow"),
)
"""The faults of clients that an agent is tried with."""


class Options(Struct, frozen=True, kw_only=True):
    """How a run goes."""

    script: Script | None = None
    """None: the shipped one that fits the agent's name."""
    bounds: Bounds = Bounds()
    jobs: int = 2
    """How many scenes are played at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None


def agent_rules() -> list[Rule]:
    """Everything an agent is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="AGENT")), *_FAULTS]


async def check_agent(
    launcher: Launcher, wanted: Sequence[Rule] | None = None, options: Options | None = None
) -> Report:
    """Hold an agent to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no agent."""
    options = Options() if options is None else options
    chosen = agent_rules() if wanted is None else list(wanted)
    root = Path(tempfile.mkdtemp(prefix="accord-check-"))
    try:
        initialized = await first_words(launcher, root / "first", options)
        script = options.script or script_for(initialized.get("agentInfo"))
        run = Run(launcher, root, script, initialized, options)
        ledger = await run.play([scene for scene in scenes() if set(scene.rules) & set(chosen)])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for number, why in UNTRIED.items():
        ledger.unseen(number, f"not tried: {why}")
    info = initialized.get("agentInfo")
    return Report(
        kind="agent",
        name=str(at(info, "name") or "unknown"),
        version=str(at(info, "version") or "unknown"),
        script=script.name,
        findings=find(ledger, chosen, ours=script.ours),
    )


async def first_words(launcher: Launcher, root: Path, options: Options) -> dict[str, Any]:
    """One handshake, to know whom we are dealing with."""
    stage = Stage(root, launcher, Script(""), Ledger(), bounds=options.bounds, clock=options.clock)
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


class Run:
    """Plays scenes with an agent whose handshake is known."""

    def __init__(
        self, launcher: Launcher, root: Path, script: Script, initialized: dict[str, Any], options: Options
    ) -> None:
        self.launcher = launcher
        self.root = root
        self.script = script
        self.initialized = initialized
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
        gate = at(self.initialized, "agentCapabilities", *scene.gate.split(".")) if scene.gate else True
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
            clock=options.clock,
        )
        why = ""
        try:
            await scene.play(stage)
        except Missing as missing:
            why = str(missing)
        except (Over, ConnectionClosed) as over:
            why = f"the conversation ended early: {over}"
        except Exception as error:  # noqa: BLE001 - an answer that no scene foresaw must not end the run
            why = f"the scene could not go on: {type(error).__name__}: {error}"
        finally:
            await stage.aclose()
        for rule in scene.rules:
            if not ledger.of(rule):
                ledger.unseen(rule, why or "it did not happen in this scene")
        shutil.rmtree(stage.root, ignore_errors=True)
