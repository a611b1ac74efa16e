"""One request and its response, the same over both HTTP versions; common headers and refusals."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import ceil
from urllib.parse import unquote_to_bytes

from accord.gateway.access.authentication import AuthRequest
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.http.server_state import HttpServerState

# MERGED gateway.front.exchange: One request and its response, the same over HTTP/1.1 and HTTP/2. Handlers are plain functions; nothing here waits.
#
# A handler is called when the head is there. It may answer at once, or ask for the body first, or begin a response that goes on.

Headers = list[tuple[str, str]]


class HttpExchange(ABC):
    """A request that is answered once: by `respond`, or by `begin`, any number of `write` and `finish`."""

    def __init__(self, request: AuthRequest, declared: int | None) -> None:
        self.request = request
        self.answered = False
        self.upgrade: Callable[[asyncio.Protocol, Headers], None] | None = None
        """For a WebSocket handshake: accept it with these headers, and let that protocol have the socket."""
        self.on_disconnect: Callable[[], None] | None = None
        """The client has gone before the response was finished."""
        self.on_ready: Callable[[], None] | None = None
        """`ready` has become true."""
        self._declared = declared
        self._body: list[bytes] = []
        self._size = 0
        self._limit = 0
        self._on_body: Callable[[bytes | None], None] | None = None
        self._complete = False

    def read(self, limit: int, on_body: Callable[[bytes | None], None]) -> None:
        """Call back with the whole body, or with None as soon as it is known to be larger than the limit."""
        self._limit, self._on_body = limit, on_body
        if self._declared is not None and self._declared > limit:
            self._too_large()
        else:
            self.accept_body()
            if self._complete:
                self.body_ended()

    def body(self, data: bytes) -> None:
        """A piece of the body arrived; nothing of it is kept if nobody asked."""
        if self._on_body is None:
            return
        self._size += len(data)
        if self._size > self._limit:
            self._too_large()
        else:
            self._body.append(data)

    def body_ended(self) -> None:
        """The body is complete."""
        self._complete = True
        on_body, self._on_body = self._on_body, None
        if on_body is not None:
            body, self._body = b"".join(self._body), []
            on_body(body)

    def _too_large(self) -> None:
        on_body, self._on_body, self._body = self._on_body, None, []
        if on_body is not None:
            on_body(None)

    def disconnected(self) -> None:
        """The client has gone."""
        self._on_body, self._body = None, []
        on_disconnect, self.on_disconnect = self.on_disconnect, None
        self.on_ready = None
        if on_disconnect is not None:
            on_disconnect()

    @abstractmethod
    def accept_body(self) -> None:
        """The body is wanted; a client that waits to be told so is told."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """The whole response."""

    @abstractmethod
    def start(self, status: int, headers: Headers) -> None:
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
        raise RequestRefused(400, "The target of a request is a path that begins with a slash.")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise RequestRefused(400, "The path of this request is not UTF-8.") from None
    if any(ord(char) < 0x20 or char == "\x7f" for char in decoded):
        raise RequestRefused(400, "The path of this request has control characters.")
    return decoded, query


def headers_by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Headers by their name in lower case."""
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return by_name


# MERGED gateway.front.reply: Answers: the headers that every one carries, a refusal as one line of text, what is counted of them.


def answer(
    server_state: HttpServerState,
    exchange: HttpExchange,
    status: int,
    body: bytes = b"",
    kind: str | None = None,
    headers: Headers | None = None,
) -> None:
    """A whole response. Nothing of it is stored on the way unless its own headers say so."""
    if exchange.answered:
        return
    server_state.metrics.requests[str(status)] += 1
    exchange.respond(status, common_headers(server_state, exchange, kind, headers or []), body)


def common_headers(
    server_state: HttpServerState, exchange: HttpExchange, kind: str | None, headers: Headers
) -> Headers:
    """The headers of every response, and these."""
    names = {name.lower() for name, _ in headers}
    common = [
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        *server_state.authenticator.cors(exchange.request).items(),
    ]
    if kind is not None:
        common.append(("Content-Type", kind))
    return [*(pair for pair in common if pair[0].lower() not in names), *headers]


def refuse(server_state: HttpServerState, exchange: HttpExchange, refusal: RequestRefused) -> None:
    """A refusal: its status, its sentence as text."""
    server_state.metrics.refused[_REFUSAL_METRICS.get(refusal.status, "request")] += 1
    text = refusal.reason.encode() + b"\n"
    answer(
        server_state,
        exchange,
        refusal.status,
        text,
        "text/plain; charset=utf-8",
        list(refusal.headers.items()),
    )


def limit_refusal(error: GatewayLimitReached) -> RequestRefused:
    """The refusal for a limit."""
    seconds = error.retry_after
    return RequestRefused(
        error.status, error.message, {} if seconds is None else {"Retry-After": str(max(1, ceil(seconds)))}
    )


_REFUSAL_METRICS = {
    401: "token",
    403: "origin",
    404: "unknown",
    408: "slow",
    413: "size",
    421: "host",
    429: "limit",
    500: "failed",
    504: "failed",
}
