"""One JSON-RPC connection, in both directions: ids, order, cancellation, back-pressure and the end.

It does not know ACP: a `Route` says how the parameters of a method are decoded, which session they belong to
and what runs. Lanes keep the order (see `lanes.py`); on the fast path, a plain function with nothing
unfinished before it, the read calls the handler without a task or a queue. Every request ends with a result,
an error, or the reason why the connection ended.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import (
    INVALID_REQUEST,
    PARSE_ERROR,
    AccordError,
    BadAnswer,
    ConnectionClosed,
    InvalidRequest,
    MethodNotFound,
    RpcError,
    UsageError,
    to_rpc_error,
)
from accord.schema.codec import encode, is_utf8
from accord.wire.calls import (
    BackPressure,
    ConnectionLimits,
    ConnectionObserver,
    ConnectionReport,
    IncomingCall,
    PendingCall,
    PendingCalls,
    ReportKind,
    Route,
    connection_closed,
)
from accord.wire.dispatch import NotificationDispatcher, OwnedTasks, RequestDispatcher
from accord.wire.envelope import (
    ABSENT,
    ENCODE_ERRORS,
    Envelope,
    InvalidMessage,
    Notification,
    Request,
    RequestId,
    decode_envelope,
    decode_tolerantly,
    encode_failure,
    id_of_call,
    id_of_oversized,
    is_message,
    request_number,
    unsendable_error,
)
from accord.wire.lanes import CURRENT_HANDLER, IN_REQUEST, Lanes
from accord.wire.transport import Frame, OversizedFrame, Transport, TransportEnd

T = TypeVar("T")

CANCEL_REQUEST: Final = "$/cancel_request"

_LONGEST_STEP: Final = 0.005
"""After so many seconds `drain` lets the event loop run, so that a busy sender sees a cancel or the end."""


def require_asyncio(caller: str) -> None:
    """Raise UsageError unless an asyncio event loop runs here, for example under trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"{caller} needs a running asyncio event loop: start your program with asyncio.run(); "
            "Accord does not run under trio"
        ) from None


class Connection:
    """Both directions of one transport. Handles messages once started; ends with its transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        requests: Mapping[str, Route],
        notifications: Mapping[str, Route],
        answer_invalid: bool = True,
        strict: bool = False,
        limits: ConnectionLimits | None = None,
        observer: ConnectionObserver | None = None,
        on_end: Callable[[TransportEnd], None] | None = None,
        closed_error: Callable[[str, TransportEnd], ConnectionClosed] = connection_closed,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.end: TransportEnd | None = None
        self.reads: int = 0
        """Counts the reads, so that callers can tell whether the peer is alive."""
        self._transport = transport
        self._requests = requests
        self._notifications = notifications
        self._answer_invalid = answer_invalid
        self._strict = strict
        self._limits = limits or ConnectionLimits()
        self._observer = observer
        self._on_end = on_end
        self._closed_error = closed_error
        self._clock = clock
        self._suspend_at = 0.0  # when `drain` suspends next, in seconds of the monotonic clock; 0: always
        self._lanes = Lanes()
        self._pending_calls = PendingCalls()
        self._pressure = BackPressure(transport, self._limits, self._pending_calls)
        self._tasks = OwnedTasks(clock, self._limits.grace)
        report_failure = partial(self._report, "failed")
        self._request_dispatcher = RequestDispatcher(
            transport.send, self._lanes, self._tasks, self._pressure, report_failure
        )
        self._notification_dispatcher = NotificationDispatcher(
            self._lanes, self._tasks, self._pressure, report_failure
        )
        # The one notification that is decoded in a single pass, and how its lines begin.
        self._fast_route: tuple[bytes, Route | None] = (b"", None)
        for method, route in notifications.items():
            if route.read_frame is not None:
                self._fast_route = (b'{"jsonrpc":"2.0","method":"%s",' % method.encode(), route)

    def start(self) -> None:
        """Start reading. All handlers run in a copy of the caller's context."""
        self._tasks.open()
        self._finished: asyncio.Future[TransportEnd] = self._tasks.loop.create_future()
        self._transport.start(self)

    # -- calling ----------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Any,
        *,
        read: Callable[[Raw], T],
        key: Hashable | None = None,
        streaming: bool = False,
    ) -> T:
        """Call the peer and return the result as decoded by `read`.

        Raises RpcError for an error response, BadAnswer for a result that `read` refuses, ConnectionClosed
        when the connection ends, UsageError for parameters that are not JSON. `streaming` marks a call whose
        caller reads notifications meanwhile, so that a backlog of them may pause reading. Cancelling the
        caller sends `$/cancel_request`.
        """
        if self.end is not None:
            await asyncio.sleep(0)  # a caller that tries again and again must not block the event loop
            raise self._closed_error(method, self.end)
        handler = CURRENT_HANDLER.get()
        if handler is not None and handler.lanes is not self._lanes:
            handler = None
        from_handler = handler is not None or IN_REQUEST.get()
        answer: asyncio.Future[T] = self._tasks.loop.create_future()
        id = self._pending_calls.add(PendingCall(method, answer, read, key, streaming, handler, from_handler))
        try:
            frame = encode(Request(id, method, params))
        except ENCODE_ERRORS as error:
            self._pending_calls.take(id)
            raise unsendable_error(method, error) from None
        self._transport.send(frame)
        self._pressure.call_sent()
        if handler is not None:
            handler.awaits_call()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._pending_calls.take(id) is not None:
                if handler is not None:
                    handler.call_ended()
                self.notify(CANCEL_REQUEST, {"requestId": id})
            raise

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, in order; never blocks. Raises UsageError for parameters that are not JSON."""
        try:
            frame = encode(Notification(method, params))
        except ENCODE_ERRORS as error:
            raise unsendable_error(method, error) from None
        self._transport.send(frame)

    @property
    def frame_size(self) -> int:
        """The size of the notification that is being handled."""
        return self._notification_dispatcher.frame_size

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process yet."""
        return self._transport.unsent

    def must_drain(self) -> bool:
        """Return whether `drain` would wait, raise or let the event loop run; for very frequent callers."""
        return monotonic() >= self._suspend_at or self._transport.unsent > self._limits.outbound

    async def drain(self) -> None:
        """Wait while more than the outbound limit is unsent.

        Also lets the event loop run from time to time, and raises ConnectionClosed like `check_open`.
        """
        if not self.must_drain():
            return
        if self._transport.unsent > self._limits.outbound:
            await self._transport.drain()
        await asyncio.sleep(0)
        self.check_open()
        if self.end is None:
            self._suspend_at = monotonic() + _LONGEST_STEP

    async def drain_after(self, send: Callable[[T], None], value: T) -> None:
        """Send a value with a function, and drain. If it raises, a caller that tries again blocks nothing."""
        try:
            send(value)
        except AccordError:
            await asyncio.sleep(0)
            raise
        await self.drain()

    def check_open(self) -> None:
        """Raise ConnectionClosed if the connection has ended and nothing reaches the peer any more."""
        if self.end is not None and not self.end.can_send:
            raise self.end.error(f"the message was not sent: {self.end.reason}")

    @property
    def paused(self) -> bool:
        """Whether reading is paused; silence then says nothing about the peer."""
        return self._pressure.paused

    def hold(self, size: int) -> None:
        """Count received bytes that the application has not read; at the limit, reading pauses."""
        self._pressure.hold(size)

    def release(self, size: int) -> None:
        """Stop counting bytes that the application has read."""
        self._pressure.release(size)

    # -- receiving --------------------------------------------------------------------------------

    def frames(self, frames: list[Frame]) -> None:
        """Handle all frames of one read."""
        self.reads += 1
        notifications = self._notifications
        dispatch = self._notification_dispatcher.dispatch
        prefix, fast_route = self._fast_route
        for frame in frames:
            if isinstance(frame, OversizedFrame):
                self._refuse_oversized(frame)
                continue
            if fast_route is not None and fast_route.read_frame is not None and frame.startswith(prefix):
                params = fast_route.read_frame(frame)
                if params is not None:
                    dispatch(fast_route, params, len(frame))
                    continue
            try:
                envelope = decode_envelope(frame)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                try:
                    envelope = decode_tolerantly(frame)
                except InvalidMessage as fault:
                    self._refuse(fault, frame)
                    continue
            if envelope.jsonrpc != "2.0" and (self._strict or envelope.jsonrpc):
                fault = InvalidMessage(INVALID_REQUEST, '`jsonrpc` is not "2.0"', id_of_call(envelope))
                self._refuse(fault, frame)
                continue
            if not frame.isascii() and not is_utf8(frame):
                fault = InvalidMessage(PARSE_ERROR, "the line is not UTF-8", id_of_call(envelope))
                self._refuse(fault, frame)
                continue
            method = envelope.method
            if envelope.id is not UNSET or method is UNSET:
                self._handle_request_or_response(envelope, frame)
                continue
            route = notifications.get(method)
            if route is None:
                self._handle_unknown_notification(method, envelope, frame)
                continue
            try:
                params = route.read(envelope.params if envelope.params is not ABSENT else None)
            except Exception as error:  # noqa: BLE001 - one bad message must not stop the connection
                self._report("refused", f"{method}: {error}", frame)
                continue
            dispatch(route, params, len(frame))
        if self._pressure.pause_for_output():
            self._tasks.run(self._pressure.drain())

    def _refuse(self, fault: InvalidMessage, frame: bytes) -> None:
        self._report("invalid" if fault.code == INVALID_REQUEST else "noise", fault.reason, frame)
        if self._answer_invalid or fault.id is not None:
            error = RpcError.of(fault.code, fault.message, fault.reason)
            self._transport.send(encode_failure(fault.id, error))

    def _refuse_oversized(self, frame: OversizedFrame) -> None:
        reason = f"a message of {frame.size} bytes is over the size limit"
        self._report("oversized", reason, frame.head)
        id, is_response = id_of_oversized(frame)
        if is_response:
            call = self._take_call(id, frame.head)
            if call is not None:
                self._deliver(call, lambda: call.fail(BadAnswer(f"{call.method}: {reason}")))
        elif id is not None or self._answer_invalid:
            self._transport.send(encode_failure(id, InvalidRequest(data=reason)))

    def _handle_request_or_response(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, envelope.method
        if method is UNSET:
            if id is not UNSET and (is_message(envelope) or self._pending_id(id) is not None):
                self._handle_response(id, envelope, frame)
            else:
                reason = "neither a request, a notification nor a response"
                self._refuse(InvalidMessage(INVALID_REQUEST, reason), frame)
            return
        assert id is not UNSET
        route = self._requests.get(method)
        if route is None:
            self._transport.send(encode_failure(id, MethodNotFound(data={"method": method})))
            return
        try:
            params = route.read(envelope.params if envelope.params is not ABSENT else None)
        except Exception as error:  # noqa: BLE001 - one bad message must not stop the connection
            self._transport.send(encode_failure(id, to_rpc_error(error)))
            return
        self._request_dispatcher.dispatch(route, params, IncomingCall(id, method, len(frame)))

    def _handle_unknown_notification(self, method: str, envelope: Envelope, frame: bytes) -> None:
        if method == CANCEL_REQUEST:
            self._request_dispatcher.cancel(envelope.params)
        else:
            self._report("unknown", f"no handler for the notification {method}", frame)

    # -- responses to our calls -------------------------------------------------------------------

    def _handle_response(self, id: RequestId, envelope: Envelope, frame: bytes) -> None:
        call = self._take_call(id, frame)
        if call is None:
            self._report("unmatched", f"a response to no pending request (id {id!r})", frame)
        else:
            self._deliver(call, lambda: call.set_response(envelope))

    def _pending_id(self, id: RequestId) -> RequestId:
        """Our id that a response means; None if there is none. Some peers return a number as a string."""
        if id in self._pending_calls:
            return id
        number = None if self._strict else request_number(id)
        return number if number is not None and number in self._pending_calls else None

    def _take_call(self, id: RequestId, frame: bytes) -> PendingCall[Any] | None:
        own_id = self._pending_id(id)
        if own_id is not None and own_id != id:
            self._report("invalid", f"the response to request {own_id!r} has the id {id!r}", frame)
        return self._pending_calls.take(own_id)

    def _deliver(self, call: PendingCall[Any], complete: Callable[[], None]) -> None:
        """Complete a call after everything before its response was handled."""

        def deliver() -> None:
            if call.handler is not None:
                call.handler.call_ended()
            complete()

        if not self._lanes:
            deliver()
        else:
            keys = None if call.key is None else (call.key, None)
            self._lanes.run_after(keys, deliver, all_done=not call.from_handler)

    # -- the end ----------------------------------------------------------------------------------

    def ended(self, end: TransportEnd) -> None:
        """Fail every pending call with the reason, after everything received before the end was handled."""
        self.end = end
        self._suspend_at = 0.0
        unanswered = self._pending_calls.take_all()

        def fail(call: PendingCall[Any]) -> None:
            call.fail(self._closed_error(call.method, end))

        def finish() -> None:
            grace_timer.cancel()
            for call in unanswered:
                fail(call)
            if not self._finished.done():
                self._finished.set_result(end)

        grace_timer = self._clock.call_later(self._limits.grace, finish)
        for call in unanswered:
            self._deliver(call, partial(fail, call))
        self._lanes.run_after(None, finish)
        if self._on_end is not None:
            self._on_end(end)

    async def wait_ended(self) -> TransportEnd:
        """Wait until the connection has ended and everything received was handled; return the end."""
        return await asyncio.shield(self._finished)

    def cancel_requests(self) -> None:
        """Cancel the requests of the peer that are being handled or wait."""
        self._request_dispatcher.cancel_all()

    async def finish_calls(self) -> None:
        """Wait for the requests that are being handled; cancel those that take too long."""
        await self._request_dispatcher.finish()

    async def aclose(self) -> None:
        """Cancel and answer running requests, then close the transport. Bounded; may be called twice."""
        await self._request_dispatcher.abort()
        await self._transport.aclose()
        if self.end is not None:
            self.end = replace(self.end, can_send=False)
        # A request that has just started unblocks its lane in the next iteration of the event loop.
        await asyncio.sleep(0)
        await self._tasks.wait(before_cancel=self._lanes.discard_waiting)

    def _report(self, kind: ReportKind, detail: str, frame: bytes = b"") -> None:
        if self._observer is None:
            return
        try:
            self._observer(ConnectionReport(kind, detail, frame))
        except Exception:  # noqa: BLE001 - a failing observer must not stop the connection
            return
