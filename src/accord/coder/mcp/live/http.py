"""Servers on the network, by streamable HTTP or by server-sent events: bounded answers, no secrets in what goes wrong."""

import ipaddress
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from accord.coder.mcp.hooks import McpFailure
from accord.coder.mcp.terms import Terms
from accord.schema.mcp import McpServerHttp, McpServerSse

_ORDINARY_SECONDS: Final = 30.0


class _WithoutQueries(logging.Filter):
    """Takes what may be a credential out of the addresses that the HTTP library logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.copy_with(query=None, userinfo=b"") if isinstance(arg, httpx2.URL) else arg
                for arg in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())
# It would write down whole messages and addresses.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.INFO)


class TooLarge(httpx2.StreamError):
    """An answer over the bound."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, as far as it is wanted."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._left -= len(piece)
            if self._left < 0:
                raise TooLarge("the answer is too large")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpClients:
    """Makes the HTTP client of one connection, and remembers the last status that was an error."""

    def __init__(self, server: McpServerHttp | McpServerSse, terms: Terms) -> None:
        self.refused: int | None = None
        self.forgotten = False
        """Whether the server no longer knows the session that it gave us."""
        self._url = server.url
        self._headers = {header.name: header.value for header in server.headers}
        self._most = terms.limits.message_bytes

    def __call__(self, *_: Any, **__: Any) -> httpx2.AsyncClient:
        # Packed answers could unpack to anything, so none are asked for. Reads wait as long as the calls do, which
        # have limits of their own. What is on this machine is never reached through a proxy.
        return httpx2.AsyncClient(
            headers={**self._headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_ORDINARY_SECONDS, read=None),
            event_hooks={"response": [self._bound]},
            trust_env=not _is_local(self._url),
        )

    async def _bound(self, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            self.refused = response.status_code
        if response.status_code == 404 and response.request.method == "POST":
            self.forgotten = "mcp-session-id" in response.request.headers
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, self._most)


@asynccontextmanager
async def http_streams(
    server: McpServerHttp, clients: HttpClients, terms: Terms
) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a server by streamable HTTP."""
    _check(server.url)
    async with (
        clients() as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=terms.limits.message_bytes
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_streams(server: McpServerSse, clients: HttpClients) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a server by server-sent events."""
    _check(server.url)
    async with sse_client(server.url, httpx_client_factory=clients) as streams:
        yield streams


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise McpFailure("its address is no http or https address; correct it")


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
