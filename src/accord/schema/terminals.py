"""Terminals: commands that the client runs for the agent, each until it is released."""

from .base import UNSET, Object
from .ids import SessionId, TerminalId
from .marks import Opt, OrEmpty, Strict, Uint32, Uint64


class EnvVariable(Object):
    """One environment variable."""

    name: str
    value: str


class CreateTerminalRequest(Object):
    """Start a command. Answered at once; the command runs on."""

    session_id: SessionId
    command: str
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[list[EnvVariable]]] = UNSET
    cwd: Strict[str | None] = UNSET
    output_byte_limit: Strict[Uint64 | None] = UNSET


class CreateTerminalResponse(Object):
    """The id to use from now on."""

    terminal_id: TerminalId


class TerminalOutputRequest(Object):
    """What has the command printed so far? Does not wait."""

    session_id: SessionId
    terminal_id: TerminalId


class TerminalExitStatus(Object):
    """How a command ended: a code, or the signal that ended it."""

    exit_code: Opt[Uint32 | None] = UNSET
    signal: Opt[str | None] = UNSET


class TerminalOutputResponse(Object):
    """The output kept so far, cut from its beginning where it was too long; the status once the command has ended."""

    output: str
    truncated: bool
    exit_status: Opt[TerminalExitStatus | None] = UNSET


class WaitForTerminalExitRequest(Object):
    """Answer when the command has ended."""

    session_id: SessionId
    terminal_id: TerminalId


class WaitForTerminalExitResponse(Object):
    """How the command ended; the same members as `TerminalExitStatus`, not nested."""

    exit_code: Opt[Uint32 | None] = UNSET
    signal: Opt[str | None] = UNSET


class KillTerminalRequest(Object):
    """Stop the command. The terminal stays readable and still has to be released."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(Object):
    """The command is being stopped."""


class ReleaseTerminalRequest(Object):
    """Stop the command if it runs, and forget the terminal: its id is dead afterwards."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(Object):
    """The terminal is gone."""
