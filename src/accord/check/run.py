"""A run: every wanted scene on a stage of its own, a few at a time, and the verdicts that follow.

A scene that crashes the program under test, or that finds no end, costs its own rules and nothing else.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from accord.check.bounds import Bounds
from accord.check.conversation import Over
from accord.check.ledger import Ledger, Rule, find
from accord.check.report import Report
from accord.check.scene import Missing, Scene
from accord.check.script import Script, ScriptT
from accord.check.verdict import SCHEMA
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import ConnectionClosed
from accord.trace.exchange import at

Progress = Callable[[int, int, str], None]
"""Told of each scene that begins: how many are done, how many there are, and its name."""


class Options(Struct, Generic[ScriptT], frozen=True, kw_only=True):
    """How a run goes."""

    script: ScriptT | None = None
    """None: the shipped one that fits the program's name."""
    bounds: Bounds = Bounds()
    jobs: int = 2
    """How many scenes are played at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None


class Ground(Protocol):
    """What every stage has."""

    root: Path

    def last_words(self) -> str:
        """What the program said last, where that tells why a scene ended; else empty."""
        ...

    async def aclose(self) -> None:
        """See everybody out, and look over all that was said."""
        ...


GroundT = TypeVar("GroundT", bound=Ground)


class Run(Generic[GroundT]):
    """Plays scenes with a program that is known: `offered` are its capabilities, `stage` makes a stage in a folder."""

    def __init__(
        self, root: Path, stage: Callable[[Path, Ledger], GroundT], offered: Any, options: Options[Any]
    ) -> None:
        self.root = root
        self.offered = offered
        self._stage = stage
        self._options = options
        self._done = 0
        self._total = 0

    async def play(self, wanted: Iterable[Scene[GroundT]]) -> Ledger:
        """Play them, a few at a time; the ledger has them in their order."""
        due = list(wanted)
        self._total = len(due)
        room = asyncio.Semaphore(self._options.jobs)

        async def one(number: int, scene: Scene[GroundT]) -> Ledger:
            async with room:
                return await self._scene(number, scene)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, scene)) for number, scene in enumerate(due)]
        whole = Ledger()
        for task in tasks:
            whole.take(task.result())
        return whole

    async def _scene(self, number: int, scene: Scene[GroundT]) -> Ledger:
        if self._options.progress is not None:
            self._options.progress(self._done, self._total, scene.name)
        ledger = Ledger(scene.name)
        gate = at(self.offered, *scene.gate.split(".")) if scene.gate else True
        if gate is True or isinstance(gate, dict):
            await self._played(number, scene, ledger)
        else:
            for rule in scene.rules:
                ledger.absent(rule, f"it does not advertise {scene.gate}")
        self._done += 1
        return ledger

    async def _played(self, number: int, scene: Scene[GroundT], ledger: Ledger) -> None:
        stage = self._stage(self.root / f"scene-{number}", ledger)
        why = ""
        try:
            await scene.play(stage)
        except Missing as missing:
            why = str(missing)
        except (Over, ConnectionClosed) as over:
            why = f"the conversation ended early: {over}"
            words = stage.last_words()
            why += f"; it says: {words}" if words else ""
        except Exception as error:  # noqa: BLE001 - an answer that no scene foresaw must not end the run
            why = f"the scene could not go on: {type(error).__name__}: {error}"
        finally:
            await stage.aclose()
        for rule in scene.rules:
            if not ledger.of(rule):
                ledger.unseen(rule, why or "it did not happen in this scene")
        shutil.rmtree(stage.root, ignore_errors=True)


def due(scenes: Sequence[Scene[GroundT]], chosen: Sequence[Rule]) -> list[Scene[GroundT]]:
    """The scenes that show something of these rules. For the schema alone that is every one of them."""
    if list(chosen) == [SCHEMA]:
        return list(scenes)
    return [scene for scene in scenes if set(scene.rules) & set(chosen)]


def clean_ground() -> tempfile.TemporaryDirectory[str]:
    """The folder of a run, which goes with it."""
    return tempfile.TemporaryDirectory(prefix="accord-check-", ignore_cleanup_errors=True)


def report(
    kind: str, info: Any, script: Script, ledger: Ledger, chosen: Sequence[Rule], untried: Mapping[int, str]
) -> Report:
    """The verdicts on these rules. `info` is how the program introduced itself."""
    for number, why in untried.items():
        ledger.unseen(number, f"not tried: {why}")
    return Report(
        kind=kind,
        name=str(at(info, "name") or "unknown"),
        version=str(at(info, "version") or ""),
        script=script.name,
        findings=find(ledger, chosen, ours=script.ours),
    )
