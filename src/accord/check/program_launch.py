"""Starts the program under test: what agents and clients share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accord.clock import SYSTEM_CLOCK, Clock


class StartOptions(NamedTuple):
    """How to start a program: its folders, more arguments and environment variables."""

    folder: Path
    """A client's session folder. An agent gets another one; agents in memory resolve relative paths in it."""
    home: Path
    """The value of `ACCORD_HOME`."""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    byte_by_byte: bool = False
    """Whether an agent's input arrives byte by byte."""
    prompt: str = ""
    """The prompt of a client."""
    terminal: bool = False
    """Whether a client runs in a terminal."""


class ProgramLauncher:
    """Starts programs by a command line. `env` are additional variables for every start."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.command: list[str] = list(command)
        self._env = dict(env or {})
        self._clock = clock

    def environment(self, options: StartOptions) -> dict[str, str]:
        """All additional variables of one start."""
        return {**self._env, "ACCORD_HOME": str(options.home), **options.environment}
