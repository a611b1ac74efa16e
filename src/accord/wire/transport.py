"""The transport contract, and line framing (bytes to frames, no I/O).

A transport carries whole frames in both directions. It pushes received frames into a `Receiver`, one call per
read, and queues frames to send without blocking. It does not know what the frames mean.

Every implementation keeps these rules (tests/wire/transport_contract.py checks each of them):
* Frames arrive in the order they were sent, each exactly once, without their line end.
* `ended` is called exactly once, after the last frame, no matter which side caused the end.
* `send` never raises. After the end frames are dropped, or still sent if only the incoming direction ended.
* `pause` stops deliveries (frames already read may still arrive), `resume` continues where it stopped.
* `aclose` is bounded in time, may be called twice, and returns after `ended`. If reading is paused, unread
  frames are dropped.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from typing import Final, Protocol, TypeVar

from msgspec import Struct

from accord.errors import ConnectionClosed

C = TypeVar("C", bound=ConnectionClosed)


class OversizedFrame(Struct, frozen=True):
    """Replaces a frame over the size limit: its size, its first and its last bytes."""

    size: int
    head: bytes
    tail: bytes


Frame = bytes | OversizedFrame


class TransportEnd(Struct, frozen=True):
    """Why a transport ended; for a child process also its exit and the tail of its stderr."""

    reason: str
    exit_code: int | None = None
    signal: str | None = None
    stderr: str = ""
    connected: bool = True
    """False if the connection was never established."""
    can_send: bool = False
    """Whether frames may still reach the peer: only the incoming direction has ended."""

    def error(self, message: str, kind: type[C] = ConnectionClosed) -> C:
        """Return the error for what this end made impossible."""
        return kind(message, exit_code=self.exit_code, signal=self.signal, stderr=self.stderr)


class Receiver(Protocol):
    """Receives from a transport. All calls come on the event loop, none after `ended`."""

    def frames(self, frames: list[Frame]) -> None:
        """Receive all frames that one read completed, in order."""
        ...

    def ended(self, end: TransportEnd) -> None:
        """Receive the end: no more frames follow."""
        ...


class Transport(Protocol):
    """One end of a connection that carries frames."""

    def start(self, receiver: Receiver) -> None:
        """Start delivering; called once."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one frame, which contains no line end; never blocks, never raises."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes accepted by `send` that have not left this process yet."""
        ...

    async def drain(self) -> None:
        """Wait until `unsent` is below the high-water mark or the transport has ended."""
        ...

    def pause(self) -> None:
        """Stop reading, so that the peer has to wait."""
        ...

    def resume(self) -> None:
        """Continue reading."""
        ...

    async def aclose(self) -> None:
        """Flush, wait for the peer to close, then end it; each step is bounded in time."""
        ...


DEFAULT_LIMIT: Final = 64 * 1024 * 1024
"""The longest accepted frame, in bytes: enough for base64 images and replayed history."""

OVERSIZED_SAMPLE: Final = 4096
"""How many bytes of each end of an oversized frame are kept."""

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = b"\r"


class LineFramer:
    """Splits a byte stream into frames, one per line: `feed` every read, then `finish` once at its end.

    A line ends with LF or CRLF. A byte order mark before a line is dropped, and so are blank lines. A line
    over the limit becomes one `OversizedFrame` and takes bounded memory: the stream goes on behind it. The
    result does not depend on how reads cut the stream.
    """

    __slots__ = ("_dropped", "_head", "_limit", "_line", "_longest_line")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        # A line longer than this is too long even without its byte order mark and its CR.
        self._longest_line = max(limit, OVERSIZED_SAMPLE + len(_CR)) + len(_BOM) + len(_CR)
        self._line = bytearray()  # the unfinished line; if it is oversized, only its last bytes
        self._dropped = 0  # dropped bytes of an oversized line
        self._head = b""  # the first bytes of an oversized line

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete, in order."""
        lines = data.split(b"\n")
        unfinished = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._line:
                frames += self._finish_line(lines[0])
                del lines[0]
            if len(data) > self._limit or _CR in data or (_BOM[0] in data and _BOM in data):
                for line in lines:
                    frames += self._to_frame(line)
            elif frames:
                frames += filter(bytes.strip, lines)
            else:
                frames = list(filter(bytes.strip, lines))
        if unfinished:
            self._append(unfinished)
        return frames

    def finish(self) -> list[Frame]:
        """Return the last line if the stream ended without a line end."""
        return self._finish_line(b"") if self._line else []

    def _append(self, part: bytes) -> None:
        line = self._line
        line += part
        if self._dropped:
            surplus = len(line) - OVERSIZED_SAMPLE - len(_CR)
            self._dropped += surplus
            del line[:surplus]
        elif len(line) > self._longest_line:
            bom_length = len(_BOM) if line.startswith(_BOM) else 0
            self._head = bytes(line[bom_length : bom_length + OVERSIZED_SAMPLE])
            self._line = line[-OVERSIZED_SAMPLE - len(_CR) :]
            self._dropped = len(line) - bom_length - len(self._line)

    def _finish_line(self, part: bytes) -> list[Frame]:
        self._append(part)
        line, dropped = self._line, self._dropped
        self._line, self._dropped = bytearray(), 0
        if not dropped:
            return self._to_frame(bytes(line))
        if line.endswith(_CR):
            del line[-1:]
        return [OversizedFrame(dropped + len(line), self._head, bytes(line[-OVERSIZED_SAMPLE:]))]

    def _to_frame(self, line: bytes) -> list[Frame]:
        line = line.removeprefix(_BOM).removesuffix(_CR)
        if len(line) > self._limit:
            return [OversizedFrame(len(line), line[:OVERSIZED_SAMPLE], line[-OVERSIZED_SAMPLE:])]
        return [line] if line.strip() else []
