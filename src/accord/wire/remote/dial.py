"""How a remote agent is reached, as often as it takes: the counterpart of the command that starts a local one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from accord.clock import SYSTEM_CLOCK, Clock
from accord.extras import require
from accord.wire.remote.address import Address
from accord.wire.remote.times import Times
from accord.wire.transport import Transport


@dataclass(frozen=True, slots=True)
class Dial:
    """An address and the patience with it; every `start` is a connection of its own, with the cookies of those before."""

    address: Address
    times: Times = field(default_factory=Times)
    clock: Clock = SYSTEM_CLOCK

    def __str__(self) -> str:
        return self.address.shown

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> Transport:
        """Connect, in messages up to the limit. Raises MissingExtra, NeverStarted, UsageError."""
        require("remote", f"{self.address}: a remote agent")
        if self.address.websocket:
            from accord.wire.remote.websocket import open_websocket

            return await open_websocket(self.address, limit=limit, times=self.times, clock=self.clock)
        from accord.wire.remote.http import StreamableHttpTransport

        return StreamableHttpTransport(self.address, limit=limit, times=self.times, clock=self.clock)
