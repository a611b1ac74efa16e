"""`ClientOptions`, time limits and restart policy."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from accord import __version__
from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.errors import RequestTimeout
from accord.schema import Implementation
from accord.wire.calls import ConnectionLimits, ConnectionReport
from accord.wire.transport import DEFAULT_LIMIT, Transport

# MERGED client.limits: How long the client waits: the limits in seconds, and the watch that counts.
#
# A watch counts only time in which nothing was heard and nobody waited for this side. It looks every tenth of its limit,
# so that hearing a message costs nothing: a limit may run out up to a tenth late, never early.

T = TypeVar("T")

_STEPS: Final = 64
"""So often a limit is looked at: the end of a silence is noticed a 64th of it late at most. A power of two adds up exactly."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits in seconds; None waits for ever. `authenticate` has none: a person is at work."""

    request: float | None = 60.0
    """An ordinary call; for `session/load` and `session/resume`, which stream, the silence in them."""
    startup: float | None = 120.0
    """From the start of the program to the answer of `initialize`."""
    silence: float | None = 600.0
    """A prompt without a sign of life. Does not count while the agent waits for us or a tool call is in progress."""
    cancel: float = 10.0
    """A cancelled turn without a sign of life, before it is given up."""


def _never() -> bool:
    return False


def _nothing() -> int:
    return 0


class SilenceTimer:
    """Counts silence up to a limit, then calls `expired` once. Made on the event loop, ends with `stop`."""

    __slots__ = ("_clock", "_expired", "_heard", "_last", "_left", "_step", "_still", "_timer", "ran_out")

    def __init__(
        self,
        clock: Clock,
        limit: float | None,
        expired: Callable[[], Any],
        *,
        heard: Callable[[], int] = _nothing,
        still: Callable[[], bool] = _never,
    ) -> None:
        """`heard` changes with every sign of life, which starts the count anew; `still` says that time does not count."""
        self.ran_out = False
        self._clock = clock
        self._expired = expired
        self._heard = heard
        self._still = still
        self._last = heard()
        self._left = _STEPS
        self._step = 0.0 if limit is None else limit / _STEPS
        self._timer: Timer | None = None if limit is None else clock.call_later(self._step, self._look)

    def stop(self) -> None:
        """Count no more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        heard = self._heard()
        if heard != self._last:
            self._last = heard
            self._left = _STEPS
        elif not self._still():
            self._left -= 1
        if self._left > 0:
            self._timer = self._clock.call_later(self._step, self._look)
        else:
            self._timer = None
            self.ran_out = True
            self._expired()


class Deadlines:
    """The limit of all ordinary calls of one agent, kept by one timer: a call costs an entry in a set."""

    __slots__ = ("_calls", "_clock", "_limit", "_still", "_timer")

    def __init__(self, clock: Clock, limit: float | None, still: Callable[[], bool]) -> None:
        self._clock = clock
        self._limit = limit
        self._still = still
        self._calls: set[_Call] = set()
        self._timer: Timer | None = None

    async def keep(self, work: Awaitable[T], what: str) -> T:
        """Await the work; when its time is over, cancel it and raise RequestTimeout."""
        if self._limit is None:
            return await work
        task = asyncio.current_task()
        assert task is not None, "a limit is kept inside a task"
        call = _Call(task)
        self._calls.add(call)
        if self._timer is None:
            self._arm(self._limit)
        try:
            return await work
        except asyncio.CancelledError:
            if call.left <= 0 and task.uncancel() <= call.cancels:
                raise RequestTimeout(f"{what} was not answered within {self._limit:g} s") from None
            raise
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, limit: float) -> None:
        self._timer = self._clock.call_later(limit / _STEPS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._calls and self._limit is not None:
            self._arm(self._limit)
            if not self._still():
                for call in self._calls:
                    call.left -= 1
                    if call.left == 0:
                        call.task.cancel()


class _Call:
    """One call under a limit. It began between two looks, so the first look after that does not count in full."""

    __slots__ = ("cancels", "left", "task")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.cancels = task.cancelling()
        self.left = _STEPS + 1


async def bounded(
    work: Awaitable[T],
    error: Callable[[], Exception],
    clock: Clock,
    limit: float | None,
    *,
    heard: Callable[[], int] = _nothing,
    still: Callable[[], bool] = _never,
) -> T:
    """Await the work; when a watch over it runs out, cancel it and raise the error."""
    task = asyncio.current_task()
    assert task is not None, "a limit is kept inside a task"
    cancels = task.cancelling()
    watch = SilenceTimer(clock, limit, task.cancel, heard=heard, still=still)
    try:
        return await work
    except asyncio.CancelledError:
        # Only our own cancellation becomes the error; somebody else's goes on.
        if watch.ran_out and task.uncancel() <= cancels:
            raise error() from None
        raise
    finally:
        watch.stop()


# MERGED client.restart: Starting a dead agent again: how often, and after which pause.


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """At most `max_restarts` within `period` seconds. The pause before each doubles from `pause` up to `longest_pause`."""

    max_restarts: int = 3
    period: float = 600.0
    pause: float = 0.5
    longest_pause: float = 30.0


class Restarts:
    """The restarts of one agent so far."""

    def __init__(self, policy: RestartPolicy | None, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._recent: deque[float] = deque()
        self.count = 0

    def next_pause(self) -> float | None:
        """The pause before the next automatic restart; None when there shall be none."""
        policy = self._policy
        if policy is None:
            return None
        now = self._clock.now()
        while self._recent and now - self._recent[0] > policy.period:
            self._recent.popleft()
        if len(self._recent) >= policy.max_restarts:
            return None
        pause = policy.pause * 2.0 ** len(self._recent)
        self._recent.append(now)
        return min(pause, policy.longest_pause)

    @property
    def why_not(self) -> str:
        """In words, why `next_pause` gave none."""
        if self._policy is None:
            return "it is not restarted without a RestartPolicy"
        return f"it was already restarted {len(self._recent)} times within {self._policy.period:g} s"


# MERGED client.options: What a client may set about a connection, beside what it offers to the agent.


@dataclass(frozen=True, slots=True)
class DialectReport:
    """The agent speaks a dialect: which row of the table, and what that row says. Once per row and agent."""

    row: int
    detail: str
    kind: Literal["dialect"] = "dialect"


ClientReport: TypeAlias = ConnectionReport | DialectReport


class ClientObserver(Protocol):
    """Told about what is survived: noise, unreadable or unmatched messages, failing handlers, dialects."""

    def __call__(self, report: ClientReport, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFeatures:
    """What the client shows, beyond what the protocol takes for granted. The agent is told, and sends it only then."""

    notices: bool = True
    compaction: bool = True
    boolean_options: bool = True
    plans: bool = False
    """Unstable: several plans at once."""
    subagents: bool = False
    """Unstable: child sessions."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `_meta` of the capabilities: announce extensions here, under a key of your own domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Everything that has a default."""

    info: Implementation = field(
        default_factory=lambda: Implementation("accord", __version__, title="Accord")
    )
    """Who the client is; the agent may show it."""
    limits: TimeLimits = field(default_factory=TimeLimits)
    restart: RestartPolicy | None = None
    """Whether an agent that dies is started again."""
    strict: bool = False
    """Judge what the agent sends as sent, without the repairs of the dialect table."""
    features: ClientFeatures = field(default_factory=ClientFeatures)
    observer: ClientObserver | None = None
    on_stderr: Callable[[str], None] | None = None
    """Gets each line of the agent's stderr."""
    buffers: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Bounds on what may lie unread and unsent, in bytes."""
    largest_message: int = DEFAULT_LIMIT
    """Bytes; a longer message of a program that is started here is refused, the connection goes on."""
    wrap: Callable[[Transport], Transport] | None = None
    """Stands between each transport and the connection on it: a tap, for instance, again after each restart."""
    clock: Clock = SYSTEM_CLOCK

    def observe(self, report: ClientReport) -> None:
        """Tell the observer, if there is one; what goes wrong in it is the event loop's to report."""
        if self.observer is None:
            return
        try:
            self.observer(report)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's observer
            context = {"message": "an observer of an Accord client failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
