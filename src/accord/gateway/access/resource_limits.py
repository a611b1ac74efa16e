"""Limits per token and in total, with leases, buffers and token buckets."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import RpcError
from accord.gateway.access.access_tokens import TokenRights

# MERGED gateway.access.bucket: A token bucket: so much at once, so much a second on the average.


class TokenBucket:
    """Filled at a steady rate up to its size; what is taken must be in it."""

    __slots__ = ("_at", "_clock", "_level", "per_second", "size")

    def __init__(self, clock: Clock, per_second: float, size: float) -> None:
        self.per_second = per_second
        self.size = size
        self._clock = clock
        self._level = size
        self._at = clock.now()

    def take(self, amount: float) -> float:
        """Take it and return 0; or take nothing and return in how many seconds it would be there."""
        now = self._clock.now()
        level = min(self.size, self._level + (now - self._at) * self.per_second)
        self._at = now
        if level >= amount:
            self._level = level - amount
            return 0.0
        self._level = level
        return (amount - level) / self.per_second


# MERGED gateway.access.limits: How much of everything: for one token and in total. Every limit refuses with a sentence that names it.
#
# What lasts (a connection, a session, a process) is a lease: taken, and given back once. What passes (a message) is counted.

LIMIT_REACHED: Final = -32029
_MIB: Final = 1024 * 1024

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 40)]
Rate = Annotated[float, Meta(gt=0, le=1e9)]


class GatewayLimitReached(RpcError):
    """A limit of the gateway. On a WebSocket it can be close code 1008."""

    default_code = LIMIT_REACHED
    status: Final = 429
    """Over HTTP."""

    def __init__(self, what: str, limit: float, setting: str, retry_after: float | None = None) -> None:
        super().__init__(
            f"Limit reached: {what} (at most {limit:,.12g}); the gateway's owner can raise {setting!r} in serve.json.",
            {"limit": setting, "most": limit} | ({} if retry_after is None else {"retryAfter": retry_after}),
        )
        self.what = what
        self.limit = limit
        self.setting = setting
        self.retry_after = retry_after
        """In how many seconds it is worth another try, where that is known."""


class GatewayLimits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """All limits; `limits` in serve.json. Those without `total` in their name are for one token."""

    connections: Count = 256
    total_connections: Count = 2048
    sessions: Count = 64
    """Live sessions."""
    total_sessions: Count = 256
    total_processes: Count = 32
    """Processes of agents."""
    message_bytes: Bytes = 16 * _MIB
    """The largest message of a client."""
    buffered_bytes: Bytes = 256 * _MIB
    """What waits in memory for clients that do not read it."""
    total_buffered_bytes: Bytes = 1024 * _MIB
    messages_per_second: Rate = 500.0
    message_burst: Rate = 5000.0
    """So many messages at once, before the rate counts."""
    total_messages_per_second: Rate = 20_000.0


class LimitLease:
    """Something taken. Giving it back twice is giving it back once."""

    __slots__ = ("_give_back",)

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Give it back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> "LimitLease":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


class _Held:
    """How much of one thing is out: in total, and by whom."""

    __slots__ = ("by", "most", "setting", "total", "total_most", "total_setting", "what")

    def __init__(self, what: str, most: float, setting: str, total_most: float, total_setting: str) -> None:
        self.what = what
        self.most, self.setting = most, setting
        self.total_most, self.total_setting = total_most, total_setting
        self.by: Counter[str] = Counter()
        self.total = 0

    def take(self, who: str, amount: int = 1) -> None:
        if self.by[who] + amount > self.most:
            raise GatewayLimitReached(f"{self.what} of this token", self.most, self.setting)
        if self.total + amount > self.total_most:
            raise GatewayLimitReached(
                f"{self.what} of the whole gateway", self.total_most, self.total_setting
            )
        self.by[who] += amount
        self.total += amount

    def give(self, who: str, amount: int = 1) -> None:
        self.total -= amount
        self.by[who] -= amount
        if self.by[who] <= 0:
            del self.by[who]


class BufferedBytes:
    """The bytes that wait for one client. `release` gives all of them back at its end."""

    __slots__ = ("_held", "_who", "size")

    def __init__(self, held: _Held, who: str) -> None:
        self._held = held
        self._who = who
        self.size = 0

    def add(self, size: int) -> None:
        """So many more wait. Raises LimitReached, and then counts nothing."""
        self._held.take(self._who, size)
        self.size += size

    def remove(self, size: int) -> None:
        """So many have left; more than there are counts as all."""
        size = min(size, self.size)
        if size > 0:
            self.size -= size
            self._held.give(self._who, size)

    def release(self) -> None:
        """None wait any more."""
        self.remove(self.size)


class LimitCounter:
    """Counts against the limits. For one event loop; nothing here waits."""

    def __init__(self, limits: GatewayLimits | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.limits = limits = limits or GatewayLimits()
        self._clock = clock
        total_connections, total_sessions = limits.total_connections, limits.total_sessions
        self._connections = _Held(
            "open connections", limits.connections, "connections", total_connections, "totalConnections"
        )
        self._sessions = _Held("live sessions", limits.sessions, "sessions", total_sessions, "totalSessions")
        processes = limits.total_processes
        self._processes = _Held("running agents", processes, "totalProcesses", processes, "totalProcesses")
        self._buffered = _Held(
            "unread bytes",
            limits.buffered_bytes,
            "bufferedBytes",
            limits.total_buffered_bytes,
            "totalBufferedBytes",
        )
        self._rates: dict[str, TokenBucket] = {}
        everybody = limits.total_messages_per_second
        self._rate = TokenBucket(clock, everybody, max(everybody, limits.message_burst))

    def connection(self, visa: TokenRights) -> LimitLease:
        """A connection of this token. Raises LimitReached."""
        return _lease(self._connections, visa.token)

    def session(self, visa: TokenRights) -> LimitLease:
        """A live session that this token opened. Raises LimitReached."""
        return _lease(self._sessions, visa.token)

    def process(self, agent: str) -> LimitLease:
        """A process of this agent. Raises LimitReached."""
        return _lease(self._processes, agent)

    def buffer(self, visa: TokenRights) -> BufferedBytes:
        """What waits for one client of this token."""
        return BufferedBytes(self._buffered, visa.token)

    def rate(self, visa: TokenRights) -> None:
        """One more message of this token. Raises LimitReached, with the time to wait."""
        bucket = self._rates.get(visa.token)
        if bucket is None:
            limits = self.limits
            bucket = TokenBucket(
                self._clock, limits.messages_per_second, max(limits.message_burst, limits.messages_per_second)
            )
            self._rates[visa.token] = bucket
        if wait := bucket.take(1):
            raise GatewayLimitReached(
                "messages a second of this token", bucket.per_second, "messagesPerSecond", wait
            )
        if wait := self._rate.take(1):
            raise GatewayLimitReached(
                "messages a second of the whole gateway",
                self._rate.per_second,
                "totalMessagesPerSecond",
                wait,
            )

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._connections.total

    @property
    def sessions(self) -> int:
        """How many are live."""
        return self._sessions.total

    @property
    def processes(self) -> int:
        """How many run."""
        return self._processes.total

    @property
    def buffered(self) -> int:
        """How many bytes wait for clients."""
        return self._buffered.total


def _lease(held: _Held, who: str) -> LimitLease:
    held.take(who)
    return LimitLease(lambda: held.give(who))
