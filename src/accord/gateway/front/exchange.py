"""One request and its response, the same over HTTP/1.1 and HTTP/2. Handlers are plain functions; nothing here waits.

A handler is called when the head is there. It may answer at once, or ask for the body first, or begin a response that goes on.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from urllib.parse import unquote_to_bytes

from accord.gateway.access.door import Request
from accord.gateway.access.refusals import Refused

Headers = list[tuple[str, str]]


class Exchange(ABC):
    """A request that is answered once: by `respond`, or by `begin`, any number of `write` and `finish`."""

    def __init__(self, request: Request, declared: int | None) -> None:
        self.request = request
        self.answered = False
        self.upgrade: Callable[[asyncio.Protocol, Headers], None] | None = None
        """For a WebSocket handshake: accept it with these headers, and let that protocol have the socket."""
        self.on_gone: Callable[[], None] | None = None
        """The client has gone before the response was finished."""
        self.on_ready: Callable[[], None] | None = None
        """`ready` has become true."""
        self._declared = declared
        self._body: list[bytes] = []
        self._size = 0
        self._limit = 0
        self._then: Callable[[bytes | None], None] | None = None
        self._complete = False

    def read(self, limit: int, then: Callable[[bytes | None], None]) -> None:
        """Call back with the whole body, or with None as soon as it is known to be larger than the limit."""
        self._limit, self._then = limit, then
        if self._declared is not None and self._declared > limit:
            self._over()
        else:
            self.accept_body()
            if self._complete:
                self.body_ended()

    def body(self, data: bytes) -> None:
        """A piece of the body arrived; nothing of it is kept if nobody asked."""
        if self._then is None:
            return
        self._size += len(data)
        if self._size > self._limit:
            self._over()
        else:
            self._body.append(data)

    def body_ended(self) -> None:
        """The body is complete."""
        self._complete = True
        then, self._then = self._then, None
        if then is not None:
            body, self._body = b"".join(self._body), []
            then(body)

    def _over(self) -> None:
        then, self._then, self._body = self._then, None, []
        if then is not None:
            then(None)

    def gone(self) -> None:
        """The client has gone."""
        self._then, self._body = None, []
        on_gone, self.on_gone = self.on_gone, None
        self.on_ready = None
        if on_gone is not None:
            on_gone()

    @abstractmethod
    def accept_body(self) -> None:
        """The body is wanted; a client that waits to be told so is told."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """The whole response."""

    @abstractmethod
    def begin(self, status: int, headers: Headers) -> None:
        """The head of a response that goes on."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """More of it."""

    @abstractmethod
    def finish(self) -> None:
        """The end of it."""

    @abstractmethod
    def abort(self) -> None:
        """Break off: the client must see that it is not the end."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether the client takes more."""

    @property
    @abstractmethod
    def buffered(self) -> int:
        """Bytes written that the client has not taken."""


def read_target(target: str) -> tuple[str, str]:
    """The decoded path and the query of a request's target. Raises Refused."""
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise Refused(400, "The target of a request is a path that begins with a slash.")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise Refused(400, "The path of this request is not UTF-8.") from None
    if any(ord(char) < 0x20 or char == "\x7f" for char in decoded):
        raise Refused(400, "The path of this request has control characters.")
    return decoded, query


def gather(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Headers by their name in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found
