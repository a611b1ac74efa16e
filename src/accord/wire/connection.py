"""One JSON-RPC connection, in both directions: order, futures, cancellation and back-pressure.

`RpcCore` has the ids, the open calls and the end. A `Route` says how the parameters of a method are decoded,
which session they belong to and what runs. Lanes keep the order (see `lanes.py`); on the fast path, a plain
function with nothing unfinished before it, the read calls the handler without a task or a queue. Every
request ends with a result, an error, or the reason why the connection ended.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import Context
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import AccordError, BadAnswer, ConnectionClosed, MethodNotFound, UsageError, to_rpc_error
from accord.schema.codec import encode
from accord.wire.calls import (
    BackPressure,
    ConnectionLimits,
    ConnectionObserver,
    ConnectionReport,
    ReportKind,
    Route,
)
from accord.wire.dispatch import (
    ConnectionTasks,
    NotificationDispatcher,
    RequestDispatcher,
    untranslated_output,
    untranslated_sender,
)
from accord.wire.envelope import (
    ABSENT,
    ENCODE_ERRORS,
    Envelope,
    Fault,
    Notification,
    Request,
    Response,
    RpcCore,
    connection_closed,
    encode_failure,
    unsendable_error,
)
from accord.wire.lanes import CURRENT_HANDLER, IN_REQUEST, Lanes, RunningHandler
from accord.wire.transport import Frame, Transport, TransportEnd

T = TypeVar("T")

CANCEL_REQUEST: Final = "$/cancel_request"

_LONGEST_STEP: Final = 0.005
"""After so many seconds `drain` lets the event loop run, so that a busy sender sees a cancel or the end."""
_FEW_FRAMES: Final = 3
"""So many frames of one read are decoded one by one: they are often different messages."""


def require_asyncio(caller: str) -> None:
    """Raise UsageError unless an asyncio event loop runs here, for example under trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"{caller} needs a running asyncio event loop: start your program with asyncio.run(); "
            "Accord does not run under trio"
        ) from None


class Waiter(asyncio.Future[T]):
    """A future whose task continues at the end of the read that ended it. Its loop is a `ReadWakeups`."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the task that waits."""
        wakeups: Any = self._loop
        return wakeups.loop

    def set_exception(self, exception: type | BaseException, /) -> None:
        """End with an error. asyncio would log it as never retrieved if the task has continued at once."""
        super().set_exception(exception)
        self._log_traceback = False


class ReadWakeups:
    """What futures need of an event loop. The tasks that a read wakes continue at its end, in order.

    They need no further iteration of the event loop then. At any other time they continue as usual.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.get_debug: Callable[[], bool] = loop.get_debug
        self.call_exception_handler: Callable[[dict[str, Any]], None] = loop.call_exception_handler
        self.woken: list[tuple[Callable[..., object], Waiter[Any], Context]] | None = None
        """The tasks that wait for the end of a read; None while there is no read."""

    def call_soon(self, callback: Callable[..., object], waiter: Waiter[Any], *, context: Context) -> None:
        """Called by a future that is done, with what continues its task."""
        if self.woken is None:
            self.loop.call_soon(callback, waiter, context=context)
        else:
            self.woken.append((callback, waiter, context))

    def end_read(self) -> None:
        """Continue the tasks; in the next iteration if the read itself was done by a task."""
        woken, self.woken = self.woken, None
        if not woken:
            return
        woken.reverse()
        try:
            if asyncio.current_task(self.loop) is None:
                while woken:
                    callback, waiter, context = woken.pop()
                    context.run(callback, waiter)
        finally:
            while woken:
                callback, waiter, context = woken.pop()
                self.loop.call_soon(callback, waiter, context=context)


class PendingCall(Struct, Generic[T]):
    """One outgoing request that waits for its response."""

    method: str
    answer: Waiter[T]
    read: Callable[[Raw], T]
    key: Hashable | None
    handler: RunningHandler | None
    """The notification handler that sent the request."""
    from_handler: bool
    """Sent by a handler: its response does not wait for handlers that await responses themselves."""

    def set_response(self, response: "Response[PendingCall[Any]]") -> None:
        """Give the caller the result or the error of the response."""
        error = response.error
        if error is not None:
            self.fail(BadAnswer(f"{self.method}: {error}") if isinstance(error, BadAnswer) else error)
        elif response.result is ABSENT:
            self.fail(BadAnswer(f"{self.method}: the response has neither result nor error"))
        elif not self.answer.done():
            try:
                self.answer.set_result(self.read(response.result))
            except Exception as error:  # noqa: BLE001 - the caller gets the error of its decoder
                self.answer.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Give the caller this error instead of a response."""
        if not self.answer.done():
            self.answer.set_exception(error)


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
        self.reads: int = 0
        """Counts the reads, so that callers can tell whether the peer is alive."""
        self.transport: Transport = transport
        self._send_untranslated = untranslated_sender(transport)
        self._output: Transport = untranslated_output(transport)
        self._requests = requests
        self._notifications = notifications
        self._limits = limits or ConnectionLimits()
        self._observer = observer
        self._on_end = on_end
        self._closed_error = closed_error
        self._clock = clock
        self._suspend_at = 0.0  # when `drain` suspends next, in seconds of the monotonic clock; 0: always
        self._lanes = Lanes()
        self._core = RpcCore[PendingCall[Any]](strict=strict, answer_invalid=answer_invalid)
        self.pressure: BackPressure = BackPressure(transport, self._limits)
        self._tasks = ConnectionTasks(clock, self._limits.grace)
        report_failure = partial(self._report, "failed")
        self._request_dispatcher = RequestDispatcher(
            transport, self._lanes, self._tasks, self.pressure, report_failure
        )
        self._notification_dispatcher = NotificationDispatcher(
            self._lanes, self._tasks, self.pressure, report_failure
        )
        # The one notification whose lines are decoded in a single pass, and how they begin.
        self._fast_prefix = b"\n"  # no line begins so
        self._read_lines: Callable[[list[Any]], list[Any]] = lambda lines: [None] * len(lines)
        for method, route in notifications.items():
            if route.read_lines is not None and route.run_read is not None:
                self._fast_prefix = b'{"jsonrpc":"2.0","method":"%s",' % method.encode()
                self._read_lines, self._run_read = route.read_lines, route.run_read

    def start(self) -> None:
        """Start reading. All handlers run in a copy of the caller's context."""
        self._tasks.open()
        self._wakeups = ReadWakeups(self._tasks.loop)
        self._finished: asyncio.Future[TransportEnd] = self._tasks.loop.create_future()
        self.transport.start(self)

    @property
    def end(self) -> TransportEnd | None:
        """Why the connection has ended; None while it is open."""
        return self._core.end

    # -- calling ----------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Any,
        *,
        read: Callable[[Raw], T],
        key: Hashable | None = None,
        streaming: bool = False,
        translated: bool = True,
    ) -> T:
        """Call the peer and return the result as decoded by `read`.

        Raises RpcError for an error response, BadAnswer for a result that `read` refuses, ConnectionClosed
        when the connection ends, UsageError for parameters that are not JSON. `streaming` marks a call whose
        caller reads notifications meanwhile, so that a backlog of them may pause reading. `translated` is
        false for an extension, which is the same in all protocol versions. Cancelling the caller sends
        `$/cancel_request`.
        """
        if self._core.end is not None:
            await asyncio.sleep(0)  # a caller that tries again and again must not block the event loop
            raise self._closed_error(method, self._core.end)
        handler = CURRENT_HANDLER.get()
        if handler is not None and handler.lanes is not self._lanes:
            handler = None
        from_handler = handler is not None or IN_REQUEST.get()
        answer: Waiter[T] = self.new_waiter()
        id = self._core.open_call(PendingCall(method, answer, read, key, handler, from_handler))
        try:
            frame = encode(Request(id, method, params))
        except ENCODE_ERRORS as error:
            self._core.close_call(id)
            raise unsendable_error(method, error) from None
        (self.transport.send if translated else self._send_untranslated)(frame)
        self.pressure.awaited += not streaming
        if self.pressure.paused:
            self.pressure.call_sent()
        if handler is not None:
            handler.awaits_call()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._core.close_call(id) is not None:
                if handler is not None:
                    handler.call_ended()
                self.notify(CANCEL_REQUEST, {"requestId": id})
            raise
        finally:
            self.pressure.awaited -= not streaming

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, in order; never blocks. Raises UsageError for parameters that are not JSON."""
        try:
            frame = encode(Notification(method, params))
        except ENCODE_ERRORS as error:
            raise unsendable_error(method, error) from None
        self.transport.send(frame)

    def must_drain(self) -> bool:
        """Return whether `drain` would wait, raise or let the event loop run; for very frequent callers."""
        return monotonic() >= self._suspend_at or self._output.unsent > self._limits.outbound

    async def drain(self) -> None:
        """Wait while more than the outbound limit is unsent.

        Also lets the event loop run from time to time, and raises ConnectionClosed like `check_open`.
        """
        if not self.must_drain():
            return
        if self.transport.unsent > self._limits.outbound:
            await self.transport.drain()
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

    # -- receiving --------------------------------------------------------------------------------

    def frames(self, frames: Iterable[Frame]) -> None:
        """Handle all frames of one read. A translation may make each when the one before it is handled."""
        self.reads += 1
        self._wakeups.woken = []
        try:
            if isinstance(frames, list) and len(frames) > _FEW_FRAMES:
                for frame, params in zip(frames, self._read_lines(frames), strict=True):
                    if params is None or not self.run_frequent(params, frame):
                        self._handle(frame)
            else:
                for frame in frames:
                    self._handle(frame)
        finally:
            self._wakeups.end_read()
        if self._output.unsent > self._limits.outbound and self.pressure.pause_for_output():
            self._tasks.run(self.pressure.drain())

    def new_waiter(self) -> Waiter[Any]:
        """Return a future for something that a read brings."""
        return Waiter(loop=self._wakeups)  # pyright: ignore

    def read_frequent(self, frames: list[Frame]) -> list[Any]:
        """Decode the lines of the frequent notification; the result has None for other frames."""
        if len(frames) > _FEW_FRAMES:
            return self._read_lines(frames)
        return [self._read_lines([frame])[0] if self._is_frequent(frame) else None for frame in frames]

    def _is_frequent(self, frame: Frame) -> bool:
        return isinstance(frame, bytes) and frame.startswith(self._fast_prefix)

    def run_frequent(self, params: Any, frame: Frame) -> bool:
        """Handle a frequent notification during a read; return False if something is unfinished."""
        if self._lanes.busy:
            return False
        try:
            self._run_read(params, len(cast(bytes, frame)))
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._report("failed", f"a notification handler raised {type(error).__name__}: {error}")
        return True

    def _handle(self, frame: Frame) -> None:
        if isinstance(frame, bytes) and frame.startswith(self._fast_prefix):
            params = self._read_lines([frame])[0]
            if params is not None and self.run_frequent(params, frame):
                return
        event = self._core.receive(frame)
        if isinstance(event, Envelope) and isinstance(frame, bytes):
            self._handle_call(event, frame)
        elif isinstance(event, Response):
            if event.fault is not None:
                self._report_fault(event.fault)
            if self._lanes.busy or self._lanes.awaiting:
                self._deliver(event.call, event.call.set_response, event)
            else:
                event.call.set_response(event)  # no handler waits for it
        elif isinstance(event, Fault):
            self._report_fault(event)

    def _handle_call(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, envelope.method
        assert method is not UNSET
        route = (self._notifications if id is UNSET else self._requests).get(method)
        if route is None:
            if id is not UNSET:
                self.transport.send(encode_failure(id, MethodNotFound(data={"method": method})))
            elif method == CANCEL_REQUEST:
                self._request_dispatcher.cancel(envelope.params)
            else:
                self._report("unknown", f"no handler for the notification {method}", frame)
            return
        try:
            params = route.read(envelope.params if envelope.params is not ABSENT else None)
        except Exception as error:  # noqa: BLE001 - one bad message must not stop the connection
            if id is UNSET:
                self._report("refused", f"{method}: {error}", frame)
            else:
                self.transport.send(encode_failure(id, to_rpc_error(error)))
            return
        if id is UNSET:
            self._notification_dispatcher.dispatch(route, params, len(frame))
        else:
            self._request_dispatcher.dispatch(route, params, id, method, len(frame))

    def _report_fault(self, fault: Fault) -> None:
        self._report(fault.kind, fault.detail, fault.frame)
        if fault.answer is not None:
            self.transport.send(fault.answer)

    # -- responses to our calls -------------------------------------------------------------------

    def _deliver(self, call: PendingCall[Any], complete: Callable[[T], None], value: T) -> None:
        """Complete a call after everything before its response was handled."""

        def step() -> None:
            if call.handler is not None:
                call.handler.call_ended()
            complete(value)

        keys = None if call.key is None else (call.key, None)
        self._lanes.run_after(keys, step, all_done=not call.from_handler)

    # -- the end ----------------------------------------------------------------------------------

    def ended(self, end: TransportEnd) -> None:
        """Fail every pending call with the reason, after everything received before the end was handled."""
        unanswered = self._core.close(end)
        self._suspend_at = 0.0

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
            self._deliver(call, fail, call)
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
        await self.transport.aclose()
        if self._core.end is not None:
            self._core.end = replace(self._core.end, can_send=False)
        # A request that has just started unblocks its lane in the next iteration of the event loop.
        await asyncio.sleep(0)
        if not await self._tasks.wait():
            self._lanes.discard_waiting()
            await self._tasks.end()

    def _report(self, kind: ReportKind, detail: str, frame: bytes = b"") -> None:
        if self._observer is None:
            return
        try:
            self._observer(ConnectionReport(kind, detail, frame))
        except Exception:  # noqa: BLE001 - a failing observer must not stop the connection
            return
