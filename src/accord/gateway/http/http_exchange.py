"""One request and its response, the same over both HTTP versions; common headers and refusals.

A handler is a plain function. It is called when the request head is there. It may answer at once, ask for
the body first, or start a streaming response.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import ceil
from urllib.parse import unquote_to_bytes

from accord.gateway.access.authentication import AuthRequest
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.http.server_state import HttpServerState

Headers = list[tuple[str, str]]


class HttpExchange(ABC):
    """One request that is answered once: with `respond`, or with `start`, any number of `write`, and
    `finish`.
    """

    def __init__(self, request: AuthRequest, declared: int | None) -> None:
        self.request: AuthRequest = request
        self.answered: bool = False
        self.upgrade: Callable[[asyncio.Protocol, Headers], None] | None = None
        """For a WebSocket handshake: accept it with these headers and switch the socket to this protocol."""
        self.on_disconnect: Callable[[], None] | None = None
        """Called when the client disconnects before the response is finished."""
        self.on_ready: Callable[[], None] | None = None
        """Called when `ready` becomes true."""
        self._declared = declared
        self._body: list[bytes] = []
        self._size = 0
        self._limit = 0
        self._on_body: Callable[[bytes | None], None] | None = None
        self._complete = False

    def read(self, limit: int, on_body: Callable[[bytes | None], None]) -> None:
        """Call `on_body` with the whole body, or with None as soon as it exceeds the limit."""
        self._limit, self._on_body = limit, on_body
        if self._declared is not None and self._declared > limit:
            self._too_large()
        else:
            self.accept_body()
            if self._complete:
                self.body_ended()

    def body(self, data: bytes) -> None:
        """Take a piece of the body; discards it if no handler asked for the body."""
        if self._on_body is None:
            return
        self._size += len(data)
        if self._size > self._limit:
            self._too_large()
        else:
            self._body.append(data)

    def body_ended(self) -> None:
        """Handle the end of the body."""
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
        """Handle the disconnect of the client."""
        self._on_body, self._body = None, []
        on_disconnect, self.on_disconnect = self.on_disconnect, None
        self.on_ready = None
        if on_disconnect is not None:
            on_disconnect()

    @abstractmethod
    def accept_body(self) -> None:
        """Send `100 Continue` if the client waits for it."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response."""

    @abstractmethod
    def start(self, status: int, headers: Headers) -> None:
        """Send the head of a streaming response."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send a piece of the streaming response."""

    @abstractmethod
    def finish(self) -> None:
        """End the streaming response."""

    @abstractmethod
    def abort(self) -> None:
        """Break the response off, so that the client sees that it is incomplete."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether the client takes more."""

    @property
    @abstractmethod
    def buffered(self) -> int:
        """Bytes written that the client has not taken."""


def read_target(target: str) -> tuple[str, str]:
    """Return the decoded path and the query of a request target. Raises RequestRefused."""
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise RequestRefused(400, "The request target must be a path that starts with a slash.")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise RequestRefused(400, "The request path is not UTF-8.") from None
    if any(ord(char) < 0x20 or char == "\x7f" for char in decoded):
        raise RequestRefused(400, "The request path contains control characters.")
    return decoded, query


def headers_by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return the header values by lower-case name."""
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return by_name


def answer(
    server_state: HttpServerState,
    exchange: HttpExchange,
    status: int,
    body: bytes = b"",
    kind: str | None = None,
    headers: Headers | None = None,
) -> None:
    """Send a whole response; it is not cached unless `headers` say so."""
    if exchange.answered:
        return
    server_state.metrics.requests[str(status)] += 1
    exchange.respond(status, common_headers(server_state, exchange, kind, headers or []), body)


def common_headers(
    server_state: HttpServerState, exchange: HttpExchange, kind: str | None, headers: Headers
) -> Headers:
    """Return the headers of every response, and these."""
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
    """Answer with a refusal: its status, and its reason as text."""
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
    """Return the refusal for a reached limit."""
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
