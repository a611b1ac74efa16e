"""A transport that translates between two protocol versions.

It stands between the transport of a peer and the connection that handles its messages. A translator sees
every frame of both directions and passes on what the other side understands. Imported on first use.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from accord.wire.transport import Frame, Receiver, Transport, TransportEnd


class Translator(Protocol):
    """Translates the frames of one connection."""

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the peer: `deliver` what the connection gets, `transmit` what the peer gets."""
        ...

    def send(self, frame: bytes) -> None:
        """Handle a frame of the connection, in the same way."""
        ...

    def ended(self) -> None:
        """Handle the end of the transport, before the connection learns of it."""
        ...


class TranslatingTransport:
    """Passes every frame to a translator. Without one, frames pass unchanged."""

    def __init__(self, transport: Transport) -> None:
        self.transport: Transport = transport
        self.transmit: Callable[[bytes], None] = transport.send
        """Sends a frame to the peer."""
        self.translator: Translator | None = None
        self.takes_events: bool = False
        """Whether the translator understands the events of `accord.session` in place of updates."""
        self._inbox: list[Frame] = []
        self._collecting = False
        self._scheduled = False

    @property
    def stderr(self) -> str:
        """The last stderr lines of the program at the other end, if there is one."""
        return getattr(self.transport, "stderr", "")

    def deliver(self, frame: Frame) -> None:
        """Give a frame to the connection: at the end of the current read, else soon."""
        self._inbox.append(frame)
        if not self._collecting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_scheduled)

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """Translate the frames of one read and give the result to the connection."""
        if self.translator is None and not self._inbox:
            self._receiver.frames(frames)
            return
        self._collecting = True
        try:
            for frame in frames:
                if self.translator is None:
                    self._inbox.append(frame)
                else:
                    self.translator.receive(frame)
        finally:
            self._collecting = False
        self._flush()

    def ended(self, end: TransportEnd) -> None:
        """Pass the end to the connection, after what the translator still has for it."""
        if self.translator is not None:
            self._collecting = True
            try:
                self.translator.ended()
            finally:
                self._collecting = False
        self._flush()
        self._receiver.ended(end)

    def send(self, frame: bytes) -> None:
        if self.translator is None:
            self.transport.send(frame)
        else:
            self.translator.send(frame)

    @property
    def unsent(self) -> int:
        return self.transport.unsent

    async def drain(self) -> None:
        await self.transport.drain()

    def pause(self) -> None:
        self.transport.pause()

    def resume(self) -> None:
        self.transport.resume()

    async def aclose(self) -> None:
        await self.transport.aclose()

    def kill(self) -> None:
        """Kill the process at the other end, if there is one."""
        kill: Callable[[], None] | None = getattr(self.transport, "kill", None)
        if kill is not None:
            kill()

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self._flush()

    def _flush(self) -> None:
        if self._inbox:
            frames, self._inbox = self._inbox, []
            self._receiver.frames(frames)
