"""Calls in both directions: routes for incoming ones, pending outgoing ones, and the back-pressure on both.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed
from accord.wire.envelope import ABSENT, Envelope, RequestId, read_error
from accord.wire.lanes import RunningHandler
from accord.wire.transport import Transport, TransportEnd

# MERGED wire.routes: What a role tells its connection: how each method is served, the bounds, and who hears of what was survived.


class IncomingCall:
    """One incoming request, while it is served."""

    __slots__ = ("_after", "cancelled", "id", "method", "size", "started", "task")

    def __init__(self, id: RequestId, method: str, size: int) -> None:
        self.id = id
        self.method = method
        self.size = size
        self.started = False
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None
        self._after: list[Callable[[], None]] = []

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Run something right behind this request's answer, before anything else can be sent."""
        self._after.append(callback)

    def answered(self, failed: Callable[[str], None]) -> None:
        """The answer is queued: run what must follow it."""
        for callback in self._after:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                failed(
                    f"what should follow the answer of {self.method} raised {type(error).__name__}: {error}"
                )


class Route(Struct, frozen=True):
    """How one method is served.

    `run` of a request takes the parameters and the `IncomingCall`, and gives the result or an awaitable of it; of a
    notification it takes the parameters. `urgent` lets a notification overtake slow handlers of its session, though
    never a request that came before it and has not started. `whole`, for the notification that comes by the thousand,
    reads a line in one pass; it gives None where the line wants the ordinary way.
    """

    run: Callable[..., Any]
    read: Callable[[Raw | None], Any]
    key: Callable[[Any], Hashable | None]
    urgent: bool = False
    whole: Callable[[bytes], Any] | None = None


class ConnectionLimits(Struct, frozen=True):
    """Bounds of one connection, in bytes: what may lie unread here, and unsent, before the other side must wait."""

    inbound: int = 16 * 1024 * 1024
    outbound: int = 256 * 1024
    grace: float = 5.0
    """Seconds that unfinished handlers may hold back the end of the connection."""


ReportKind = Literal["noise", "invalid", "oversized", "unmatched", "unknown", "refused", "failed"]


class ConnectionReport(Struct, frozen=True):
    """Something that was survived and that an observer may want to know: what, in one line, and the frame."""

    kind: ReportKind
    detail: str
    frame: bytes = b""


class ConnectionObserver(Protocol):
    """Told about what the connection survives."""

    def __call__(self, report: ConnectionReport, /) -> None: ...


# MERGED wire.calls: Our own calls that wait for an answer: their ids, how an answer is read, and how they fail when none comes.

T = TypeVar("T")


class PendingCall(Struct, Generic[T]):
    """One call: where its answer goes, and what the connection must know about it until then."""

    method: str
    answer: "asyncio.Future[T]"
    read: Callable[[Raw], T]
    key: Hashable | None
    streaming: bool
    handling: RunningHandler | None
    from_handler: bool
    """Made by code that serves the other side: its answer does not wait for handlers that await calls themselves."""

    def settle(self, envelope: Envelope) -> None:
        """Give the caller what was answered."""
        if self.answer.done():
            return
        if envelope.error is not ABSENT and bytes(envelope.error) != b"null":
            self.answer.set_exception(read_error(envelope.error))
        elif envelope.result is ABSENT:
            self.answer.set_exception(BadAnswer(f"{self.method}: the answer has neither result nor error"))
        else:
            try:
                self.answer.set_result(self.read(envelope.result))
            except Exception as error:  # noqa: BLE001 - the caller's own reading failed: it is the caller's to see
                self.answer.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Tell the caller that no answer will come."""
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingCalls:
    """All calls of ours on one connection, by id."""

    def __init__(self) -> None:
        self.short = 0
        """How many are not streaming: somebody waits for the answer itself."""
        self._by_id: dict[RequestId, PendingCall[Any]] = {}
        self._last_id = 0

    def add(self, call: PendingCall[Any]) -> int:
        """Take a call in; the id it goes out with is never used again."""
        self._last_id = id = self._last_id + 1
        self._by_id[id] = call
        if not call.streaming:
            self.short += 1
        return id

    def __contains__(self, id: RequestId) -> bool:
        return id in self._by_id

    def take(self, id: RequestId) -> PendingCall[Any] | None:
        """The call with this id, no longer open; None if it is not one of ours."""
        call = self._by_id.pop(id, None)
        if call is not None and not call.streaming:
            self.short -= 1
        return call

    def take_all(self) -> list[PendingCall[Any]]:
        """Every open call, none of them open any more."""
        return [call for id in list(self._by_id) if (call := self.take(id)) is not None]


def closed(method: str, end: TransportEnd) -> ConnectionClosed:
    """The error of a call that the end of the connection left without an answer."""
    return ConnectionClosed(
        f"{method} was not answered: {end.reason}",
        exit_code=end.exit_code,
        signal=end.signal,
        stderr=end.stderr,
    )


# MERGED wire.backpressure: When to stop reading: too much lies here unread, or the other side does not read what we answer.


class BackPressure:
    """Counts what was received and not yet dealt with, and pauses the transport at the bound.

    While a caller of ours waits for an answer, reading goes on up to a multiple of the bound: the code that would empty
    the backlog may be the very code that waits. A caller of a streaming call does not count, its backlog is the point.
    """

    _STRETCH = 4

    def __init__(self, transport: Transport, limits: ConnectionLimits, open_calls: PendingCalls) -> None:
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
