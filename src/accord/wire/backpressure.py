"""When to stop reading: too much lies here unread, or the other side does not read what we answer."""

from accord.wire.calls import OpenCalls
from accord.wire.routes import Limits
from accord.wire.transport import Transport


class BackPressure:
    """Counts what was received and not yet dealt with, and pauses the transport at the bound.

    While a caller of ours waits for an answer, reading goes on up to a multiple of the bound: the code that would empty
    the backlog may be the very code that waits. A caller of a streaming call does not count, its backlog is the point.
    """

    _STRETCH = 4

    def __init__(self, transport: Transport, limits: Limits, open_calls: OpenCalls) -> None:
        self._transport = transport
        self._limits = limits
        self._open_calls = open_calls
        self._held = 0
        self._paused = False
        self._draining = False

    @property
    def paused(self) -> bool:
        """Whether reading has stopped."""
        return self._paused

    def hold(self, size: int) -> None:
        """So many received bytes wait to be dealt with."""
        self._held += size
        if self._held > self._limits.inbound and not self._paused:
            self.balance()

    def release(self, size: int) -> None:
        """They have been."""
        self._held -= size
        if self._paused:
            self.balance()

    def called(self) -> None:
        """A call of ours went out: its caller may be the one who has to empty the backlog."""
        if self._paused:
            self.balance()

    def balance(self) -> None:
        """Pause or resume reading, as it should be now."""
        awaited = self._open_calls.short > 0
        bound = self._limits.inbound * (self._STRETCH if awaited else 1)
        if self._paused:
            # Half of it is free before reading goes on, unless somebody waits for an answer: what is held then may not
            # become less before that answer is read.
            if self._held <= (bound if awaited else bound // 2) and not self._draining:
                self._paused = False
                self._transport.resume()
        elif self._held > bound or self._draining:
            self._paused = True
            self._transport.pause()

    def clogged(self) -> bool:
        """Whether so much lies unsent that reading stops here and now; `drain` then has to run."""
        if self._draining or self._transport.unsent <= self._limits.outbound:
            return False
        self._draining = True
        self.balance()
        return True

    async def drain(self) -> None:
        """Read on once the other side has read what we sent."""
        try:
            await self._transport.drain()
        finally:
            self._draining = False
            self.balance()
