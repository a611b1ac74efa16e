"""A minimal WebSocket client, cheap enough to run a thousand of them beside the gateway."""

import asyncio
import base64
import json
import os
from collections.abc import Callable
from typing import Any


class WebSocketClient(asyncio.Protocol):
    """Counts received frames and passes each to `watch`. Supports only what the measured servers send."""

    def __init__(self) -> None:
        self.frames = 0
        self.expected: tuple[int, asyncio.Event] | None = None
        """The number of frames that `until` waits for, and the event that wakes it."""
        self.watch: Callable[[bytes], None] | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self._open, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        if not self._open.done():
            self._buffer += data
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head.split(b"\r\n", 1)[0], head
            self._buffer, data = b"", rest
            self._open.set_result(None)
        data = self._buffer + data if self._buffer else data
        at, length = 0, len(data)
        while at + 2 <= length:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[start : start + 2], "big"), start + 2
            elif size == 127:
                size, start = int.from_bytes(data[start : start + 8], "big"), start + 8
            if start + size > length:
                break
            if data[at] == 0x81:
                self._received(data[start : start + size])
            elif data[at] == 0x88:
                self.connection_lost(None)
                self.close()
            at = start + size
        self._buffer = data[at:]

    def _received(self, frame: bytes) -> None:
        self.frames += 1
        if self.expected is not None and self.frames >= self.expected[0]:
            self.expected[1].set()
        if frame.startswith(b'{"jsonrpc":"2.0","id":') and b'"method"' not in frame[:60]:
            answer = json.loads(frame)
            waiting = self._answers.pop(answer["id"], None)
            if waiting is not None:
                waiting.set_result(answer)
        elif self.watch is not None:
            self.watch(frame)

    async def until(self, frames: int) -> None:
        """Wait until this many frames have arrived."""
        if self.frames < frames:
            self.expected = (frames, asyncio.Event())
            await self.expected[1].wait()

    def request(self, method: str, **params: Any) -> "asyncio.Future[Any]":
        """Send a request and return a future of the whole response."""
        self._id += 1
        message = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        self.send(message.encode())
        waiting = self._answers[self._id] = asyncio.get_running_loop().create_future()
        return waiting

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        answer = await self.request(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def send(self, body: bytes) -> None:
        assert self._transport is not None
        size = len(body)
        head = bytes((0x81, 0x80 | size)) if size < 126 else b"\x81\xfe" + size.to_bytes(2, "big")
        self._transport.write(head + b"\0\0\0\0" + body)  # a mask of zeros leaves the bytes unchanged

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


async def connect(port: int, token: str | None = None, version: int = 1) -> WebSocketClient:
    """Connect and send `initialize` for a protocol version."""
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(WebSocketClient, "127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    auth = f"Authorization: Bearer {token}\r\n" if token else ""
    transport.write(
        f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{auth}"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    await client._open  # pyright: ignore[reportPrivateUsage]
    body = {"info": {"name": "benchmark", "version": "1"}} if version == 2 else {"clientCapabilities": {}}
    await client.call("initialize", protocolVersion=version, **body)
    return client
