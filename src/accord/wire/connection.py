"""One JSON-RPC connection: both sides call and serve. Owns ids, order, cancellation, back-pressure and the end.

It does not know ACP: a `Route` says how the parameters of a method are read, which session they belong to and what
runs. Order is kept by lanes (see `lanes.py`); the fast case, a plain function with nothing unfinished before it, is
called straight from the read without a task or a queue. Every request ends: with an answer, an error, or the end of
the connection and its reason.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import (
    INVALID_REQUEST,
    PARSE_ERROR,
    BadAnswer,
    ConnectionClosed,
    InvalidRequest,
    MethodNotFound,
    RpcError,
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
    closed,
)
from accord.wire.dispatch import NotificationDispatcher, OwnedTasks, RequestDispatcher
from accord.wire.envelope import (
    ABSENT,
    UNSENDABLE,
    Envelope,
    InvalidMessage,
    Notification,
    Request,
    RequestId,
    decode_envelope,
    encode_failure,
    id_of_call,
    id_of_oversized,
    is_message,
    not_json,
    second_look,
)
from accord.wire.lanes import HANDLING, SERVING, Lanes
from accord.wire.transport import Frame, OversizedFrame, Transport, TransportEnd

T = TypeVar("T")

CANCEL_REQUEST = "$/cancel_request"


class Connection:
    """Both directions of one transport. Serves as soon as it is started; ends with its transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        requests: Mapping[str, Route],
        notifications: Mapping[str, Route],
        answers_noise: bool = True,
        strict: bool = False,
        limits: ConnectionLimits | None = None,
        observer: ConnectionObserver | None = None,
        on_end: Callable[[TransportEnd], None] | None = None,
        closed_error: Callable[[str, TransportEnd], ConnectionClosed] = closed,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.end: TransportEnd | None = None
        self.heard = 0
        """Counts up with every read: a sign of life."""
        self._transport = transport
        self._requests = requests
        self._notifications = notifications
        self._answers_noise = answers_noise
        self._strict = strict
        self._limits = limits or ConnectionLimits()
        self._observer = observer
        self._on_end = on_end
        self._closed_error = closed_error
        self._clock = clock
        self._lanes = Lanes()
        self._open_calls = PendingCalls()
        self._pressure = BackPressure(transport, self._limits, self._open_calls)
        self._tasks = OwnedTasks(clock, self._limits.grace)
        failed = partial(self._report, "failed")
        self._serving = RequestDispatcher(transport.send, self._lanes, self._tasks, self._pressure, failed)
        self._hearing = NotificationDispatcher(self._lanes, self._tasks, self._pressure, failed)
        self._express: tuple[bytes, Route | None] = (b"", None)
        for method, route in notifications.items():
            if route.whole is not None:
                self._express = (b'{"jsonrpc":"2.0","method":"%s",' % method.encode(), route)

    def start(self) -> None:
        """Begin to read. Everything that is served runs in a copy of the caller's context."""
        self._tasks.open()
        self._finished: asyncio.Future[TransportEnd] = self._tasks.loop.create_future()
        self._transport.start(self)

    # -- calling ------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Any,
        *,
        read: Callable[[Raw], T],
        key: Hashable | None = None,
        streaming: bool = False,
    ) -> T:
        """Call the other side and return what `read` makes of the result.

        Raises RpcError for their error answer, BadAnswer for a result that `read` refuses, ConnectionClosed when
        they are gone, UsageError for parameters that are not JSON. `streaming` says that notifications are the point
        of this call, so that an unread backlog of them may pause reading while it runs. Cancelling the caller sends
        `$/cancel_request`.
        """
        if self.end is not None:
            raise self._closed_error(method, self.end)
        handling = HANDLING.get()
        if handling is not None and handling.lanes is not self._lanes:
            handling = None
        from_handler = handling is not None or SERVING.get()
        answer: asyncio.Future[T] = self._tasks.loop.create_future()
        id = self._open_calls.add(PendingCall(method, answer, read, key, streaming, handling, from_handler))
        try:
            frame = encode(Request(id, method, params))
        except UNSENDABLE as error:
            self._open_calls.take(id)
            raise not_json(method, error) from None
        self._transport.send(frame)
        self._pressure.called()
        if handling is not None:
            handling.awaits_call()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._open_calls.take(id) is not None:
                if handling is not None:
                    handling.call_ended()
                self.notify(CANCEL_REQUEST, {"requestId": id})
            raise

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, in order with everything else; never blocks. UsageError if it is not JSON."""
        try:
            frame = encode(Notification(method, params))
        except UNSENDABLE as error:
            raise not_json(method, error) from None
        self._transport.send(frame)

    @property
    def frame_size(self) -> int:
        """Size of the notification that is being handled right now."""
        return self._hearing.frame_size

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process."""
        return self._transport.unsent

    async def drain(self) -> None:
        """Wait while more is unsent than the other side should make us keep."""
        if self._transport.unsent > self._limits.outbound:
            await self._transport.drain()

    @property
    def paused(self) -> bool:
        """Whether we do not read, so that silence is no sign of the other side."""
        return self._pressure.paused

    def hold(self, size: int) -> None:
        """The application keeps this many received bytes unread; at the bound, reading pauses."""
        self._pressure.hold(size)

    def release(self, size: int) -> None:
        """The application has taken them."""
        self._pressure.release(size)

    # -- what arrives -------------------------------------------------------------------------------------------

    def frames(self, frames: list[Frame]) -> None:
        """Take everything that one read brought."""
        self.heard += 1
        notifications = self._notifications
        hear = self._hearing.take
        prefix, express = self._express
        for frame in frames:
            if isinstance(frame, OversizedFrame):
                self._refuse_oversized(frame)
                continue
            if express is not None and express.whole is not None and frame.startswith(prefix):
                params = express.whole(frame)
                if params is not None:
                    hear(express, params, len(frame))
                    continue
            try:
                envelope = decode_envelope(frame)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                try:
                    envelope = second_look(frame)
                except InvalidMessage as problem:
                    self._refuse(problem, frame)
                    continue
            if envelope.jsonrpc != "2.0" and (self._strict or envelope.jsonrpc):
                self._refuse(
                    InvalidMessage(INVALID_REQUEST, '`jsonrpc` is not "2.0"', id_of_call(envelope)), frame
                )
                continue
            if not frame.isascii() and not is_utf8(frame):
                self._refuse(
                    InvalidMessage(PARSE_ERROR, "the line is not UTF-8", id_of_call(envelope)), frame
                )
                continue
            method = envelope.method
            if envelope.id is not UNSET or method is UNSET:
                self._request_or_answer(envelope, frame)
                continue
            route = notifications.get(method)
            if route is None:
                self._unrouted(method, envelope, frame)
                continue
            try:
                params = route.read(envelope.params if envelope.params is not ABSENT else None)
            except Exception as error:  # noqa: BLE001 - RpcError by contract; anything else must not stop the reading
                self._report("refused", f"{method}: {error}", frame)
                continue
            hear(route, params, len(frame))
        if self._pressure.clogged():
            self._tasks.run(self._pressure.drain())

    def _refuse(self, problem: InvalidMessage, frame: bytes) -> None:
        self._report("invalid" if problem.code == INVALID_REQUEST else "noise", problem.reason, frame)
        if self._answers_noise or problem.id is not None:
            error = RpcError.of(problem.code, problem.sentence, problem.reason)
            self._transport.send(encode_failure(problem.id, error))

    def _refuse_oversized(self, frame: OversizedFrame) -> None:
        reason = f"a message of {frame.size} bytes is over the size limit"
        self._report("oversized", reason, frame.head)
        id, is_answer = id_of_oversized(frame)
        if is_answer:
            call = self._open_calls.take(id)
            if call is not None:
                self._deliver(call, lambda: call.fail(BadAnswer(f"{call.method}: {reason}")))
        elif id is not None or self._answers_noise:
            self._transport.send(encode_failure(id, InvalidRequest(data=reason)))

    def _request_or_answer(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, envelope.method
        if method is UNSET:
            if id is not UNSET and (is_message(envelope) or id in self._open_calls):
                self._answer_arrived(id, envelope, frame)
            else:
                self._refuse(InvalidMessage(INVALID_REQUEST, "neither a call nor an answer"), frame)
            return
        assert id is not UNSET
        route = self._requests.get(method)
        if route is None:
            self._transport.send(encode_failure(id, MethodNotFound(data={"method": method})))
            return
        try:
            params = route.read(envelope.params if envelope.params is not ABSENT else None)
        except Exception as error:  # noqa: BLE001 - RpcError by contract; anything else must not stop the reading
            self._transport.send(encode_failure(id, to_rpc_error(error)))
            return
        self._serving.begin(route, params, IncomingCall(id, method, len(frame)))

    def _unrouted(self, method: str, envelope: Envelope, frame: bytes) -> None:
        if method == CANCEL_REQUEST:
            self._serving.cancel_requested(envelope.params)
        else:
            self._report("unknown", f"no handler for the notification {method}", frame)

    # -- answers to our calls -----------------------------------------------------------------------------------

    def _answer_arrived(self, id: RequestId, envelope: Envelope, frame: bytes) -> None:
        call = self._open_calls.take(id)
        if call is None:
            self._report("unmatched", f"an answer to no open request (id {id!r})", frame)
        else:
            self._deliver(call, lambda: call.settle(envelope))

    def _deliver(self, call: PendingCall[Any], settle: Callable[[], None]) -> None:
        """Settle a call of ours, once everything before its answer has been handled."""

        def step() -> None:
            if call.handling is not None:
                call.handling.call_ended()
            settle()

        if not self._lanes:
            step()
        else:
            keys = None if call.key is None else (call.key, None)
            self._lanes.after(keys, step, all_done=not call.from_handler)

    # -- the end ------------------------------------------------------------------------------------------------

    def ended(self, end: TransportEnd) -> None:
        """Nothing more will come: settle every call of ours with the reason, behind all that arrived before."""
        self.end = end
        unsettled = self._open_calls.take_all()

        def fail(call: PendingCall[Any]) -> None:
            call.fail(self._closed_error(call.method, end))

        def finish() -> None:
            overdue.cancel()
            for call in unsettled:
                fail(call)
            if not self._finished.done():
                self._finished.set_result(end)

        overdue = self._clock.call_later(self._limits.grace, finish)
        for call in unsettled:
            self._deliver(call, partial(fail, call))
        self._lanes.after(None, finish)
        if self._on_end is not None:
            self._on_end(end)

    async def wait_ended(self) -> TransportEnd:
        """Return how it ended, once it has and what arrived before was handled."""
        return await asyncio.shield(self._finished)

    async def finish_calls(self) -> None:
        """Let the requests that are being served come to their answers; cancel those that take too long."""
        await self._serving.finish()

    async def aclose(self) -> None:
        """Cancel what is being served, answer it, close the transport. Bounded; may be called twice."""
        await self._serving.abort()
        await self._transport.aclose()
        await asyncio.sleep(
            0
        )  # a request that has just started lets its lane go on in the next turn of the loop
        await self._tasks.wait(overdue=self._lanes.drop)

    def _report(self, kind: ReportKind, detail: str, frame: bytes = b"") -> None:
        if self._observer is None:
            return
        try:
            self._observer(ConnectionReport(kind, detail, frame))
        except Exception:  # noqa: BLE001 - whoever watches must not stop the reading, and there is nobody to tell
            return
