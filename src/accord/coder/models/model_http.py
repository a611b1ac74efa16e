"""HTTP with the providers: the client, and requests that are answered by a stream of server-sent events.

Imported on first use: it loads httpx2.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from functools import cache
from typing import Final

import httpx2
from msgspec import Struct

from accord import __version__
from accord.coder.models.provider_errors import ProviderFailure, failure_of_body
from accord.wire.remote.event_parser import EventParser
from accord.wire.transport import OversizedFrame

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The longest response that is not a stream. Of an error only the beginning is read."""
MAX_ERROR_BYTES: Final = 64 * 1024
_DRAIN_SECONDS: Final = 1.0


class ModelHttpRequest(Struct, frozen=True):
    """A request to a provider. Its headers hold the key."""

    url: str
    headers: dict[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"<ModelHttpRequest {self.url}>"


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the trusted certificates. Slow on the first call."""
    return httpx2.create_ssl_context()


def http_client(silence: float) -> httpx2.AsyncClient:
    """Return the HTTP client for all requests.

    `ModelEventQueue` enforces the silence limit. The longer timeout here covers requests without such a
    queue.
    """
    return httpx2.AsyncClient(
        verify=ssl_context(),
        timeout=httpx2.Timeout(silence + 60, connect=20),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=20),
        headers={"user-agent": f"accord/{__version__}"},
        follow_redirects=False,
    )


async def post_events(
    http: httpx2.AsyncClient,
    request: ModelHttpRequest,
    on_data: Callable[[], None],
    is_done: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    """Send a request and yield the data of the events that answer it. Raises ProviderFailure.

    `on_data` is called whenever bytes arrive. The stream ends early when `is_done` returns True.
    """
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        **request.headers,
    }
    try:
        async with http.stream("POST", request.url, headers=headers, content=request.body) as response:
            on_data()
            if not response.is_success:
                raise await _failure_of_response(response)
            parser, size, beginning = EventParser(MAX_EVENT_BYTES), 0, bytearray()
            chunks = response.aiter_bytes()
            async for chunk in chunks:
                on_data()
                if size < MAX_ERROR_BYTES:
                    beginning += chunk
                size += len(chunk)
                if size > MAX_STREAM_BYTES:
                    raise _too_large()
                for data in parser.feed(chunk):
                    if isinstance(data, OversizedFrame):
                        raise _too_large()
                    yield data
                if is_done():
                    await _drain(chunks)
                    return
            for data in parser.feed(b"\n\n"):  # some servers forget the end of the last event
                if isinstance(data, bytes):
                    yield data
        if beginning.lstrip().startswith((b"{", b"[")):  # an error in place of events, in spite of the status
            raise failure_of_body(None, bytes(beginning[:MAX_ERROR_BYTES]), {})
        return
    except _HTTP_ERRORS as error:
        failure = _failure_of(error)
    raise failure


async def get_body(http: httpx2.AsyncClient, request: ModelHttpRequest) -> tuple[int, bytes]:
    """Return the status and the body, at most `MAX_BODY_BYTES` of it. Raises ProviderFailure."""
    try:
        async with http.stream("GET", request.url, headers=request.headers) as response:
            return response.status_code, await _read(response, MAX_BODY_BYTES)
    except _HTTP_ERRORS as error:
        failure = _failure_of(error)
    raise failure


def _too_large() -> ProviderFailure:
    return ProviderFailure("the answer was too large", final=True)


_HTTP_ERRORS: Final = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)


def _failure_of(error: Exception) -> ProviderFailure:
    """Return the failure for an error of the HTTP library."""
    is_ours = isinstance(error, httpx2.LocalProtocolError)  # its text may show a header, with the key
    return ProviderFailure("" if is_ours else str(error) or type(error).__name__, connection=True)


async def _failure_of_response(response: httpx2.Response) -> ProviderFailure:
    body = b""
    with suppress(httpx2.HTTPError):  # the status alone says enough
        body = await _read(response, MAX_ERROR_BYTES)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return failure_of_body(response.status_code, body, headers)


async def _read(response: httpx2.Response, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of a response, so that its connection can be used again. Does not wait long for it."""
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            size = 0
            async for chunk in chunks:
                size += len(chunk)
                if size > MAX_ERROR_BYTES:
                    return
