"""`ClientOptions`, time limits and restart policy, with the timers that enforce them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from logging import Logger, getLogger
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from accord import __version__
from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.errors import AccordError, RequestTimeout
from accord.schema import Implementation, Notice
from accord.wire.calls import ConnectionLimits, ConnectionReport
from accord.wire.transport import DEFAULT_LIMIT, Transport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits in seconds; None waits without a limit. `authenticate` has none, because a user signs in."""

    request: float | None = 60.0
    """An ordinary call. For `session/load` and `session/resume`, which stream: the silence of the agent."""
    startup: float | None = 120.0
    """From the start of the program to the response to `initialize`."""
    silence: float | None = 600.0
    """A prompt without any message from the agent.

    The clock stops while the agent waits for the client or a tool call is in progress.
    """
    cancel: float = 10.0
    """A canceled turn without any message from the agent, before the turn is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Restarts an agent that died: at most `max_restarts` times within `period` seconds.

    The pause before each restart doubles from `pause` up to `longest_pause` seconds.
    """

    max_restarts: int = 3
    period: float = 600.0
    pause: float = 0.5
    longest_pause: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFeatures:
    """The optional updates that the client shows. The agent is told, and sends them only then."""

    notices: bool = True
    compaction: bool = True
    boolean_options: bool = True
    plans: bool = False
    """Unstable: several plans at once."""
    subagents: bool = False
    """Unstable: child sessions."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `_meta` of the capabilities. Announce extensions here, under a key of your own domain."""


@dataclass(frozen=True, slots=True)
class DialectReport:
    """The agent deviates from the protocol in a known way. Reported once per row of the dialect table."""

    row: int
    detail: str
    kind: Literal["dialect"] = "dialect"


ProtocolChoice: TypeAlias = Literal["auto", 1, 2]
"""The protocol version that a client asks for."""

ClientReport: TypeAlias = ConnectionReport | DialectReport


class ClientObserver(Protocol):
    """Is called for every tolerated problem: noise, unreadable messages, failing handlers, dialects."""

    def __call__(self, report: ClientReport, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The settings of a connection. Everything has a default."""

    info: Implementation = field(
        default_factory=lambda: Implementation("accord", __version__, title="Accord")
    )
    """The name and version of the client; the agent may show them."""
    limits: TimeLimits = field(default_factory=TimeLimits)
    restart: RestartPolicy | None = None
    """Whether and how often an agent that died is restarted."""
    strict: bool = False
    """Validate the agent's messages as sent, without the repairs of the dialect table."""
    features: ClientFeatures = field(default_factory=ClientFeatures)
    protocol: ProtocolChoice = 1
    """The protocol version: 1, 2, or "auto" for 2 if the agent speaks it, else 1. Version 2 is a draft."""
    observer: ClientObserver | None = None
    on_stderr: Callable[[str], None] | None = None
    """Is called with each line of the agent's stderr."""
    on_notice: Callable[[str, Notice], None] | None = None
    """Is called with the id of a session and each notice that comes while it is being opened, before there is
    a `ClientSession`; for example that a gateway waits for another machine."""
    buffers: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Bounds for unread and unsent bytes."""
    largest_message: int = DEFAULT_LIMIT
    """In bytes. A longer message of a started program is refused; the connection continues."""
    wrap: Callable[[Transport], Transport] | None = None
    """Wraps each transport, also after a restart; for example with a tap."""
    clock: Clock = SYSTEM_CLOCK


LOG: Final[Logger] = getLogger("accord.client")


def log_failure(what: str, error: Exception) -> None:
    """Log the traceback of an exception in a function of the application, and that function's role."""
    LOG.error("%s raised %s", what, type(error).__name__, exc_info=error)


def ignore_failure(_error: BaseException) -> None:
    """Ignore the failure of a task, because its result is awaited elsewhere or no longer needed."""


class LoggedFailures:
    """Log unexpected exceptions of a function of the application. Errors of Accord are answers."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self.log(error)

    def log(self, error: Exception) -> None:
        """Log an exception, for callers that are too frequent for a `with` statement."""
        if not isinstance(error, AccordError):
            log_failure(self._what, error)


def observe(options: ClientOptions, report: ClientReport) -> None:
    """Call the observer. An exception in it goes to the event loop's exception handler."""
    if options.observer is None:
        return
    try:
        options.observer(report)
    except Exception as error:  # noqa: BLE001 - the boundary to the application's observer
        context = {"message": "an observer of an Accord client failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


class Restarts:
    """Counts the restarts of one agent and decides about the next one."""

    def __init__(self, policy: RestartPolicy | None, clock: Clock) -> None:
        self.count: int = 0
        self._policy = policy
        self._clock = clock
        self._recent: deque[float] = deque()

    def next_pause(self) -> float | None:
        """The pause before the next automatic restart; None if the policy allows no more restarts."""
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


# -- timers --------------------------------------------------------------------------------------------------
#
# A timer checks its limit in 64 steps instead of at every message, so that a message costs nothing. A limit
# can expire up to 1/64 late, never early.

_STEPS: Final = 64  # a power of two, so that the steps add up exactly


def _never() -> bool:
    return False


def _no_activity() -> int:
    return 0


class SilenceTimer:
    """Calls `expired` once after `limit` seconds without activity. Create it on the event loop."""

    __slots__ = (
        "_activity", "_clock", "_expired", "_last_activity", "_step", "_steps_left", "_suspended", "_timer",
        "has_expired",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        limit: float | None,
        expired: Callable[[], Any],
        *,
        activity: Callable[[], int] = _no_activity,
        suspended: Callable[[], bool] = _never,
    ) -> None:
        """`activity` returns a value that changes with every message.

        Time does not count while `suspended`.
        """
        self.has_expired: bool = False
        self._clock = clock
        self._expired = expired
        self._activity = activity
        self._suspended = suspended
        self._last_activity = activity()
        self._steps_left = _STEPS
        self._step = 0.0 if limit is None else limit / _STEPS
        self._timer: Timer | None = None if limit is None else clock.call_later(self._step, self._check)

    def stop(self) -> None:
        """Stop the timer."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _check(self) -> None:
        activity = self._activity()
        if activity != self._last_activity:
            self._last_activity = activity
            self._steps_left = _STEPS
        elif not self._suspended():
            self._steps_left -= 1
        if self._steps_left > 0:
            self._timer = self._clock.call_later(self._step, self._check)
        else:
            self._timer = None
            self.has_expired = True
            self._expired()


async def bounded(
    work: Awaitable[T],
    error: Callable[[], Exception],
    clock: Clock,
    limit: float | None,
    *,
    activity: Callable[[], int] = _no_activity,
    suspended: Callable[[], bool] = _never,
) -> T:
    """Await the work. When a `SilenceTimer` expires, cancel the work and raise the error."""
    task = asyncio.current_task()
    assert task is not None, "a time limit needs a task"
    cancels = task.cancelling()
    timer = SilenceTimer(clock, limit, task.cancel, activity=activity, suspended=suspended)
    try:
        return await work
    except asyncio.CancelledError:
        # Only the timer's own cancellation becomes the error; any other is passed on.
        if timer.has_expired and task.uncancel() <= cancels:
            raise error() from None
        raise
    finally:
        timer.stop()


class Deadlines:
    """The time limit of all ordinary calls of one agent. One timer serves all calls."""

    __slots__ = ("_calls", "_clock", "_limit", "_suspended", "_timer")

    def __init__(self, clock: Clock, limit: float | None, suspended: Callable[[], bool]) -> None:
        self._clock = clock
        self._limit = limit
        self._suspended = suspended
        self._calls: set[_Call] = set()
        self._timer: Timer | None = None

    async def bound(self, work: Awaitable[T], method: str) -> T:
        """Await the work. When its time is over, cancel it and raise RequestTimeout."""
        if self._limit is None:
            return await work
        task = asyncio.current_task()
        assert task is not None, "a time limit needs a task"
        call = _Call(task)
        self._calls.add(call)
        if self._timer is None:
            self._start_timer(self._limit)
        try:
            return await work
        except asyncio.CancelledError:
            if call.steps_left <= 0 and task.uncancel() <= call.cancels:
                raise RequestTimeout(f"{method} was not answered within {self._limit:g} s") from None
            raise
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """Stop the timer; the calls are no longer limited."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self, limit: float) -> None:
        self._timer = self._clock.call_later(limit / _STEPS, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._calls and self._limit is not None:
            self._start_timer(self._limit)
            if not self._suspended():
                for call in self._calls:
                    call.steps_left -= 1
                    if call.steps_left == 0:
                        call.task.cancel()


class _Call:
    """One call with a time limit. It began between two steps, so it gets one step more."""

    __slots__ = ("cancels", "steps_left", "task")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.cancels = task.cancelling()
        self.steps_left = _STEPS + 1
