"""The two streams of messages that the `mcp` package speaks over, on our own transports; and a look at when they end."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from accord.coder.mcp.live.repairing import repaired
from accord.wire.process import ProcessTransport
from accord.wire.transport import End, Frame, Oversized

Incoming: TypeAlias = SessionMessage | Exception
_LOG: Final = logging.getLogger("accord.coder.mcp")
_MOST_WAITING: Final = 256  # messages that were read and not yet taken; then the server has to wait


class Inbox:
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

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "Inbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Outbox:
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

    async def __aenter__(self) -> "Outbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ProcessStreams(Outbox):
    """Both streams over the pipes of a child. `on_end` hears once why it is over."""

    def __init__(self, transport: ProcessTransport, on_end: Callable[[End], None]) -> None:
        super().__init__(self._frame)
        self.inbox = Inbox()
        self._transport = transport
        self._on_end = on_end
        self._paused = False
        self._too_large: Oversized | None = None
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
            if isinstance(frame, Oversized):
                # Which call it answers cannot be known without reading it: all of them are told that it is over.
                self._too_large = frame
                self.ended(End(f"it sent a message of {frame.size:,} bytes, which is too large"))
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

    def ended(self, end: End) -> None:
        self.inbox.end()
        self._on_end(end)

    def _room(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume()


class Watched:
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

    def __aiter__(self) -> "Watched":
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "Watched":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._inner.__aexit__(*exc_info)
