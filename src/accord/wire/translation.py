"""A transport that translates between two protocol versions.

It stands between the transport of a peer and the connection that handles its messages. A translator sees
every frame of both directions and passes on what the other side understands. Imported on first use.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, cast, runtime_checkable

from accord.wire.transport import Frame, Receiver, Transport, TransportEnd

CALL_START: Final = b'{"jsonrpc":"2.0","id":'
"""How our requests and responses begin."""
_EXTENSION_CALL: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":\d+,"method":"_')


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


@runtime_checkable
class FrequentReceiver(Protocol):
    """A connection that decodes the lines of its frequent notification before they are translated."""

    def read_frequent(self, frames: list[Frame]) -> list[Any]:
        """Decode the lines; the result has None for other frames."""
        ...

    def run_frequent(self, params: Any, frame: Frame) -> bool:
        """Handle a decoded line during a read; return False if something is unfinished."""
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
        self.chunk_ends: dict[bytes, tuple[bytes, bytes]] = {}
        """What is before the text of the last chunk of each session, and what is behind it: from the
        connection, and for the peer. The translator keeps it; it is empty after other frames.
        """
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

    def send_text(self, head: bytes, text: bytes, tail: bytes) -> None:
        """Send a chunk of a message; `text` is its text as JSON."""
        ends = self.chunk_ends.get(head)
        if ends is not None and ends[0] == tail:
            self.transmit(head + text + ends[1])
        else:
            self.send(head + text + tail)

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
        self._frequent: FrequentReceiver | None = receiver if isinstance(receiver, FrequentReceiver) else None
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """Translate the frames of one read and give the result to the connection."""
        passes = self.passes if self._translator is not None else _always
        one = frames[0] if len(frames) == 1 else None
        if passes is not None and not self._inbox and (passes(one) if one else all(map(passes, frames))):
            self._receiver.frames(frames)
        elif self._frequent is not None:
            cast(Any, self._receiver).frames(self._translated(frames))
        elif translated := [*self._translated(frames)]:
            self._receiver.frames(translated)

    def _translated(self, frames: list[Frame]) -> Iterator[Frame]:
        """Translate one frame after the other, without those that the connection can handle as they are."""
        if self._inbox:
            yield from self._empty_inbox()
        frequent, unchanged = self._frequent, self.is_unchanged or _never
        messages = [None] * len(frames) if frequent is None else frequent.read_frequent(frames)
        for frame, params in zip(frames, messages, strict=True):
            is_unchanged = params is not None and unchanged(params)
            if is_unchanged and frequent is not None and frequent.run_frequent(params, frame):
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


def _never(_params: Any) -> bool:
    return False


def _always(_frame: Frame) -> bool:
    return True


def is_response(frame: Frame) -> bool:
    """Whether a frame is a response, as far as its text shows that: it has no `method`, not even inside."""
    # `find` is much faster than `in`, which first tries to read its operand as a number.
    return (
        isinstance(frame, bytes)
        and frame.startswith(b"{")
        and frame.find(b'"method"') < 0
        and frame.find(b"\\u") < 0
    )


def is_extension_call(frame: Frame) -> bool:
    """Whether a frame is a request of a method that begins with an underscore, and nothing else."""
    if not isinstance(frame, bytes):
        return False
    found = _EXTENSION_CALL.match(frame)
    return found is not None and frame.find(b"\\u") < 0 and frame.find(b'"method"', found.end()) < 0
