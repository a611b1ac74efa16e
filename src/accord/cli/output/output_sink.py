"""The interface between `accord run` and its outputs, the stream they write to, and the notes on stderr."""

import io
import os
import select
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from msgspec import UNSET

from accord.errors import AccordError
from accord.safe_text import clean_line, clean_text

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.session import TurnEnded


class Output(Protocol):
    """Shows a turn. Called on the event loop: `opened`, then `event` for each event, then `finished`.

    `note` and `question` may be called in between. Only `opened` and `event` raise BrokenPipeError, when
    stdout is closed.
    """

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """Show that the session is open; its turn follows."""
        ...

    def event(self, event: "ClientEvent") -> None:
        """Show an event of the turn."""
        ...

    def note(self, text: str) -> None:
        """Print a note for the user on stderr, in one line."""
        ...

    def question(self) -> AbstractContextManager[None]:
        """Leave the terminal to a question while the block runs: no live lines, no unfinished line."""
        ...

    def prompt(self, text: str) -> None:
        """Remember the prompt on the screen, to repeat it below other output; "" for none."""
        ...

    def finished(
        self, ended: "TurnEnded | None", error: "AccordError | None", exit_code: int, value: Any = UNSET
    ) -> None:
        """Show the end of the turn, and the error. Also called if the turn never started.

        `value` is the answer, if it was asked for in JSON and matches its schema.
        """
        ...


_WAIT_SECONDS: Final = 60.0


class OutputStream:
    """Writes to a stream, or to nothing if the caller closed it. Each call returns after the text is written.

    It bypasses the stream's own buffer. That buffer loses text if the terminal is in non-blocking mode, which
    happens while the event loop watches the same terminal as stdin.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.encoding: str = getattr(stream, "encoding", None) or "utf-8"
        self.broken: bool = False
        """Whether the reader closed the stream."""
        self.prompt: str = ""
        """The prompt on the terminal. Text that is written meanwhile begins on a new line, and the prompt
        follows it."""
        self._stream = stream
        self._file: int | None = None
        try:
            self._file = None if stream is None else stream.fileno()
        except (OSError, AttributeError, io.UnsupportedOperation):
            pass

    def write(self, text: str) -> None:
        """Write the text.

        Raises BrokenPipeError if the reader closed the stream, AccordError for other failures.
        """
        if self.broken:
            raise BrokenPipeError("the reader closed the output")
        if not text or self._stream is None:
            return
        if self.prompt and self._stream.isatty():
            text = f"\n{text}{self.prompt}"
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        try:
            self._stream.flush()
            self._write_bytes(self._file, text.encode(self.encoding, "replace"))
        except BrokenPipeError:
            self._redirect_to_null()
            raise
        except OSError as error:
            self._redirect_to_null()
            raise AccordError(f"cannot write the output ({error.strerror or error})") from None

    def try_write(self, text: str) -> None:
        """Write the text and ignore failures: for final lines and notes."""
        try:
            self.write(text)
        except (BrokenPipeError, AccordError):
            pass

    def _write_bytes(self, file: int, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            try:
                remaining = remaining[os.write(file, remaining) :]
            except BlockingIOError:
                select.select((), (file,), (), _WAIT_SECONDS)

    def _redirect_to_null(self) -> None:
        """Redirect the stream to the null device, so that later writes and the flush at exit do not fail."""
        self.broken = True
        if self._file is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._file)
            os.close(null)


def note_line(text: str, command: str = "run") -> str:
    """Return a note as a line for stderr, cleaned because it may quote the agent."""
    return f"accord {command}: {clean_line(text).strip()}\n"


def error_text(error: AccordError, command: str = "run") -> str:
    """Return an error as lines for stderr, cleaned.

    The last stderr lines of a dead agent follow on their own lines.
    """
    return f"accord {command}: {clean_text(str(error)).strip()}\n"
