"""Single requests of streamable HTTP: post, event stream, delete. Uses HTTP/2 if the server offers it.

Imported on first use: it loads httpx2.
"""

import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx2
from msgspec import Struct

from accord.wire.remote.address import AgentAddress, NetworkTimeouts
from accord.wire.remote.network_errors import error_sentence, status_sentence

CONNECTION_ID: Final = "Acp-Connection-Id"
SESSION_ID: Final = "Acp-Session-Id"
MAX_ERROR_BODY: Final = 8 * 1024
"""How much of the body of an error is read."""

# At debug level these libraries log every header, including the token and the cookies.
for _library in ("hpack", "httpcore2"):
    logging.getLogger(_library).setLevel(logging.INFO)

_KEEP_ALIVE: Final = 3.0
"""Seconds that an idle connection is kept. Servers close them after five."""


class PostResponse(Struct, frozen=True):
    """The response to a post."""

    status: int
    body: bytes = b""
    connection_id: str | None = None
    json: bool = False


class NetworkFailure(Exception):
    """The network failed; `sent` says whether the server may have received the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent: bool = sent


class StreamRejected(Exception):
    """The server refused to open an event stream."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(status_sentence(status, body, connected=True))
        self.status: int = status


class EventResponse:
    """An open event stream; iterate over its bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def cut(self) -> None:
        """Close the connection, so that the reader gets an error."""
        stream: Any = self._response.extensions.get("network_stream")
        if stream is not None:
            await stream.aclose()


class HttpClient:
    """All requests to one server.

    Posts share a connection. Each event stream has its own, also over HTTP/2: the library's readers of one
    connection take turns at its socket, and with three of them a response can wait unread behind idle
    streams.
    """

    def __init__(self, address: AgentAddress, timeouts: NetworkTimeouts) -> None:
        self._address = address
        self._timeouts = timeouts
        self._url = address.url
        self._tls = address.tls_context() if address.secure else False
        self._client = self._new_client()

    def _new_client(self) -> httpx2.AsyncClient:
        address = self._address
        keep_alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        if hasattr(socket, "TCP_KEEPIDLE"):
            keep_alive.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30))
        transport = httpx2.AsyncHTTPTransport(
            verify=self._tls,
            http2=True,
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=8, keepalive_expiry=_KEEP_ALIVE
            ),
            socket_options=keep_alive,
        )
        return httpx2.AsyncClient(
            transport=transport,
            cookies=address.cookies,
            headers=[
                ("Accept-Encoding", "identity"),
                ("User-Agent", "accord"),
                *address.headers,
            ],
            timeout=httpx2.Timeout(None, connect=self._timeouts.connect),
            trust_env=False,
            follow_redirects=False,
        )

    async def post(
        self,
        frame: bytes,
        ids: dict[str, str],
        on_sent: Callable[[], None],
        *,
        max_bytes: int = MAX_ERROR_BODY,
    ) -> PostResponse:
        """Post a message; `on_sent` is called when its bytes are written. Raises NetworkFailure."""
        headers = {
            **ids,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(frame)),
        }
        with _network_errors():
            request = self._client.build_request(
                "POST", self._url, content=_stream_body(frame, on_sent), headers=headers
            )
            response = await self._client.send(request, stream=True)
            try:
                body = await _read_at_most(response, max_bytes)
            finally:
                await response.aclose()
        json = response.headers.get("content-type", "").startswith("application/json")
        return PostResponse(response.status_code, body, response.headers.get(CONNECTION_ID), json)

    @asynccontextmanager
    async def events(self, ids: dict[str, str], last_id: str | None) -> AsyncGenerator[EventResponse]:
        """Open an event stream. Raises StreamRejected, NetworkFailure; reading it raises NetworkFailure."""
        headers = {**ids, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        async with self._new_client() as client:
            with _network_errors():
                async with client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != 200:
                        raise StreamRejected(
                            response.status_code, await _read_at_most(response, MAX_ERROR_BODY)
                        )
                    yield EventResponse(response)

    async def delete(self, ids: dict[str, str]) -> None:
        """End the connection at the server. Raises NetworkFailure."""
        with _network_errors():
            await self._client.delete(self._url, headers=ids)

    async def aclose(self) -> None:
        """Close the connections of the posts; streams close their own."""
        await self._client.aclose()


class _network_errors:  # noqa: N801 - used as a statement
    """Turns errors of the HTTP library into NetworkFailure."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            raise NetworkFailure(_innermost_reason(error), sent=False) from None
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError | httpx2.InvalidURL):
            raise NetworkFailure(_innermost_reason(error), sent=True) from None


def _innermost_reason(error: Exception) -> str:
    """Return the innermost error, which the libraries wrap several times."""
    current: BaseException | None = error
    innermost: OSError | None = None
    while current is not None:
        if isinstance(current, OSError):
            innermost = current
        if isinstance(current, ExceptionGroup):
            current = cast("ExceptionGroup[Exception]", current).exceptions[0]
        else:
            current = current.__cause__ or current.__context__
    if innermost is not None:
        return error_sentence(innermost)
    if isinstance(error, httpx2.TimeoutException):
        return "it does not respond"
    return error_sentence(error)


async def _stream_body(frame: bytes, on_sent: Callable[[], None]) -> AsyncGenerator[bytes]:
    yield frame
    on_sent()


async def _read_at_most(response: httpx2.Response, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            break
    return b"".join(parts)[: max_bytes + 1]
