"""Textual's driver of a terminal, with answers of the terminal about what it has shown.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from accord.tui.slow_link import ANSWER, ASK, LinkPace

if TYPE_CHECKING:
    from textual.message import Message

_LAST_ANSWER_SECONDS: Final = 1.0
"""How long the end waits for answers, which would otherwise be typed into the shell."""


class _AnswerKey(Enum):
    ANSWER = "<terminal-answer>"


class AnswerParser(XTermParser):
    """Takes the answers out of the input, so that they are never part of a paste."""

    driver: "ClassVar[TerminalDriver | None]" = None

    def feed(self, data: str) -> "Iterable[Message]":
        for _ in range(data.count(ANSWER)):
            if self.driver is not None:
                self.driver.answer_received()
        rest = data.replace(ANSWER, "")
        return super().feed(rest) if rest or not data else ()


class TerminalDriver(LinuxDriver):
    """Asks the terminal what it has shown, for a `LinkPace`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # pyright: ignore[reportUnknownMemberType]
        self.pace: LinkPace = LinkPace()
        self.on_answer: Callable[[], None] = lambda: None
        """Called in the thread of the input."""
        self.on_start: Callable[[], None] = lambda: None
        """Called when the screen is opened, also after a program in the foreground."""
        sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
        sequences[ANSWER] = (_AnswerKey.ANSWER,)  # one that arrives in pieces
        AnswerParser.driver = self
        setattr(linux_driver, "XTermParser", AnswerParser)  # noqa: B010 - the driver creates its parser

    def answer_received(self) -> None:
        """The terminal has shown what was written before a question."""
        self.pace.answered(monotonic())
        self.on_answer()

    def process_message(self, message: "Message") -> None:
        if isinstance(message, events.Key) and message.key == _AnswerKey.ANSWER.value:
            self.answer_received()
        else:
            super().process_message(message)

    def write(self, data: str) -> None:
        super().write(data)
        if self.input_tty and self.pace.wrote(len(data.encode()), monotonic()):
            super().write(ASK)

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self.on_start()

    def stop_application_mode(self) -> None:
        self.pace.wait_for_answers(_LAST_ANSWER_SECONDS, monotonic())
        super().stop_application_mode()
