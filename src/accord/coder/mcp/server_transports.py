"""stdio, HTTP, SSE and ACP transports for the `mcp` package.

Imported on first use: it loads mcp.
"""

import asyncio
import ipaddress
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from accord.coder.mcp.server_interface import AcpRequest, McpServerFailure, ServerContext, clean_line
from accord.errors import AccordError, RpcError
from accord.policy.sandbox.command_environment import without_credentials
from accord.schema.mcp import McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Frame, OversizedFrame, TransportEnd

# MERGED coder.mcp.live.http: Servers on the network, by streamable HTTP or by server-sent events: bounded answers, no secrets in what goes wrong.

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


class ResponseTooLarge(httpx2.StreamError):
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
                raise ResponseTooLarge("the answer is too large")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpClients:
    """Makes the HTTP client of one connection, and remembers the last status that was an error."""

    def __init__(self, server: McpServerHttp | McpServerSse, terms: ServerContext) -> None:
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
    server: McpServerHttp, clients: HttpClients, terms: ServerContext
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
        raise McpServerFailure("its address is no http or https address; correct it")


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# MERGED coder.mcp.live.repairing: Lists of tools as servers send them, before the package reads them: one bad entry must not cost all the others.

_LOG: Final = logging.getLogger("accord.coder.mcp")
_OBJECT: Final = {"type": "object"}


def repaired(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message; in a list of tools, entries that can be understood are made whole and the others are left out."""
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
        result = item.message.result
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [tool for entry in cast(list[Any], tools) if (tool := _tool(entry)) is not None]
    return item


def _tool(entry: Any) -> dict[str, Any] | None:
    tool = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    if not isinstance(tool.get("name"), str):
        _LOG.warning("a tool without a name was left out of a list")
        return None
    schema = tool.get("inputSchema")
    whole = {
        **tool,
        "inputSchema": {**cast(dict[str, Any], schema), **_OBJECT} if isinstance(schema, dict) else _OBJECT,
    }
    # Results are passed on whether or not they fit what was promised: the work is done, and its result is what counts.
    whole.pop("outputSchema", None)
    try:
        types.Tool.model_validate(whole, by_name=False)
    except ValidationError:
        kept = {"name": tool["name"], "inputSchema": whole["inputSchema"]}
        described = tool.get("description")
        return {**kept, "description": described} if isinstance(described, str) else kept
    return whole


# MERGED coder.mcp.live.streams: The two streams of messages that the `mcp` package speaks over, on our own transports; and a look at when they end.

Incoming: TypeAlias = SessionMessage | Exception
_MOST_WAITING: Final = 256  # messages that were read and not yet taken; then the server has to wait


class IncomingMessages:
    """Messages that came, taken one by one; ends after the last."""

    def __init__(self) -> None:
        self._items: deque[Incoming] = deque()
        self._ended = False
        self._wake: asyncio.Future[None] | None = None
        self.on_room: Callable[[], None] | None = None

    def put(self, item: Incoming) -> None:
        """Another message; dropped after the end."""
        if not self._ended:
            self._items.append(item)
            self._ring()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._ring()

    @property
    def waiting(self) -> int:
        """Messages not yet taken."""
        return len(self._items)

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def receive(self) -> Incoming:
        while not self._items:
            if self._ended:
                raise anyio.EndOfStream
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        item = self._items.popleft()
        if self.on_room is not None and len(self._items) == _MOST_WAITING // 2:
            self.on_room()
        return item

    async def aclose(self) -> None:
        self._items.clear()
        self.end()

    def __aiter__(self) -> "IncomingMessages":
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "IncomingMessages":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class OutgoingMessages:
    """Messages to send; `write` gets each."""

    def __init__(self, write: "Callable[[SessionMessage], object]") -> None:
        self._write = write
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        self._write(item)
        await self.drained()

    async def drained(self) -> None:
        """Wait while the other side reads more slowly."""
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> "OutgoingMessages":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ProcessStreams(OutgoingMessages):
    """Both streams over the pipes of a child. `on_end` hears once why it is over."""

    def __init__(self, transport: ProcessTransport, on_end: Callable[[TransportEnd], None]) -> None:
        super().__init__(self._frame)
        self.inbox = IncomingMessages()
        self._transport = transport
        self._on_end = on_end
        self._paused = False
        self._too_large: OversizedFrame | None = None
        self.inbox.on_room = self._room
        transport.start(self)

    def _frame(self, item: SessionMessage) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._transport.send(text.encode("utf-8", "replace"))

    async def drained(self) -> None:
        await self._transport.drain()

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            if self._too_large is not None:
                return
            if isinstance(frame, OversizedFrame):
                # Which call it answers cannot be known without reading it: all of them are told that it is over.
                self._too_large = frame
                self.ended(TransportEnd(f"it sent a message of {frame.size:,} bytes, which is too large"))
                return
            try:
                message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
            except ValueError:
                _LOG.debug("%s wrote something to its stdout that is no message", self._transport.name)
                continue
            self.inbox.put(SessionMessage(message))
        if self.inbox.waiting >= _MOST_WAITING and not self._paused:
            self._paused = True
            self._transport.pause()

    def ended(self, end: TransportEnd) -> None:
        self.inbox.end()
        self._on_end(end)

    def _room(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume()


class WatchedStream:
    """A stream of messages, repaired where that is needed, that tells when it is over."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    @property
    def last_context(self) -> Context | None:
        """What the package keeps beside the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Incoming:
        try:
            return repaired(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> "WatchedStream":
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "WatchedStream":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._inner.__aexit__(*exc_info)


# MERGED coder.mcp.live.acp: Unstable. Servers that the client itself offers: each request goes through the connection to the client.


class AcpStreams(OutgoingMessages):
    """Both streams: what is sent becomes requests to the client, their answers and their news come back."""

    def __init__(self, server_id: str, request: AcpRequest) -> None:
        super().__init__(self._send)
        self.inbox = IncomingMessages()
        self._server_id = server_id
        self._request = request
        self._running: dict[Any, asyncio.Task[None]] = {}

    def _send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            task = asyncio.ensure_future(self._ask(message))
            self._running[message.id] = task
            task.add_done_callback(lambda _: self._running.pop(message.id, None))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            task = self._running.get((message.params or {}).get("requestId"))
            if task is not None:
                task.cancel()  # which tells the client; other notifications have no way to it

    async def _ask(self, message: JSONRPCRequest) -> None:
        def heard(method: str, params: Mapping[str, Any]) -> None:
            news = JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params))
            self.inbox.put(SessionMessage(news))

        try:
            result = await self._request(
                self._server_id, message.method, message.params, on_notification=heard
            )
            answer = JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)
        except RpcError as error:
            said = ErrorData(code=error.code, message=error.message)
            answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=said)
        except (AccordError, ValueError) as error:
            said = ErrorData(code=CONNECTION_CLOSED, message=str(error))
            answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=said)
        self.inbox.put(SessionMessage(answer))

    async def end(self) -> None:
        """Cancel what is still asked."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self.inbox.end()


@asynccontextmanager
async def acp_streams(server: McpServerAcp, terms: ServerContext) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a server of the client."""
    if terms.acp is None:
        raise McpServerFailure("servers that the client offers over ACP cannot be used here")
    streams = AcpStreams(server.server_id, terms.acp)
    try:
        yield streams.inbox, streams
    finally:
        await streams.end()


# MERGED coder.mcp.live.stdio: Servers that are programs: started in a tree of their own, without the agent's credentials, ended whole.

_SHOWN: Final = 500
_LAST_WORDS: Final = 200


@asynccontextmanager
async def stdio_streams(
    server: McpServerStdio, terms: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a program, which runs as long. Raises NeverStarted."""
    limits = terms.limits
    transport = await spawn(
        (server.command, *server.args),
        cwd=terms.cwd,
        env=_environment(server, terms.environment),
        name="it",
        on_stderr=_Errors(terms),
        limit=limits.message_bytes,
        timeouts=StopTimeouts(limits.leave_seconds, limits.leave_seconds),
        clock=terms.clock,
    )

    def ended(end: TransportEnd) -> None:
        said = terms.secrets.masked(end.stderr).strip().rpartition("\n")[2]
        last = clean_line(said, _LAST_WORDS)
        terms.lost(f"{end.reason}; its last words: {last}" if last else end.reason)

    streams = ProcessStreams(transport, ended)
    try:
        yield streams.inbox, streams
    finally:
        await transport.aclose()


def _environment(server: McpServerStdio, ours: Mapping[str, str] | None) -> dict[str, str | None]:
    """What differs from our own environment: no credentials, and what the client gave, whatever that is."""
    passing = without_credentials(os.environ if ours is None else ours)
    withheld: dict[str, str | None] = dict.fromkeys(os.environ.keys() - passing.keys())
    return withheld | passing | {variable.name: variable.value for variable in server.env}


class _Errors:
    """Takes the stderr of a server into the log, as much as there is room for."""

    def __init__(self, terms: ServerContext) -> None:
        self._terms = terms
        self._left = terms.limits.log_lines

    def __call__(self, line: str) -> None:
        if self._left > 0:
            self._left -= 1
            shown = clean_line(self._terms.secrets.masked(line), _SHOWN)
            _LOG.info("%s, stderr: %s", self._terms.name, shown)
            if not self._left:
                _LOG.info("%s, stderr: no more of it is logged", self._terms.name)
