"""The output interface and the stream it writes to; notes on stderr."""

import io
import os
import select
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from accord.errors import AccordError
from accord.safe_text import clean_line, clean_text

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.session import TurnEnded


# MERGED cli.output.contract: The seam between `accord run` and what it shows: one turn, event by event, to whoever reads stdout.


class Output(Protocol):
    """Shows a turn. Called on the event loop, in this order: `opened`, `event` for each, `finished`; the others between.

    When nobody reads stdout any more, `event` and `opened` raise BrokenPipeError, and nothing else does.
    """

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there; its turn is about to begin."""
        ...

    def event(self, event: "ClientEvent") -> None:
        """Something happened."""
        ...

    def note(self, text: str) -> None:
        """Tell people something, on one line, on stderr."""
        ...

    def question(self) -> AbstractContextManager[None]:
        """The terminal belongs to a question meanwhile: no live lines, no half line."""
        ...

    def finished(self, ended: "TurnEnded | None", error: "AccordError | None", exit_code: int) -> None:
        """The turn is over, or never came about. Tells the error as well: nobody else needs to."""
        ...


# MERGED cli.output.sink: Where output goes: written at once, in the encoding of the stream, and without a traceback when nobody reads any more.

_WAIT: Final = 60_000


class OutputStream:
    """One stream, or none where the command was started without. Everything written is out when the call returns.

    It is written past the stream's own buffer, because that loses text where the terminal was set not to block, which
    happens when it is also the stdin that somebody watches.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self.broken = False
        """Whether the reader is gone."""
        self._stream = stream
        self._file: int | None = None
        try:
            self._file = None if stream is None else stream.fileno()
        except (OSError, AttributeError, io.UnsupportedOperation):
            pass

    def write(self, text: str) -> None:
        """Write it. BrokenPipeError when the reader is gone, AccordError when it cannot be written."""
        if self.broken:
            raise BrokenPipeError("the reader of the output is gone")
        if not text or self._stream is None:
            return
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        try:
            self._stream.flush()
            self._write_out(self._file, text.encode(self.encoding, "replace"))
        except BrokenPipeError:
            self._give_up()
            raise
        except OSError as error:
            self._give_up()
            raise AccordError(f"the output cannot be written: {error.strerror or error}") from None

    def say(self, text: str) -> None:
        """Write it, or nothing if that cannot be done: for last words, and for what must not disturb."""
        try:
            self.write(text)
        except (BrokenPipeError, AccordError):
            pass

    def _write_out(self, file: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(file, select.POLLOUT)
                poll.poll(_WAIT)

    def _give_up(self) -> None:
        """What is written later, by anybody, the interpreter's last flush included, goes nowhere and fails nothing."""
        self.broken = True
        if self._file is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file)
            os.close(nowhere)


# MERGED cli.output.notes: What is told on stderr: notes and errors, cleaned, since both may quote the agent.


def note_line(text: str, command: str = "run") -> str:
    """One line for people."""
    return f"accord {command}: {clean_line(text).strip()}\n"


def error_text(error: AccordError, command: str = "run") -> str:
    """The error; the last words of an agent that died stand on lines of their own."""
    return f"accord {command}: {clean_text(str(error)).strip()}\n"
