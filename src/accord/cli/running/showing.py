"""Stand-in for the output room."""

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO

from accord.client import ClientEvent, ClientSession, RemoteAgent
from accord.errors import AccordError
from accord.schema import AgentMessageChunk
from accord.session import TurnEnded, text_of


class Output(Protocol):
    def opened(self, session: ClientSession, agent: RemoteAgent) -> None: ...
    def event(self, event: ClientEvent) -> None: ...
    def note(self, text: str) -> None: ...
    def question(self) -> AbstractContextManager[None]: ...
    def finished(self, ended: TurnEnded | None, error: AccordError | None, exit_code: int) -> None: ...


def clean_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clean_text(text: str) -> str:
    return "\n".join(map(clean_line, text.split("\n")))


class _Minimal:
    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self.stdout, self.stderr = stdout, stderr

    def opened(self, session: ClientSession, agent: RemoteAgent) -> None: ...

    def event(self, event: ClientEvent) -> None:
        if isinstance(event, AgentMessageChunk):
            self.stdout.write(clean_text(text_of(event)))
            self.stdout.flush()

    def note(self, text: str) -> None:
        self.stderr.write(f"accord run: {clean_line(text)}\n")
        self.stderr.flush()

    @contextmanager
    def question(self) -> Generator[None]:
        yield

    def finished(self, ended: TurnEnded | None, error: AccordError | None, exit_code: int) -> None:
        self.stdout.write("\n")
        if error is not None:
            self.stderr.write(f"accord run: {clean_text(str(error))}\n")


def output_for(format: str, **streams: Any) -> Output:
    return _Minimal(streams.get("stdout", sys.stdout), streams.get("stderr", sys.stderr))
