"""How the agent under test is started and seen out. A process is the one way that ships; tests bring their own."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.children import Patience
from accord.wire.process import ProcessTransport, spawn
from accord.wire.transport import Transport

_PIECES: Final = str(Path(__file__).with_name("pieces.py"))


class Place(NamedTuple):
    """Where an agent starts: a folder that is not the session's, its own data, more words, more environment."""

    spawn: Path
    home: Path
    words: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    pieces: bool = False
    """Whether what is sent to the agent reaches it byte by byte."""


class Launched(Protocol):
    """One running agent."""

    @property
    def transport(self) -> Transport:
        """The wire to it."""
        ...

    @property
    def stderr(self) -> str:
        """Its last words."""
        ...

    async def leave(self) -> str:
        """Close its input and see it out. Empty when it left by itself; else what had to be done."""
        ...


class Launcher(Protocol):
    """Starts agents."""

    async def __call__(self, place: Place) -> Launched:
        """Start one; raises `NeverStarted`."""
        ...


class ProcessAgent:
    """An agent in a process of its own."""

    def __init__(self, transport: ProcessTransport, leave: float, clock: Clock) -> None:
        self.transport = transport
        self._leave = leave
        self._clock = clock

    @property
    def stderr(self) -> str:
        return self.transport.stderr

    async def leave(self) -> str:
        began = self._clock.now()
        await self.transport.aclose()
        if self._clock.now() - began < self._leave:
            return ""
        return f"it still ran {self._leave:g} seconds after its input was closed, and was ended"


class ProcessLauncher:
    """Starts a command line, in the folder of whoever checks: its words may be relative paths."""

    def __init__(self, command: Sequence[str], *, leave: float = 5.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self.command = list(command)
        self._leave = leave
        self._clock = clock

    async def __call__(self, place: Place) -> ProcessAgent:
        environment = {"ACCORD_HOME": str(place.home), **place.environment}
        before = [sys.executable, "-I", "-S", _PIECES] if place.pieces else []
        transport = await spawn(
            [*before, *self.command, *place.words],
            env=environment,
            patience=Patience(leave=self._leave),
            clock=self._clock,
        )
        return ProcessAgent(transport, self._leave, self._clock)
