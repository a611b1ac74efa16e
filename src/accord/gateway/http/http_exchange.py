"""One request and its response, the same over both HTTP versions; common headers and refusals.

A handler is a plain function. It is called when the request head was received. It may respond at once, read
the body first, start a streaming response, or answer later in a task.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from math import ceil
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from accord.gateway.access.authentication import AuthRequest
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.http.server_state import HttpServerState, ServerSocket

LOG = logging.getLogger("accord.gateway.http")
Headers = list[tuple[str, str]]

_HSTS: Final = "max-age=2592000"
"""For 30 days, a browser that has used TLS here never uses plain HTTP."""


class HttpExchange(ABC):
    """One request that is answered once: with `respond`, or with `start`, any number of `write`, and
    `finish`.
    """

    def __init__(self, request: AuthRequest, declared_length: int | None) -> None:
        self.request: AuthRequest = request
        self.response_started: bool = False
        """Whether `respond` or `start` was called."""
        self.upgrade: Callable[[asyncio.Protocol, Headers], None] | None = None
        """For a WebSocket handshake: accept it with these headers and switch the socket to this protocol."""
        self.on_disconnect: Callable[[], None] | None = None
        """Called when the client disconnects before the response is finished."""
        self.on_ready: Callable[[], None] | None = None
        """Called when `ready` becomes true."""
        self._declared_length = declared_length
        self._body: list[bytes] = []
        self._body_size = 0
        self._body_limit = 0
        self._on_body: Callable[[bytes | None], None] | None = None
        self._body_complete = False

    @property
    @abstractmethod
    def socket(self) -> ServerSocket:
        """The socket that the request came by."""

    def read_body(self, limit: int, on_body: Callable[[bytes | None], None]) -> None:
        """Call `on_body` with the whole body, or with None as soon as it exceeds the limit."""
        self._body_limit, self._on_body = limit, on_body
        if self._declared_length is not None and self._declared_length > limit:
            self._too_large()
        else:
            self.send_continue()
            if self._body_complete:
                self.body_ended()

    def receive_body(self, data: bytes) -> None:
        """Take a part of the body. Discards it if no handler called `read_body`."""
        if self._on_body is None:
            return
        self._body_size += len(data)
        if self._body_size > self._body_limit:
            self._too_large()
        else:
            self._body.append(data)

    def body_ended(self) -> None:
        """Handle the end of the body."""
        self._body_complete = True
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
    def send_continue(self) -> None:
        """Send `100 Continue` if the client waits for it."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response."""

    @abstractmethod
    def start(self, status: int, headers: Headers) -> None:
        """Send the head of a streaming response."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send a part of the streaming response."""

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


def send_response(
    server_state: HttpServerState,
    exchange: HttpExchange,
    status: int,
    body: bytes = b"",
    content_type: str | None = None,
    headers: Headers | None = None,
) -> None:
    """Send a whole response; it is not cached unless `headers` say so."""
    if exchange.response_started:
        return
    server_state.metrics.requests[str(status)] += 1
    exchange.respond(status, common_headers(server_state, exchange, content_type, headers or []), body)


def common_headers(
    server_state: HttpServerState, exchange: HttpExchange, content_type: str | None, headers: Headers
) -> Headers:
    """Return the headers of every response, and these."""
    names = {name.lower() for name, _ in headers}
    common = [
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        *([("Strict-Transport-Security", _HSTS)] if server_state.config.tls is not None else ()),
        *server_state.authenticator.cors_headers(exchange.request).items(),
    ]
    if content_type is not None:
        common.append(("Content-Type", content_type))
    return [*((name, value) for name, value in common if name.lower() not in names), *headers]


def send_refusal(server_state: HttpServerState, exchange: HttpExchange, refusal: RequestRefused) -> None:
    """Answer with a refusal: its status, and its reason as text."""
    server_state.metrics.refused[_REFUSAL_METRICS.get(refusal.status, "request")] += 1
    text = refusal.reason.encode() + b"\n"
    send_response(
        server_state,
        exchange,
        refusal.status,
        text,
        "text/plain; charset=utf-8",
        list(refusal.headers.items()),
    )


def send_error(server_state: HttpServerState, exchange: HttpExchange, error: Exception) -> None:
    """Answer a request whose handler raised this error."""
    if isinstance(error, GatewayLimitReached):
        error = refusal_for_limit(error)
    if not isinstance(error, RequestRefused):
        LOG.error(
            "%s %s failed: %s", exchange.request.method, exchange.request.path[:64], type(error).__name__
        )
        error = RequestRefused(500, "Internal error; see the gateway's log.")
    send_refusal(server_state, exchange, error)


def answer_later(
    server_state: HttpServerState, exchange: HttpExchange, work: Coroutine[Any, Any, None]
) -> None:
    """Run a handler that waits, as a task that ends when the client disconnects."""

    async def run() -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - request boundary: other requests share the socket
            send_error(server_state, exchange, error)
        finally:
            if exchange.on_disconnect is cancel:
                exchange.on_disconnect = None

    def cancel() -> None:
        task.cancel()

    task = server_state.tasks.start(run())
    exchange.on_disconnect = cancel


def refusal_for_limit(error: GatewayLimitReached) -> RequestRefused:
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
