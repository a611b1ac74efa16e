"""A transport that translates between two protocol versions.

It stands between the transport of a peer and the connection that handles its messages. A translator sees
every frame of both directions and passes on what the other side understands. Imported on first use.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, cast

from accord.wire.transport import Frame, Receiver, Transport, TransportEnd

_EXTENSION_CALL: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":\d+,"method":"_')
LineTaker = Callable[[Frame, Callable[[Any], bool]], bool]


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
        self.translator = None
        self.takes_events: bool = False
        """Whether the translator understands the events of `accord.session` in place of updates."""
        self.passes: Callable[[Frame], bool] | None = None
        """Tells whether a frame of the peer is the same in both versions. Set by the translator."""
        self.is_unchanged: Callable[[Any], bool] | None = None
        """Tells the same of a decoded notification."""
        self._inbox: list[Frame] = []
        self._collecting = False
        self._scheduled = False

    @property
    def translator(self) -> Translator | None:
        """Translates the frames now."""
        return self._translator

    @translator.setter
    def translator(self, translator: Translator | None) -> None:
        self._translator = translator
        self.send: Callable[[bytes], None] = self.transmit if translator is None else translator.send

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
        line_taker: Callable[[], LineTaker] | None = getattr(receiver, "line_taker", None)
        self._take_line = None if line_taker is None else line_taker()
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """Translate the frames of one read and give the result to the connection."""
        passes = self.passes if self._translator is not None else _always
        if passes is not None and not self._inbox and all(map(passes, frames)):
            self._receiver.frames(frames)
        elif self._take_line is not None:
            cast(Any, self._receiver).frames(self._translated(frames, self._take_line))
        elif translated := [*self._translated(frames, None)]:
            self._receiver.frames(translated)

    def _translated(self, frames: list[Frame], take_line: LineTaker | None) -> Iterator[Frame]:
        """Translate one frame after the other. `take_line` may handle one that needs no translation."""
        if self._inbox:
            yield from self._empty_inbox()
        unchanged = self.is_unchanged
        for frame in frames:
            if unchanged is not None and take_line is not None and take_line(frame, unchanged):
                continue
            if self._translator is None:
                yield frame
                continue
            self._collecting = True
            try:
                self._translator.receive(frame)
            finally:
                self._collecting = False
            if self._inbox:
                yield from self._empty_inbox()

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
            self._receiver.frames(self._empty_inbox())

    def _empty_inbox(self) -> list[Frame]:
        frames, self._inbox = self._inbox, []
        return frames


def _always(_frame: Frame) -> bool:
    return True


def is_response(frame: Frame) -> bool:
    """Whether a frame is a response, as far as its text shows that: it has no `method`, not even inside."""
    return isinstance(frame, bytes) and frame[:1] == b"{" and b'"method"' not in frame and b"\\u" not in frame


def is_extension_call(frame: Frame) -> bool:
    """Whether a frame is a request of a method that begins with an underscore, and nothing else."""
    if not isinstance(frame, bytes):
        return False
    found = _EXTENSION_CALL.match(frame)
    return found is not None and b"\\u" not in frame and frame.find(b'"method"', found.end()) < 0
