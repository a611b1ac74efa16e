"""The scripted model server and its HTTP."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

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
    "DroppedConnection",
    "ModelAnswer",
    "ModelFault",
    "ModelServer",
    "ModelToolCall",
    "RawBytes",
    "Refusal",
    "Reply",
    "ScriptedUsage",
    "SeenRequest",
    "StreamPause",
    "Thought",
]


# MERGED testing.models.http: Just enough HTTP/1.1 for a model server: requests with a length, answers whole or in chunks, one after the other.

_MOST: Final = 256 * 1024 * 1024


class ClientClosed(Exception):
    """The client closed the connection."""


@dataclass(frozen=True)
class RequestHead:
    """A request without its meaning."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class HttpConnection(asyncio.StreamReaderProtocol):
    """One connection of a client. Knows when the client is gone, also while nothing is sent or read."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=_MOST)
        super().__init__(self._reader)
        self._gone = asyncio.Event()
        self._up: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._up = transport

    def eof_received(self) -> bool | None:
        self._gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)

    async def next_request(self) -> RequestHead | None:
        """The next request; None when there are no more."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            method, target, _ = first.split(" ", 2)
            pairs = [line.partition(":") for line in lines]
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None
        return RequestHead(method, target, headers, body)

    async def answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer. Bytes go out as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        self._write(_head(status, fields) + data)

    def begin(self) -> None:
        """Begin to stream."""
        fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._write(_head(200, fields))

    async def stream(self, data: bytes) -> None:
        """One piece of a stream. Every piece is sent for itself."""
        self._write(b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(0)

    def end(self) -> None:
        """The end of the stream."""
        self._write(b"0\r\n\r\n")

    async def wait(self, gate: StreamPause) -> None:
        """Wait at the gate. Raises Gone if the client leaves meanwhile."""
        passing = asyncio.ensure_future(gate.passed())
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            passing.cancel()
            leaving.cancel()
        if not passing.done() or passing.cancelled():
            raise ClientClosed

    async def left(self) -> None:
        """Return when the client has closed the connection."""
        await self._gone.wait()

    def drop(self) -> None:
        """Break the connection."""
        if self._up is not None:
            self._up.abort()

    def _write(self, data: bytes) -> None:
        if self._gone.is_set() or self._up is None or self._up.is_closing():
            raise ClientClosed
        self._up.write(data)


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


# MERGED testing.models.server: The scripted model server: plays its script, answer by answer, to whoever asks, and keeps what was asked.

Spoken: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "google"]
Provider: TypeAlias = Literal["openai", "openai-chat", "openai-responses", "anthropic", "google"]

_FORMATS: Final[dict[Spoken, ModelFormat]] = {
    "openai-chat": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
    "anthropic": Anthropic(),
    "google": Gemini(),
}
_ROUTES: Final[tuple[tuple[re.Pattern[str], Spoken], ...]] = (
    (re.compile(r".*/chat/completions"), "openai-chat"),
    (re.compile(r".*/responses"), "openai-responses"),
    (re.compile(r".*/messages"), "anthropic"),
    (re.compile(r".*/models/(?P<model>[^/]+):streamGenerateContent"), "google"),
)
_VARIABLES: Final = {"openai": "OPENAI", "anthropic": "ANTHROPIC", "google": "GOOGLE"}


class SeenRequest:
    """What a client asked for an answer."""

    def __init__(self, head: RequestHead, spoken: Spoken, model: str) -> None:
        self.path = head.target
        self.headers = dict(head.headers)
        """Names in lower case."""
        self.body: Any = json.loads(head.body or b"{}")
        self.format: Spoken = spoken
        self.model = model
        self.outcome: Literal["answered", "abandoned", "dropped", "faulted"] | None = None
        """How it ended; None while it is served. Abandoned: the client left before the end of the answer."""
        self._ended = asyncio.Event()

    async def ended(self) -> str:
        """Wait for the end; the outcome."""
        await self._ended.wait()
        return str(self.outcome)

    def end(self, outcome: Literal["answered", "abandoned", "dropped", "faulted"]) -> None:
        """For the server: it is over."""
        self.outcome = self.outcome or outcome
        self._ended.set()


ScriptedReply: TypeAlias = Reply | Callable[[SeenRequest], Reply]
"""A reply, or a function that makes one of the request."""


class ModelServer:
    """`async with ModelServer([Answer("hi")]) as server`: a provider on 127.0.0.1 that says what the test says."""

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[SeenRequest], Reply] = (),
        *,
        models: Iterable[str] = (),
        listing: ModelFault | StreamPause | None = None,
    ) -> None:
        self._always = script if callable(script) else None
        self._script: list[ScriptedReply] = [] if callable(script) else list(script)
        self.models = list(models)
        self.listing = listing
        """What happens to those who ask for the list of models, if not the list."""
        self.requests: list[SeenRequest] = []
        self.listings: list[RequestHead] = []
        """The requests for the list of models."""
        self.unexpected: list[str] = []
        """Requests that the script had no reply for; leaving the block with any raises."""
        self._arrived = asyncio.Condition()
        self._wires: dict[HttpConnection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._port = 0

    def add(self, *replies: ScriptedReply) -> None:
        """Add to the end of the script."""
        self._script.extend(replies)

    def base_url(self, provider: Provider = "openai") -> str:
        """The address to give to a client of this provider."""
        root = f"http://127.0.0.1:{self._port}"
        return f"{root}/v1" if provider.startswith("openai") else root

    def environment(self, provider: Provider = "openai", key: str = "test-key") -> dict[str, str]:
        """The environment variables that send a provider's clients here."""
        name = _VARIABLES[provider.partition("-")[0]]
        return {f"{name}_API_KEY": key, f"{name}_BASE_URL": self.base_url(provider)}

    async def request(self, number: int = 1) -> SeenRequest:
        """The request of this number, the first being 1, as soon as it has come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        serving = list(self._wires.values())
        for wire, task in list(self._wires.items()):
            wire.drop()
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        if error is None and self.unexpected:
            raise AssertionError(f"the script had no reply for: {'; '.join(self.unexpected)}")

    def _connected(self) -> HttpConnection:
        wire = HttpConnection()
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._wires[wire] = task
        task.add_done_callback(lambda _: self._wires.pop(wire, None))
        return wire

    async def _serve(self, wire: HttpConnection) -> None:
        try:
            while (head := await wire.next_request()) is not None:
                await self._handle(head, wire)
        except ClientClosed:
            pass
        finally:
            wire.drop()

    async def _handle(self, head: RequestHead, wire: HttpConnection) -> None:
        path = urlsplit(head.target).path
        if head.method == "GET" and path.rstrip("/").endswith("/models"):
            await self._list(head, path, wire)
            return
        for pattern, spoken in _ROUTES:
            if head.method == "POST" and (match := pattern.fullmatch(path)):
                await self._reply(head, spoken, match.groupdict().get("model"), wire)
                return
        self.unexpected.append(f"{head.method} {path}")
        await wire.answer(404, {"error": {"message": f"no such place: {path}"}})

    async def _list(self, head: RequestHead, path: str, wire: HttpConnection) -> None:
        self.listings.append(head)
        spoken: Spoken = "anthropic" if "anthropic-version" in head.headers else "openai-chat"
        if "/v1beta/" in path:
            spoken = "google"
        if isinstance(self.listing, StreamPause):
            await wire.wait(self.listing)
        elif self.listing is not None:
            await _refuse(wire, spoken, self.listing)
            return
        await wire.answer(200, _FORMATS[spoken].listing(self.models))

    async def _reply(
        self, head: RequestHead, spoken: Spoken, model: str | None, wire: HttpConnection
    ) -> None:
        seen = SeenRequest(head, spoken, model or str(json.loads(head.body).get("model")))
        async with self._arrived:
            self.requests.append(seen)
            self._arrived.notify_all()
        reply = self._next(seen)
        try:
            if isinstance(reply, ModelFault):
                seen.end("faulted")
                await _refuse(wire, spoken, reply)
            else:
                await _play(wire, reply, seen, len(self.requests))
        except ClientClosed:
            seen.end("abandoned")
            raise
        except asyncio.CancelledError:
            seen.end("dropped")
            raise

    def _next(self, seen: SeenRequest) -> Reply:
        scripted = self._always or (self._script.pop(0) if self._script else None)
        if scripted is None:
            self.unexpected.append(f"request {len(self.requests)} to {seen.path}")
            return ModelFault(400, "the script has no more answers")
        return scripted(seen) if callable(scripted) else scripted


async def _refuse(wire: HttpConnection, spoken: Spoken, fault: ModelFault) -> None:
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    await wire.answer(
        fault.status, _FORMATS[spoken].error(fault) if fault.body is None else fault.body, headers
    )


async def _play(wire: HttpConnection, answer: ModelAnswer, seen: SeenRequest, number: int) -> None:
    wire.begin()
    for frame in _FORMATS[seen.format].frames(answer, number, seen.model):
        if isinstance(frame, StreamPause):
            await wire.wait(frame)
        elif isinstance(frame, DroppedConnection):
            seen.end("dropped")
            if frame.clean:
                break
            await asyncio.sleep(0)  # what was written before leaves first
            wire.drop()
            raise ClientClosed
        else:
            await wire.stream(frame)
    wire.end()
    seen.end("answered")
