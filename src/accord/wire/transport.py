"""The transport contract: what carries the frames of a connection, and who receives them.

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
"""One received message, without its line end."""


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

    def send(self, frame: bytes, /) -> None:
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
