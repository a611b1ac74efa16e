"""The stdio, HTTP, SSE and ACP transports for the `mcp` package.

Imported on first use: it loads mcp.
"""

import asyncio
import ipaddress
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Final, Self, TypeAlias, cast
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
from pydantic import TypeAdapter, ValidationError

from accord import telemetry
from accord.clock import OwnedTasks
from accord.coder.mcp.server_interface import (
    AcpRequest,
    McpServerFailure,
    ServerContext,
    clean_line,
    repair_schema,
)
from accord.errors import PARSE_ERROR, AccordError, RpcError
from accord.policy.sandbox.command_environment import without_credentials
from accord.schema.codec import NotJson, parse_json
from accord.schema.mcp import McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.wire.envelope import id_of_oversized
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Frame, OversizedFrame, TransportEnd

_HTTP_SECONDS: Final = 30.0


class _WithoutQueries(logging.Filter):
    """Removes possible credentials from the URLs that the HTTP library logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.copy_with(query=None, userinfo=b"") if isinstance(arg, httpx2.URL) else arg
                for arg in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())
# At DEBUG it logs whole messages and URLs.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.INFO)


class ResponseTooLarge(httpx2.StreamError):
    """A response exceeds the limit."""


class _BoundedStream(httpx2.AsyncByteStream):
    """A response body with a size limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._remaining_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._remaining_bytes -= len(chunk)
            if self._remaining_bytes < 0:
                raise ResponseTooLarge("the answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpClients:
    """Creates the HTTP client of one connection, and records the last error status."""

    def __init__(self, server: McpServerHttp | McpServerSse, server_context: ServerContext) -> None:
        self.error_status: int | None = None
        """The last HTTP status that was an error."""
        self.session_expired: bool = False
        """Whether the server no longer knows its session."""
        self._url = server.url
        self._headers = {header.name: header.value for header in server.headers}
        self._max_bytes = server_context.limits.message_bytes
        self._sign_in = server_context.sign_in

    def __call__(self, *_: Any, **__: Any) -> httpx2.AsyncClient:
        # No compression: a small response could expand to any size. No read timeout: calls have their own
        # limits. No proxy for servers on this machine.
        return httpx2.AsyncClient(
            headers={**self._headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_HTTP_SECONDS, read=None),
            event_hooks={"response": [self._limit_response]},
            auth=self._auth(),
            trust_env=not _is_local(self._url),
        )

    def _auth(self) -> httpx2.Auth | None:
        """Signs the requests if the user has signed in, unless the headers of the server do."""
        if any(name.lower() == "authorization" for name in self._headers):
            return None
        from accord.coder.mcp.oauth import oauth_provider

        return oauth_provider(self._url, self._sign_in)

    async def _limit_response(self, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            self.error_status = response.status_code
        if response.status_code == 404 and response.request.method == "POST":
            self.session_expired = "mcp-session-id" in response.request.headers
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "text/event-stream" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._max_bytes)


@asynccontextmanager
async def http_streams(
    server: McpServerHttp, clients: HttpClients, server_context: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Open the streams to a server over streamable HTTP."""
    _check_url(server.url)
    async with (
        clients() as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=server_context.limits.message_bytes
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_streams(server: McpServerSse, clients: HttpClients) -> AsyncGenerator[tuple[Any, Any], None]:
    """Open the streams to a server over server-sent events."""
    _check_url(server.url)
    async with sse_client(server.url, httpx_client_factory=clients) as streams:
        yield streams


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        valid = False
    if not valid:
        raise McpServerFailure("its address is not an http or https URL; correct it")


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_LOG: Final = logging.getLogger("accord.coder.mcp")
_EDGE_BYTES: Final = 1024
_MAX_LEVELS: Final = 100
"""How deep a message may nest: more than a tool's schema may, less than the mcp package refuses."""
_OBJECT_SCHEMA: Final = {"type": "object"}


_CONTENT_TYPE: Final = TypeAdapter[Any](types.ContentBlock)
_RESOURCE_TYPE: Final = TypeAdapter[Any](types.TextResourceContents | types.BlobResourceContents)


def repair_result(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """Repair the entries of a result, so that one bad entry does not break it.

    Unusable tools are dropped. Unusable content becomes a note.
    """
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
        result = item.message.result
        for key, kind in (("content", _CONTENT_TYPE), ("contents", _RESOURCE_TYPE)):
            if isinstance(result.get(key), list):
                result[key] = [_repair_content(entry, kind) for entry in cast(list[Any], result[key])]
        if isinstance(result.get("messages"), list):
            result["messages"] = [_repair_message(entry) for entry in cast(list[Any], result["messages"])]
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [
                tool for entry in cast(list[Any], tools) if (tool := _repair_tool(entry)) is not None
            ]
    return item


def _repair_content(entry: Any, kind: TypeAdapter[Any]) -> Any:
    try:
        kind.validate_python(entry, by_name=False)
    except (ValidationError, RecursionError):
        _LOG.warning("a server sent content that does not follow MCP")
        name = cast(dict[str, Any], entry).get("type") if isinstance(entry, dict) else None
        note = f"[{name if isinstance(name, str) else 'content'} that does not follow MCP was left out]"[:200]
        if kind is _RESOURCE_TYPE:
            return {"uri": "unusable:", "text": note}
        return {"type": "text", "text": note}
    return entry


def _repair_message(entry: Any) -> Any:
    message = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    role = message.get("role") if message.get("role") in ("user", "assistant") else "user"
    return {"role": role, "content": _repair_content(message.get("content"), _CONTENT_TYPE)}


def _repair_tool(entry: Any) -> dict[str, Any] | None:
    tool = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    if not isinstance(tool.get("name"), str):
        _LOG.warning("a tool without a name was left out of a list")
        return None
    schema = tool.get("inputSchema")
    try:
        members = repair_schema(cast(dict[str, Any], schema)) if isinstance(schema, dict) else {}
    except RecursionError:
        _LOG.warning("a tool was left out of a list: its schema nests too deep")
        return None
    complete = {**tool, "inputSchema": {**members, **_OBJECT_SCHEMA}}
    # Accept results that do not match the declared schema: the work is already done.
    complete.pop("outputSchema", None)
    try:
        types.Tool.model_validate(complete, by_name=False)
    except ValidationError:
        minimal = {"name": tool["name"], "inputSchema": complete["inputSchema"]}
        description = tool.get("description")
        return {**minimal, "description": description} if isinstance(description, str) else minimal
    return complete


def read_message(frame: bytes) -> types.JSONRPCMessage | None:
    """Read one message of a server. Returns None if it is none.

    Deep nesting and lone surrogates, which the mcp package refuses, are cut and replaced. An answer that
    still cannot be read becomes an error, so that its caller does not wait.
    """
    try:
        return jsonrpc_message_adapter.validate_json(frame, by_name=False)
    except ValueError:
        pass
    try:
        return jsonrpc_message_adapter.validate_python(_cut_depth(parse_json(frame)), by_name=False)
    except NotJson as error:
        edges = OversizedFrame(len(frame), frame[:_EDGE_BYTES], frame[-_EDGE_BYTES:])
        id, is_response = id_of_oversized(edges)
        if id is None or not is_response:
            return None
        data = ErrorData(code=PARSE_ERROR, message=f"its answer cannot be read: {error}")
        return JSONRPCError(jsonrpc="2.0", id=id, error=data)
    except ValueError:
        return None


def _cut_depth(value: Any, levels: int = _MAX_LEVELS) -> Any:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _cut_depth(inner, levels - 1) for name, inner in members.items()} if levels else None
    if isinstance(value, list):
        return [_cut_depth(inner, levels - 1) for inner in cast(list[Any], value)] if levels else None
    return value


Incoming: TypeAlias = SessionMessage | Exception
_MAX_QUEUED: Final = 256  # messages in the queue before the transport is paused
_MAX_OTHER_LINES: Final = 2000  # without a message between them


class _Received(ABC):
    """A stream of received messages, as the `mcp` package uses it."""

    @abstractmethod
    async def receive(self) -> Incoming:
        """Wait for the next message. Raises `EndOfStream`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the stream."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class IncomingMessages(_Received):
    """A queue of received messages. Ends after the last one."""

    def __init__(self) -> None:
        self._items: deque[Incoming] = deque()
        self._ended = False
        self._wake: asyncio.Future[None] | None = None
        self.on_space: Callable[[], None] | None = None

    def put(self, item: Incoming) -> None:
        """Add a message. Ignored after the end."""
        if not self._ended:
            self._items.append(item)
            self._notify()

    def end(self) -> None:
        """Mark the end of the stream."""
        self._ended = True
        self._notify()

    @property
    def waiting(self) -> int:
        """The number of queued messages."""
        return len(self._items)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def receive(self) -> Incoming:
        while not self._items:
            if self._ended:
                raise anyio.EndOfStream
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        item = self._items.popleft()
        if self.on_space is not None and len(self._items) == _MAX_QUEUED // 2:
            self.on_space()
        return item

    async def aclose(self) -> None:
        self._items.clear()
        self.end()


class OutgoingMessages:
    """A stream of messages to send. Passes each to `write`."""

    def __init__(self, write: "Callable[[SessionMessage], object]") -> None:
        self._write = write
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        self._write(item)
        await self.drain()

    async def drain(self) -> None:
        """Wait while the peer is slower."""
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> "OutgoingMessages":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ProcessStreams(OutgoingMessages):
    """Both streams over the pipes of a process. Calls `on_end` once with the reason of the end."""

    def __init__(self, transport: ProcessTransport, on_end: Callable[[TransportEnd], None]) -> None:
        super().__init__(self._frame)
        self.inbox: IncomingMessages = IncomingMessages()
        self._transport = transport
        self._on_end = on_end
        self._paused = False
        self._failed = False
        self._other_lines = 0
        self.inbox.on_space = self._resume
        transport.start(self)

    def _frame(self, item: SessionMessage) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._transport.send(text.encode("utf-8", "replace"))

    async def drain(self) -> None:
        await self._transport.drain()

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            if self._failed:
                return
            if isinstance(frame, OversizedFrame):
                # It is unknown which call it answers, so all calls fail.
                self._fail(f"it sent a message of {frame.size:,} bytes, which is too large")
                return
            message = read_message(frame)
            if message is None:
                self._other_lines += 1
                _LOG.debug("ignored non-JSON output of %s", self._transport.name)
                if self._other_lines > _MAX_OTHER_LINES:
                    self._fail(f"it printed {_MAX_OTHER_LINES:,} lines that are no messages")
                continue
            self._other_lines = 0
            self.inbox.put(SessionMessage(message))
        if self.inbox.waiting >= _MAX_QUEUED and not self._paused:
            self._paused = True
            self._transport.pause()

    def ended(self, end: TransportEnd) -> None:
        self.inbox.end()
        self._on_end(end)

    def _fail(self, reason: str) -> None:
        """Read no more, and end the connection."""
        self._failed = self._paused = True
        self._transport.pause()
        self.ended(TransportEnd(reason))

    def _resume(self) -> None:
        if self._paused and not self._failed:
            self._paused = False
            self._transport.resume()


class WatchedStream(_Received):
    """A stream of received messages that repairs lists of tools and reports its end."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    @property
    def last_context(self) -> Context | None:
        """The context that the `mcp` package keeps with the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Incoming:
        try:
            return repair_result(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> "WatchedStream":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._inner.__aexit__(*exc_info)


class AcpStreams(OutgoingMessages):
    """Both streams to a server that the client provides (unstable in ACP).

    Messages become requests to the client.
    """

    def __init__(self, server_id: str, request: AcpRequest) -> None:
        super().__init__(self._send)
        self.inbox: IncomingMessages = IncomingMessages()
        self._server_id = server_id
        self._request = request
        self._tasks = OwnedTasks()

    def _send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._tasks.start(self._ask(message), key=message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            request_id = (message.params or {}).get("requestId")
            if request_id is not None:
                self._tasks.cancel(request_id)  # also tells the client; other notifications are not sent

    async def _ask(self, message: JSONRPCRequest) -> None:
        def on_notification(method: str, params: Mapping[str, Any]) -> None:
            notification = JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params))
            self.inbox.put(SessionMessage(notification))

        try:
            result = await self._request(
                self._server_id, message.method, message.params, on_notification=on_notification
            )
            response = JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)
        except RpcError as error:
            data = ErrorData(code=error.code, message=error.message)
            response = JSONRPCError(jsonrpc="2.0", id=message.id, error=data)
        except (AccordError, ValueError) as error:
            data = ErrorData(code=CONNECTION_CLOSED, message=str(error))
            response = JSONRPCError(jsonrpc="2.0", id=message.id, error=data)
        self.inbox.put(SessionMessage(response))

    async def end(self) -> None:
        """Cancel open requests and end the stream."""
        await self._tasks.end()
        self.inbox.end()


@asynccontextmanager
async def acp_streams(
    server: McpServerAcp, server_context: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Open the streams to a server of the client."""
    if server_context.acp is None:
        raise McpServerFailure("servers that the client offers over ACP cannot be used here")
    streams = AcpStreams(server.server_id, server_context.acp)
    try:
        yield streams.inbox, streams
    finally:
        await streams.end()


_MAX_LOG_LINE: Final = 500
_MAX_STDERR_TAIL: Final = 200


@asynccontextmanager
async def stdio_streams(
    server: McpServerStdio, server_context: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start a server process without the agent's credentials, and open its streams. Raises NeverStarted.

    Ends the whole process tree at the end.
    """
    limits = server_context.limits
    transport = await spawn(
        (server.command, *server.args),
        cwd=server_context.cwd,
        env=_environment(server, server_context.environment),
        name="it",
        on_stderr=_StderrLog(server_context),
        limit=limits.message_bytes,
        timeouts=StopTimeouts(limits.leave_seconds, limits.leave_seconds),
        clock=server_context.clock,
    )

    def ended(end: TransportEnd) -> None:
        last_line = server_context.secrets.masked(end.stderr).strip().rpartition("\n")[2]
        tail = clean_line(last_line, _MAX_STDERR_TAIL)
        server_context.on_lost(f"{end.reason}; its last line on stderr: {tail}" if tail else end.reason)

    streams = ProcessStreams(transport, ended)
    try:
        yield streams.inbox, streams
    finally:
        await transport.aclose()


def _environment(
    server: McpServerStdio, agent_environment: Mapping[str, str] | None
) -> dict[str, str | None]:
    """Return the changes to our environment: no credentials, plus the trace and the client's variables."""
    allowed = without_credentials(os.environ if agent_environment is None else agent_environment)
    removed: dict[str, str | None] = dict.fromkeys(os.environ.keys() - allowed.keys())
    own = {variable.name: variable.value for variable in server.env}
    return removed | allowed | telemetry.environment() | own


class _StderrLog:
    """Writes the stderr of a server to the log, up to a limit."""

    def __init__(self, server_context: ServerContext) -> None:
        self._context = server_context
        self._remaining_lines = server_context.limits.log_lines

    def __call__(self, line: str) -> None:
        if self._remaining_lines > 0:
            self._remaining_lines -= 1
            shown = clean_line(self._context.secrets.masked(line), _MAX_LOG_LINE)
            _LOG.info("%s, stderr: %s", self._context.name, shown)
            if not self._remaining_lines:
                _LOG.info("%s, stderr: further lines are not logged", self._context.name)
