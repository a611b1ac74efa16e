"""Single requests of streamable HTTP: a post, a stream of events, a goodbye. HTTP/2 where the server offers it, else 1.1."""

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
BODY_SHOWN: Final = 8 * 1024
"""How much of an error's body is read."""

# At their lowest level these write every header, the token and the cookies among them.
for _talkative in ("hpack", "httpcore2"):
    logging.getLogger(_talkative).setLevel(logging.INFO)

_KEEP: Final = 3.0  # seconds an idle connection is kept; servers give them up after five


class PostResponse(Struct, frozen=True):
    """What came back for a post."""

    status: int
    body: bytes = b""
    connection_id: str | None = None
    json: bool = False


class NetworkFailure(Exception):
    """The network failed; `sent` says whether the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class StreamRejected(Exception):
    """A stream was not opened."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(status_sentence(status, body, connected=True))
        self.status = status


class EventResponse:
    """An open stream: its bytes as they come."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def cut(self) -> None:
        """Close the connection under it: whoever reads it finds it broken."""
        stream: Any = self._response.extensions.get("network_stream")
        if stream is not None:
            await stream.aclose()


class HttpClient:
    """Everything that goes to one server.

    Posts share a connection. Each stream has one of its own, over HTTP/2, too: the library's readers of one connection take
    turns at its socket, and with three of them an answer can lie unnoticed behind streams that have nothing to say.
    """

    def __init__(self, address: AgentAddress, times: NetworkTimeouts) -> None:
        self._address = address
        self._times = times
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
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=_KEEP),
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
            timeout=httpx2.Timeout(None, connect=self._times.connect),
            trust_env=False,
            follow_redirects=False,
        )

    async def post(
        self, frame: bytes, ids: dict[str, str], left: Callable[[], None], *, longest: int = BODY_SHOWN
    ) -> PostResponse:
        """Post a message; `left` is called when its bytes are gone. Raises Unreachable."""
        headers = {
            **ids,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(frame)),
        }
        with _network():
            request = self._client.build_request(
                "POST", self._url, content=_body(frame, left), headers=headers
            )
            response = await self._client.send(request, stream=True)
            try:
                body = await _start_of(response, longest)
            finally:
                await response.aclose()
        json = response.headers.get("content-type", "").startswith("application/json")
        return PostResponse(response.status_code, body, response.headers.get(CONNECTION_ID), json)

    @asynccontextmanager
    async def events(self, ids: dict[str, str], last_id: str | None) -> AsyncGenerator[EventResponse]:
        """Open a stream. Raises Rejected, Unreachable; reading it raises Unreachable."""
        headers = {**ids, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        async with self._new_client() as client:
            with _network():
                async with client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != 200:
                        raise StreamRejected(response.status_code, await _start_of(response, BODY_SHOWN))
                    yield EventResponse(response)

    async def goodbye(self, ids: dict[str, str]) -> None:
        """End the connection at the server. Raises Unreachable."""
        with _network():
            await self._client.delete(self._url, headers=ids)

    async def aclose(self) -> None:
        """Let the sockets of the posts go; those of the streams end with them."""
        await self._client.aclose()


class _network:  # noqa: N801 - reads as a statement
    """Errors of the HTTP library become ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            raise NetworkFailure(_reason(error), sent=False) from None
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError | httpx2.InvalidURL):
            raise NetworkFailure(_reason(error), sent=True) from None


def _reason(error: Exception) -> str:
    """What really happened: the libraries wrap it several times."""
    found: BaseException | None = error
    innermost: OSError | None = None
    while found is not None:
        if isinstance(found, OSError):
            innermost = found
        if isinstance(found, ExceptionGroup):
            found = cast("ExceptionGroup[Exception]", found).exceptions[0]
        else:
            found = found.__cause__ or found.__context__
    if innermost is not None:
        return error_sentence(innermost)
    if isinstance(error, httpx2.TimeoutException):
        return "it does not answer"
    return error_sentence(error)


async def _body(frame: bytes, left: Callable[[], None]) -> AsyncGenerator[bytes]:
    yield frame
    left()


async def _start_of(response: httpx2.Response, longest: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > longest:
            break
    return b"".join(parts)[: longest + 1]
