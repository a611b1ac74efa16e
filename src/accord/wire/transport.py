"""The transport contract, and line framing (bytes to frames, no I/O).

Loaded before `initialize` is answered: keep heavy imports out.
"""

from typing import Final, Protocol

from msgspec import Struct

# MERGED wire.transport: The contract of a transport: how whole frames get to the other side and back, in order.
#
# A transport pushes what arrives into a `Receiver` (one call for everything one read brought) and takes frames to send
# without blocking. Framing, processes and sockets are its business; what the frames mean is not.
#
# The rules any implementation keeps (tests/wire/transport_contract.py runs them against each):
# * frames arrive in the order they were sent, each exactly once, without their line end;
# * `ended` is called exactly once, after the last frame, whoever caused the end;
# * `send` never raises; after the end it is dropped, or still goes out where only the incoming direction ended;
# * `pause` stops deliveries (what was already read may still come), `resume` goes on where it stopped;
# * `aclose` is bounded in time, may be called twice, and returns after `ended`; a paused reader misses the rest.


class OversizedFrame(Struct, frozen=True):
    """Stands in the place of a frame over the size limit: its size, its first bytes and its last ones."""

    size: int
    head: bytes
    tail: bytes


Frame = bytes | OversizedFrame


class TransportEnd(Struct, frozen=True):
    """How a transport ended: a sentence, and for a child process its exit and its last words."""

    reason: str
    exit_code: int | None = None
    signal: str | None = None
    stderr: str = ""
    connected: bool = True
    """False where there never was anybody at the other end."""


class Receiver(Protocol):
    """Where a transport delivers to. All calls come on the event loop, never after `ended`."""

    def frames(self, frames: list[Frame]) -> None:
        """Everything that one read completed, in order."""
        ...

    def ended(self, end: TransportEnd) -> None:
        """Nothing more will come."""
        ...


class Transport(Protocol):
    """One end of a pipe that carries frames."""

    def start(self, receiver: Receiver) -> None:
        """Begin to deliver; called once."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one frame (no line end in it) behind those before it; never blocks, never raises."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes accepted by `send` that have not left this process."""
        ...

    async def drain(self) -> None:
        """Return once `unsent` is below the high-water mark, or the transport has ended."""
        ...

    def pause(self) -> None:
        """Stop reading, so that the peer feels it."""
        ...

    def resume(self) -> None:
        """Read on."""
        ...

    async def aclose(self) -> None:
        """End in order: flush, let the peer go, then end it; each step bounded."""
        ...


# MERGED wire.framing: Bytes to frames: one message a line, whatever the reads cut them into. Pure, no I/O.
#
# A line end is LF or CRLF, a byte order mark before a line is dropped, blank lines are nothing. A line over the limit
# becomes one `OversizedFrame` in its place, and streams past in bounded memory: the limit refuses a message, never the stream.
# The same bytes give the same frames however they are cut.

DEFAULT_LIMIT: Final = 64 * 1024 * 1024
"""The longest frame taken, in bytes. Base64 images and replayed history are big; memory is not endless."""

SHOWN: Final = 4096
"""How many bytes of either end of an oversized frame are kept."""

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = b"\r"


class LineFramer:
    """Splits a stream into frames: `feed` every read, then `finish` once at its end."""

    __slots__ = ("_head", "_limit", "_line", "_most", "_passed")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        # Past this length a line is too long even if it turns out to carry a mark and a CR.
        self._most = max(limit, SHOWN + len(_CR)) + len(_BOM) + len(_CR)
        self._line = bytearray()  # the unfinished line; of one over the limit only its last bytes
        self._passed = 0  # bytes of an oversized line that are no longer in _line
        self._head = b""  # and its first ones

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order."""
        lines = data.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._line:
                frames += self._completed(lines[0])
                del lines[0]
            if len(data) > self._limit or _CR in data or (_BOM[0] in data and _BOM in data):
                for line in lines:
                    frames += self._trimmed(line)
            elif frames:
                frames += filter(bytes.strip, lines)
            else:
                frames = list(filter(bytes.strip, lines))
        if rest:
            self._keep(rest)
        return frames

    def finish(self) -> list[Frame]:
        """The last line, where the stream ended without a line end."""
        return self._completed(b"") if self._line else []

    def _keep(self, piece: bytes) -> None:
        line = self._line
        line += piece
        if self._passed:
            surplus = len(line) - SHOWN - len(_CR)
            self._passed += surplus
            del line[:surplus]
        elif len(line) > self._most:
            mark = len(_BOM) if line.startswith(_BOM) else 0
            self._head = bytes(line[mark : mark + SHOWN])
            self._line = line[-SHOWN - len(_CR) :]
            self._passed = len(line) - mark - len(self._line)

    def _completed(self, piece: bytes) -> list[Frame]:
        self._keep(piece)
        line, passed = self._line, self._passed
        self._line, self._passed = bytearray(), 0
        if not passed:
            return self._trimmed(bytes(line))
        if line.endswith(_CR):
            del line[-1:]
        return [OversizedFrame(passed + len(line), self._head, bytes(line[-SHOWN:]))]

    def _trimmed(self, line: bytes) -> list[Frame]:
        line = line.removeprefix(_BOM).removesuffix(_CR)
        if len(line) > self._limit:
            return [OversizedFrame(len(line), line[:SHOWN], line[-SHOWN:])]
        return [line] if line.strip() else []
