"""A scripted model provider: an HTTP server that streams scripted answers and records the requests."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, cast
from urllib.parse import urlsplit

from accord.clock import OwnedTasks
from accord.testing.model_formats import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelFormat,
    ModelToolCall,
    RawBytes,
    Refusal,
    Reply,
    ScriptedUsage,
    StreamPause,
    Thought,
)

__all__ = [
    "DroppedConnection", "ModelAnswer", "ModelFault", "ModelServer", "ModelToolCall", "RawBytes",
    "RecordedRequest", "Refusal", "Reply", "ScriptedUsage", "StreamPause", "Thought",
]  # fmt: skip


_MAX_REQUEST_BYTES: Final = 256 * 1024 * 1024


class ClientClosed(Exception):
    """The client closed the connection."""


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


class HttpConnection(asyncio.StreamReaderProtocol):
    """One client connection of a minimal HTTP/1.1 server. Notices a disconnect even while it is idle."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=_MAX_REQUEST_BYTES)
        super().__init__(self._reader)
        self._disconnected = asyncio.Event()
        self._tcp_transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._tcp_transport = transport

    def eof_received(self) -> bool | None:
        self._disconnected.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnected.set()
        super().connection_lost(exc)

    async def next_request(self) -> HttpRequest | None:
        """The next request; None when the connection is closed."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            method, target, _ = first.split(" ", 2)
            pairs = [line.partition(":") for line in lines]
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None
        return HttpRequest(method, target, headers, body)

    async def answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete response. Bytes are sent unchanged, other values as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {
            "content-type": "application/json",
            "content-length": str(len(data)),
            **(headers or {}),
        }
        self._write(_encode_head(status, all_headers) + data)

    def begin_stream(self) -> None:
        """Send the head of a streamed response."""
        all_headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._write(_encode_head(200, all_headers))

    async def stream(self, data: bytes) -> None:
        """Send one chunk of a stream; chunks are not merged."""
        self._write(b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(0)

    def end(self) -> None:
        """End the stream."""
        self._write(b"0\r\n\r\n")

    async def wait(self, pause: StreamPause) -> None:
        """Wait for the release of a pause. Raises `ClientClosed` if the client disconnects first."""
        released = asyncio.ensure_future(pause.wait())
        disconnected = asyncio.ensure_future(self._disconnected.wait())
        try:
            await asyncio.wait((released, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            released.cancel()
            disconnected.cancel()
        if not released.done() or released.cancelled():
            raise ClientClosed

    def drop(self) -> None:
        """Break the connection."""
        if self._tcp_transport is not None:
            self._tcp_transport.abort()

    def _write(self, data: bytes) -> None:
        if self._disconnected.is_set() or self._tcp_transport is None or self._tcp_transport.is_closing():
            raise ClientClosed
        self._tcp_transport.write(data)


def _encode_head(status: int, all_headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in all_headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1")


FormatName: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "google"]
Provider: TypeAlias = Literal["openai", "openai-chat", "openai-responses", "anthropic", "google"]

_FORMATS: Final[dict[FormatName, ModelFormat]] = {
    "openai-chat": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
    "anthropic": Anthropic(),
    "google": Gemini(),
}
_ROUTES: Final[tuple[tuple[re.Pattern[str], FormatName], ...]] = (
    (re.compile(r".*/chat/completions"), "openai-chat"),
    (re.compile(r".*/responses"), "openai-responses"),
    (re.compile(r".*/messages"), "anthropic"),
    (re.compile(r".*/models/(?P<model>[^/]+):(?:streamG|g)enerateContent"), "google"),
    (re.compile(r".*/models/(?P<model>[^/]+):streamRawPredict"), "anthropic"),
)
_VARIABLE_PREFIXES: Final = {"openai": "OPENAI", "anthropic": "ANTHROPIC", "google": "GOOGLE"}

RequestOutcome: TypeAlias = Literal["answered", "abandoned", "dropped", "faulted"]


class RecordedRequest:
    """A recorded request for an answer."""

    def __init__(self, http_request: HttpRequest, format_name: FormatName, model: str) -> None:
        self.path: str = http_request.target
        self.headers: dict[str, str] = dict(http_request.headers)
        """By lower-case name."""
        self.body: Any = json.loads(http_request.body or b"{}")
        self.format: FormatName = format_name
        self.model: str = model
        self.outcome: RequestOutcome | None = None
        """None while it is served. `abandoned`: the client disconnected before the end of the answer."""
        self._ended = asyncio.Event()

    async def ended(self) -> str:
        """Wait until it is served; returns the outcome."""
        await self._ended.wait()
        return str(self.outcome)

    def end(self, outcome: RequestOutcome) -> None:
        """For the server: set the outcome. The first one counts."""
        self.outcome = self.outcome or outcome
        self._ended.set()


ScriptedReply: TypeAlias = Reply | Callable[[RecordedRequest], Reply]
"""A reply, or a function that returns one for the request."""


class ModelServer:
    """`async with ModelServer([ModelAnswer("hi")]) as server`: a scripted provider on 127.0.0.1."""

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[RecordedRequest], Reply] = (),
        *,
        models: Iterable[str] = (),
        listing: ModelFault | StreamPause | None = None,
        pages: Mapping[str, Any] | None = None,
    ) -> None:
        self._reply_function = script if callable(script) else None
        self._script: list[ScriptedReply] = [] if callable(script) else list(script)
        self.models: list[str] = list(models)
        self.listing: ModelFault | StreamPause | None = listing
        """A fault or a pause for requests of the model list."""
        self.pages: dict[str, Any] = dict(pages or {})
        """JSON for other paths, such as `/api/version` of Ollama; a function gets the body of the request."""
        self.requests: list[RecordedRequest] = []
        self.listings: list[HttpRequest] = []
        """The requests for the list of models."""
        self.unexpected: list[str] = []
        """Requests without a scripted reply; the end of the block raises if there are any."""
        self._request_arrived = asyncio.Condition()
        self._connections = OwnedTasks()
        self._server: asyncio.Server | None = None
        self._port = 0

    def add(self, *replies: ScriptedReply) -> None:
        """Append to the script."""
        self._script.extend(replies)

    def base_url(self, provider: Provider = "openai") -> str:
        """The base URL for clients of this provider."""
        root = f"http://127.0.0.1:{self._port}"
        return f"{root}/v1" if provider.startswith("openai") else root

    def environment(self, provider: Provider = "openai", key: str = "test-key") -> dict[str, str]:
        """The environment variables that point a provider's clients at this server."""
        name = _VARIABLE_PREFIXES[provider.partition("-")[0]]
        return {f"{name}_API_KEY": key, f"{name}_BASE_URL": self.base_url(provider)}

    async def request(self, number: int = 1) -> RecordedRequest:
        """Wait for the request with this number, counted from 1."""
        async with self._request_arrived:
            await self._request_arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections.keys:
            cast(HttpConnection, connection).drop()
        await self._connections.end()
        if self._server is not None:
            await self._server.wait_closed()
        if error is None and self.unexpected:
            raise AssertionError(f"the script had no reply for: {'; '.join(self.unexpected)}")

    def _accept(self) -> HttpConnection:
        connection = HttpConnection()
        self._connections.start(self._serve(connection), key=connection)
        return connection

    async def _serve(self, connection: HttpConnection) -> None:
        try:
            while (http_request := await connection.next_request()) is not None:
                await self._handle(http_request, connection)
        except ClientClosed:
            pass
        finally:
            connection.drop()

    async def _handle(self, http_request: HttpRequest, connection: HttpConnection) -> None:
        path = urlsplit(http_request.target).path
        if path in self.pages:
            page = self.pages[path]
            body: Any = json.loads(http_request.body) if http_request.body else None
            await connection.answer(200, page(body) if callable(page) else page)
            return
        if http_request.method == "GET" and path.rstrip("/").endswith("/models"):
            await self._answer_listing(http_request, path, connection)
            return
        for pattern, format_name in _ROUTES:
            if http_request.method == "POST" and (match := pattern.fullmatch(path)):
                await self._answer_request(
                    http_request, format_name, match.groupdict().get("model"), connection
                )
                return
        self.unexpected.append(f"{http_request.method} {path}")
        await connection.answer(404, {"error": {"message": f"unknown path: {path}"}})

    async def _answer_listing(self, http_request: HttpRequest, path: str, connection: HttpConnection) -> None:
        self.listings.append(http_request)
        format_name: FormatName = (
            "anthropic" if "anthropic-version" in http_request.headers else "openai-chat"
        )
        if "/v1beta/" in path:
            format_name = "google"
        if isinstance(self.listing, StreamPause):
            await connection.wait(self.listing)
        elif self.listing is not None:
            await _send_fault(connection, format_name, self.listing)
            return
        await connection.answer(200, _FORMATS[format_name].listing(self.models))

    async def _answer_request(
        self,
        http_request: HttpRequest,
        format_name: FormatName,
        model: str | None,
        connection: HttpConnection,
    ) -> None:
        request = RecordedRequest(
            http_request, format_name, model or str(json.loads(http_request.body).get("model"))
        )
        async with self._request_arrived:
            self.requests.append(request)
            self._request_arrived.notify_all()
        reply = self._next_reply(request)
        try:
            if isinstance(reply, ModelFault):
                request.end("faulted")
                await _send_fault(connection, format_name, reply)
            else:
                await _stream_answer(connection, reply, request, len(self.requests))
        except ClientClosed:
            request.end("abandoned")
            raise
        except asyncio.CancelledError:
            request.end("dropped")
            raise

    def _next_reply(self, request: RecordedRequest) -> Reply:
        reply = self._reply_function or (self._script.pop(0) if self._script else None)
        if reply is None:
            self.unexpected.append(f"request {len(self.requests)} to {request.path}")
            return ModelFault(400, "the script has no more replies")
        return reply(request) if callable(reply) else reply


async def _send_fault(connection: HttpConnection, format_name: FormatName, fault: ModelFault) -> None:
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    await connection.answer(
        fault.status, _FORMATS[format_name].error(fault) if fault.body is None else fault.body, headers
    )


async def _stream_answer(
    connection: HttpConnection, answer: ModelAnswer, request: RecordedRequest, number: int
) -> None:
    connection.begin_stream()
    for frame in _FORMATS[request.format].frames(answer, number, request.model):
        if isinstance(frame, StreamPause):
            await connection.wait(frame)
        elif isinstance(frame, DroppedConnection):
            request.end("dropped")
            if frame.clean:
                break
            await asyncio.sleep(0)  # lets the bytes written before leave first
            connection.drop()
            raise ClientClosed
        else:
            await connection.stream(frame)
    connection.end()
    request.end("answered")
