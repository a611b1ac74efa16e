"""The final answer alone: for `answer=$(accord run --format quiet ...)`."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accord.cleaning import clean_text
from accord.cli.output.notes import error_text, note_line
from accord.cli.output.sink import Sink
from accord.client.events import ClientEvent
from accord.client.words import words_of
from accord.errors import AccordError
from accord.session import Message, TurnEnded

if TYPE_CHECKING:
    from accord.client import ClientSession, RemoteAgent


class QuietOutput:
    """`--format quiet`. Stdout has the last message of the agent; stderr only notes and errors."""

    def __init__(self, stdout: Sink, stderr: Sink) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._session: ClientSession | None = None

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        self._session = session

    def event(self, event: ClientEvent) -> None:
        pass

    def note(self, text: str) -> None:
        self._stderr.say(note_line(text))

    @contextmanager
    def question(self) -> Generator[None]:
        yield

    def finished(self, ended: TurnEnded | None, error: AccordError | None, exit_code: int) -> None:
        answer = clean_text(final_answer(self._session)).strip("\n")
        if answer and ended is not None:
            self._stdout.say(f"{answer}\n")
        if error is not None:
            self._stderr.say(error_text(error))


def final_answer(session: "ClientSession | None") -> str:
    """The last message of the agent in the latest turn; "" when it said nothing."""
    if session is None:
        return ""
    for entry in reversed(session.state.history.latest_turn):
        if isinstance(entry, Message) and entry.kind == "agent":
            text = "".join(map(words_of, entry.blocks))
            if text.strip():
                return text
    return ""
