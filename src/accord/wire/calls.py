"""Calls in both directions: routes for incoming ones, pending outgoing ones, and the back-pressure on both.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from msgspec import Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed
from accord.wire.envelope import ABSENT, Envelope, RequestId, read_error
from accord.wire.lanes import RunningHandler
from accord.wire.transport import Transport, TransportEnd


class IncomingCall:
    """One incoming request until its response is sent."""

    __slots__ = ("_after", "cancelled", "id", "method", "size", "started", "task")

    def __init__(self, id: RequestId, method: str, size: int) -> None:
        self.id: RequestId = id
        self.method: str = method
        self.size: int = size
        self.started: bool = False
        self.cancelled: bool = False
        self.task: asyncio.Task[None] | None = None
        self._after: list[Callable[[], None]] = []

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Run the callback directly after the response is queued, before anything else can be sent."""
        self._after.append(callback)

    def run_callbacks(self, report: Callable[[str], None]) -> None:
        """Run the callbacks of `after_answer`; called once the response is queued."""
        for callback in self._after:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                report(
                    f"a callback after the response to {self.method} raised {type(error).__name__}: {error}"
                )


class Route(Struct, frozen=True):
    """How one method is handled.

    `run` handles a request from its parameters and the `IncomingCall` and returns the result or an awaitable
    of it; it handles a notification from its parameters alone. `read` decodes the parameters, `key` returns
    the session they belong to. An `urgent` notification overtakes slow handlers of its session, but no
    earlier request that has not started. `read_frame` decodes a whole line of a very frequent notification in
    one pass, or returns None to use the normal path.
    """

    run: Callable[..., Any]
    read: Callable[[Raw | None], Any]
    key: Callable[[Any], Hashable | None]
    urgent: bool = False
    read_frame: Callable[[bytes], Any] | None = None


class ConnectionLimits(Struct, frozen=True):
    """How many bytes a connection holds unread and unsent before the peer has to wait."""

    inbound: int = 16 * 1024 * 1024
    outbound: int = 256 * 1024
    grace: float = 5.0
    """How many seconds unfinished handlers may delay the end of the connection."""


ReportKind = Literal["noise", "invalid", "oversized", "unmatched", "unknown", "refused", "failed"]


class ConnectionReport(Struct, frozen=True):
    """A fault that the connection tolerated: its kind, one line of detail, and the frame."""

    kind: ReportKind
    detail: str
    frame: bytes = b""


class ConnectionObserver(Protocol):
    """Receives the reports of a connection."""

    def __call__(self, report: ConnectionReport, /) -> None: ...


T = TypeVar("T")


class PendingCall(Struct, Generic[T]):
    """One outgoing request that waits for its response."""

    method: str
    answer: "asyncio.Future[T]"
    read: Callable[[Raw], T]
    key: Hashable | None
    streaming: bool
    handler: RunningHandler | None
    """The notification handler that sent the request."""
    from_handler: bool
    """Sent by a handler: its response does not wait for handlers that await responses themselves."""

    def set_response(self, envelope: Envelope) -> None:
        """Give the caller the result or the error of the response."""
        if self.answer.done():
            return
        if envelope.error is not ABSENT and bytes(envelope.error) != b"null":
            self.answer.set_exception(read_error(envelope.error))
        elif envelope.result is ABSENT:
            self.answer.set_exception(BadAnswer(f"{self.method}: the response has neither result nor error"))
        else:
            try:
                self.answer.set_result(self.read(envelope.result))
            except Exception as error:  # noqa: BLE001 - the caller gets the error of its decoder
                self.answer.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Give the caller this error instead of a response."""
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingCalls:
    """The outgoing requests of one connection that wait for a response, by id."""

    def __init__(self) -> None:
        self.not_streaming: int = 0
        """How many are not streaming: their callers wait for the response itself."""
        self._by_id: dict[RequestId, PendingCall[Any]] = {}
        self._last_id = 0

    def add(self, call: PendingCall[Any]) -> int:
        """Add a call and return its id, which is never used again."""
        self._last_id = id = self._last_id + 1
        self._by_id[id] = call
        if not call.streaming:
            self.not_streaming += 1
        return id

    def __contains__(self, id: RequestId) -> bool:
        return id in self._by_id

    def take(self, id: RequestId) -> PendingCall[Any] | None:
        """Remove and return the call with this id; None if there is none."""
        call = self._by_id.pop(id, None)
        if call is not None and not call.streaming:
            self.not_streaming -= 1
        return call

    def take_all(self) -> list[PendingCall[Any]]:
        """Remove and return all calls."""
        return [call for id in list(self._by_id) if (call := self.take(id)) is not None]


def connection_closed(method: str, end: TransportEnd) -> ConnectionClosed:
    """Return the error of a call that the end of the connection left without a response."""
    return end.error(f"{method} was not answered: {end.reason}")


class BackPressure:
    """Counts received bytes that are not handled yet, and pauses the transport at the limit.

    While a caller waits for a response, reading continues up to a multiple of the limit: the code that would
    empty the backlog may be the code that waits. Streaming calls do not count, because their callers read the
    backlog.
    """

    _AWAITED_FACTOR: Final = 4

    def __init__(self, transport: Transport, limits: ConnectionLimits, pending_calls: PendingCalls) -> None:
        self._transport = transport
        self._limits = limits
        self._pending_calls = pending_calls
        self._unhandled = 0
        self._paused = False
        self._draining = False

    @property
    def paused(self) -> bool:
        """Whether reading is paused."""
        return self._paused

    def hold(self, size: int) -> None:
        """Count received bytes that wait to be handled."""
        self._unhandled += size
        if self._unhandled > self._limits.inbound and not self._paused:
            self._update()

    def release(self, size: int) -> None:
        """Stop counting bytes that are handled."""
        self._unhandled -= size
        if self._paused:
            self._update()

    def call_sent(self) -> None:
        """Reconsider after an outgoing request: its caller may be the code that has to empty the backlog."""
        if self._paused:
            self._update()

    def _update(self) -> None:
        """Pause or resume reading according to the current counts."""
        awaited = self._pending_calls.not_streaming > 0
        limit = self._limits.inbound * (self._AWAITED_FACTOR if awaited else 1)
        if self._paused:
            # Resume at half the limit. While a caller waits for a response, resume at the limit: the backlog
            # may not shrink before that response is read.
            if self._unhandled <= (limit if awaited else limit // 2) and not self._draining:
                self._paused = False
                self._transport.resume()
        elif self._unhandled > limit or self._draining:
            self._paused = True
            self._transport.pause()

    def pause_for_output(self) -> bool:
        """Pause reading if too much is unsent; if it returns True, the caller has to run `drain`."""
        if self._draining or self._transport.unsent <= self._limits.outbound:
            return False
        self._draining = True
        self._update()
        return True

    async def drain(self) -> None:
        """Resume reading once the peer has read what was sent."""
        try:
            await self._transport.drain()
        finally:
            self._draining = False
            self._update()
