"""Terminals of an agent, and what it does in the background, as version 2 reports them."""

from base64 import b64decode, b64encode
from binascii import Error
from typing import Final

from msgspec import Struct

from accord.schema.base import Int64, Record

MAX_OUTPUT: Final = 1024 * 1024
"""The output kept of each terminal, in bytes. The beginning is cut off."""


class TerminalExit(Record):
    """How the command of a terminal ended: a code, or the signal that ended it."""

    exit_code: Int64 | None = None
    signal: str | None = None


class BackgroundItem(Record):
    """Something that goes on while the session is idle."""

    kind: str
    """"terminal", "tool_call", "subagent", or another word of the agent."""
    id: str
    """The id of the terminal, the tool call or the child session."""


def decode_output(data: str) -> bytes:
    """Decode base64; return nothing if it cannot be decoded."""
    try:
        return b64decode(data)
    except (Error, ValueError):
        return b""


class TerminalState(Struct):
    """One terminal of the agent. The client only shows it."""

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: bytes = b""
    exit: TerminalExit | None = None
    cancellable: bool = False

    @property
    def text(self) -> str:
        """The output as text. It may contain terminal sequences: make it safe before you show it."""
        return self.output.decode(errors="replace")

    def replace_output(self, data: str) -> None:
        """Replace the output with base64 encoded bytes."""
        self.output = b""
        self.append_output(data)

    def append_output(self, data: str) -> None:
        """Append base64 encoded bytes; nothing if they cannot be decoded."""
        self.output = (self.output + decode_output(data))[-MAX_OUTPUT:]

    @property
    def encoded_output(self) -> str:
        """The output, base64 encoded."""
        return b64encode(self.output).decode("ascii")
