"""Limits per token and in total, with leases, buffered bytes and token buckets.

Something that lasts (a connection, a session, a process) is a lease: taken, and released once. Messages are
counted by rate.
"""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import RpcError
from accord.gateway.access.access_tokens import TokenRights

LIMIT_REACHED: Final = -32029
_MIB: Final = 1024 * 1024
CountLimit = Annotated[int, Meta(ge=1, le=1_000_000)]
ByteLimit = Annotated[int, Meta(ge=1024, le=1 << 40)]
RateLimit = Annotated[float, Meta(gt=0, le=1e9)]


class TokenBucket:
    """A token bucket: refilled at a steady rate up to its size."""

    __slots__ = ("_available", "_clock", "_updated", "per_second", "size")

    def __init__(self, clock: Clock, per_second: float, size: float) -> None:
        self.per_second: float = per_second
        self.size: float = size
        self._clock = clock
        self._available = size
        self._updated = clock.now()

    def take(self, amount: float) -> float:
        """Take the amount and return 0; or take nothing and return the seconds until it is available."""
        now = self._clock.now()
        available = min(self.size, self._available + (now - self._updated) * self.per_second)
        self._updated = now
        if available >= amount:
            self._available = available - amount
            return 0.0
        self._available = available
        return (amount - available) / self.per_second


class GatewayLimitReached(RpcError):
    """A resource limit of the gateway was reached: the error response to a client's request.

    Not to be confused with `accord.errors.LimitReached`, which is raised locally when a time limit runs
    out. Over HTTP it is status 429, on a WebSocket it can be close code 1008.
    """

    default_code = LIMIT_REACHED
    status: Final = 429
    """The HTTP status."""

    def __init__(self, name: str, limit: float, setting: str, retry_after: float | None = None) -> None:
        super().__init__(
            f"Limit reached: {name} (at most {limit:,.12g}); the gateway's owner can raise {setting!r} "
            "in serve.json.",
            {"limit": setting, "most": limit} | ({} if retry_after is None else {"retryAfter": retry_after}),
        )
        self.name: str = name
        self.limit: float = limit
        self.setting: str = setting
        self.retry_after: float | None = retry_after
        """Seconds after which another try makes sense, if known."""


class GatewayLimits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """All limits; `limits` in serve.json. Those without `total` in their name apply to one token."""

    connections: CountLimit = 256
    """Open connections."""
    total_connections: CountLimit = 2048
    """Open connections of all tokens."""
    sessions: CountLimit = 64
    """Live sessions."""
    total_sessions: CountLimit = 256
    """Live sessions of all tokens."""
    total_processes: CountLimit = 32
    """Agent processes."""
    message_bytes: ByteLimit = 16 * _MIB
    """The largest message of a client."""
    buffered_bytes: ByteLimit = 256 * _MIB
    """Bytes in memory that wait for clients to read them."""
    total_buffered_bytes: ByteLimit = 1024 * _MIB
    """The same for all tokens."""
    messages_per_second: RateLimit = 500.0
    """Messages of clients."""
    message_burst: RateLimit = 5000.0
    """Messages at once before the rate applies."""
    total_messages_per_second: RateLimit = 20_000.0
    """Messages of the clients of all tokens."""


class LimitLease:
    """Something taken from a limit. Releasing it twice has no effect."""

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> "LimitLease":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


class _UsageCounter:
    """How much of one resource is in use, in total and by owner."""

    __slots__ = ("by_owner", "limit", "name", "setting", "total", "total_limit", "total_setting")

    def __init__(self, name: str, limit: float, setting: str, total_limit: float, total_setting: str) -> None:
        self.name: str = name
        self.limit: float = limit
        self.setting: str = setting
        self.total_limit: float = total_limit
        self.total_setting: str = total_setting
        self.by_owner: Counter[str] = Counter()
        self.total: int = 0

    def take(self, owner: str, amount: int = 1) -> None:
        if self.by_owner[owner] + amount > self.limit:
            raise GatewayLimitReached(f"{self.name} of this token", self.limit, self.setting)
        if self.total + amount > self.total_limit:
            raise GatewayLimitReached(
                f"{self.name} of the whole gateway", self.total_limit, self.total_setting
            )
        self.by_owner[owner] += amount
        self.total += amount

    def release(self, owner: str, amount: int = 1) -> None:
        self.total -= amount
        self.by_owner[owner] -= amount
        if self.by_owner[owner] <= 0:
            del self.by_owner[owner]


class BufferedBytes:
    """The bytes that wait for one client. `release` returns all of them."""

    __slots__ = ("_counter", "_owner", "size")

    def __init__(self, counter: _UsageCounter, owner: str) -> None:
        self._counter = counter
        self._owner = owner
        self.size: int = 0

    def add(self, size: int) -> None:
        """Count more bytes. Raises GatewayLimitReached, and then counts nothing."""
        self._counter.take(self._owner, size)
        self.size += size

    def remove(self, size: int) -> None:
        """Count fewer bytes; at most all of them."""
        size = min(size, self.size)
        if size > 0:
            self.size -= size
            self._counter.release(self._owner, size)

    def release(self) -> None:
        self.remove(self.size)


class LimitCounter:
    """Counts against the limits, for one event loop. Never waits."""

    def __init__(self, limits: GatewayLimits | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        limits = limits or GatewayLimits()
        self.limits: GatewayLimits = limits
        self._clock = clock
        total_connections, total_sessions = limits.total_connections, limits.total_sessions
        self._connections = _UsageCounter(
            "open connections", limits.connections, "connections", total_connections, "totalConnections"
        )
        self._sessions = _UsageCounter(
            "live sessions", limits.sessions, "sessions", total_sessions, "totalSessions"
        )
        processes = limits.total_processes
        self._processes = _UsageCounter(
            "running agents", processes, "totalProcesses", processes, "totalProcesses"
        )
        self._buffered = _UsageCounter(
            "unread bytes",
            limits.buffered_bytes,
            "bufferedBytes",
            limits.total_buffered_bytes,
            "totalBufferedBytes",
        )
        self._token_rates: dict[str, TokenBucket] = {}
        total_rate = limits.total_messages_per_second
        self._total_rate = TokenBucket(clock, total_rate, max(total_rate, limits.message_burst))

    def lease_connection(self, rights: TokenRights) -> LimitLease:
        """Take a connection of this token. Raises GatewayLimitReached."""
        return _take_lease(self._connections, rights.token)

    def lease_session(self, rights: TokenRights) -> LimitLease:
        """Take a live session for the token that opened it. Raises GatewayLimitReached."""
        return _take_lease(self._sessions, rights.token)

    def lease_process(self, agent: str) -> LimitLease:
        """Take a process of this agent. Raises GatewayLimitReached."""
        return _take_lease(self._processes, agent)

    def buffered_bytes(self, rights: TokenRights) -> BufferedBytes:
        """Return the counter of bytes that wait for one client of this token."""
        return BufferedBytes(self._buffered, rights.token)

    def count_message(self, rights: TokenRights) -> None:
        """Count one message of this token. Raises GatewayLimitReached with the time to wait."""
        bucket = self._token_rates.get(rights.token)
        if bucket is None:
            limits = self.limits
            bucket = TokenBucket(
                self._clock, limits.messages_per_second, max(limits.message_burst, limits.messages_per_second)
            )
            self._token_rates[rights.token] = bucket
        if wait := bucket.take(1):
            raise GatewayLimitReached(
                "messages a second of this token", bucket.per_second, "messagesPerSecond", wait
            )
        if wait := self._total_rate.take(1):
            raise GatewayLimitReached(
                "messages a second of the whole gateway",
                self._total_rate.per_second,
                "totalMessagesPerSecond",
                wait,
            )

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self._connections.total

    @property
    def sessions(self) -> int:
        """Number of live sessions."""
        return self._sessions.total

    @property
    def processes(self) -> int:
        """Number of running agent processes."""
        return self._processes.total

    @property
    def buffered(self) -> int:
        """Bytes that wait for clients."""
        return self._buffered.total


def _take_lease(counter: _UsageCounter, owner: str) -> LimitLease:
    counter.take(owner)
    return LimitLease(lambda: counter.release(owner))
