"""The contract of a transport: how whole frames get to the other side and back, in order.

A transport pushes what arrives into a `Receiver` (one call for everything one read brought) and takes frames to send
without blocking. Framing, processes and sockets are its business; what the frames mean is not.

The rules any implementation keeps (tests/wire/transport_contract.py runs them against each):
* frames arrive in the order they were sent, each exactly once, without their line end;
* `ended` is called exactly once, after the last frame, whoever caused the end;
* `send` never raises; after the end it is dropped, or still goes out where only the incoming direction ended;
* `pause` stops deliveries (what was already read may still come), `resume` goes on where it stopped;
* `aclose` is bounded in time, may be called twice, and returns after `ended`; a paused reader misses the rest.
"""

from typing import Protocol

from msgspec import Struct


class Oversized(Struct, frozen=True):
    """Stands in the place of a frame over the size limit: its size, its first bytes and its last ones."""

    size: int
    head: bytes
    tail: bytes


Frame = bytes | Oversized


class End(Struct, frozen=True):
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

    def ended(self, end: End) -> None:
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
