"""One JSON-RPC connection: both sides call and serve. Owns ids, order, cancellation, back-pressure and the end.

It does not know ACP: a `Route` says how the parameters of a method are read, which session they belong to and what
runs. Order is kept by lanes (see `lanes.py`); the fast case, a plain function with nothing unfinished before it, is
called straight from the read without a task or a queue. Every request ends: with an answer, an error, or the end of
the connection and its reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import (
    INVALID_REQUEST,
    BadAnswer,
    ConnectionClosed,
    InvalidRequest,
    MethodNotFound,
    RequestCancelled,
    RpcError,
    to_rpc_error,
)
from accord.schema.codec import encode
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    NoMessage,
    Notification,
    Request,
    RequestId,
    Success,
    decode_envelope,
    encode_failure,
    id_of_oversized,
    is_message,
    read_error,
    second_look,
)
from accord.wire.lanes import HANDLING, Handling, Lane, Lanes
from accord.wire.routes import Call, Limits, Observer, Report, Route
from accord.wire.transport import End, Frame, Oversized, Transport

T = TypeVar("T")

CANCEL_REQUEST = "$/cancel_request"


class _CancelParams(Struct):
    requestId: RequestId  # noqa: N815 - the wire's own spelling


_read_cancel = msgspec.json.Decoder(_CancelParams).decode


@dataclass(slots=True)
class _Pending(Generic[T]):
    """A call of ours that waits for its answer."""

    method: str
    answer: "asyncio.Future[T]"
    read: Callable[[Raw], T]
    key: Hashable | None
    streaming: bool
    handling: Handling | None

    def settle(self, envelope: Envelope) -> None:
        if self.answer.done():
            return
        if envelope.error is not ABSENT and bytes(envelope.error) != b"null":
            self.answer.set_exception(read_error(envelope.error))
        elif envelope.result is ABSENT:
            self.answer.set_exception(BadAnswer(f"{self.method}: the answer has neither result nor error"))
        else:
            try:
                self.answer.set_result(self.read(envelope.result))
            except (BadAnswer, RpcError) as error:
                self.answer.set_exception(error)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Adoption:
    """Lets the task that has just finished a handler take over the next one of the same lane."""

    key: Hashable
    work: tuple[Awaitable[None], Handling, int] | None = None


def closed(method: str, end: End) -> ConnectionClosed:
    """The error of a call that the end of the connection left without an answer."""
    return ConnectionClosed(
        f"{method} was not answered: {end.reason}", exit_code=end.exit_code, signal=end.signal, stderr=end.stderr
    )


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
        limits: Limits | None = None,
        observer: Observer | None = None,
        on_end: Callable[[End], None] | None = None,
        closed_error: Callable[[str, End], ConnectionClosed] = closed,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.end: End | None = None
        self.heard = 0
        """Counts up with every read: a sign of life."""
        self.frame_size = 0
        """Size of the notification that is being handled right now."""
        self._transport = transport
        self._requests = requests
        self._notifications = notifications
        self._answers_noise = answers_noise
        self._strict = strict
        self._limits = limits or Limits()
        self._observer = observer
        self._on_end = on_end
        self._closed_error = closed_error
        self._clock = clock
        self._lanes = Lanes()
        self._pending: dict[RequestId, _Pending[Any]] = {}
        self._calls: dict[RequestId, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._adoption: _Adoption | None = None
        self._next_id = 0
        self._held = 0
        self._short_requests = 0
        self._paused = False
        self._draining = False

    def start(self) -> None:
        """Begin to read. Everything that is served runs in a copy of the caller's context."""
        self._loop = asyncio.get_running_loop()
        self._context: Context = copy_context()
        self._context.run(HANDLING.set, None)
        self._finished: asyncio.Future[End] = self._loop.create_future()
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
        they are gone. `streaming` says that notifications are the point of this call, so that an unread backlog of
        them may pause reading while it runs. Cancelling the caller sends `$/cancel_request`.
        """
        if self.end is not None:
            raise self._closed_error(method, self.end)
        self._next_id = id = self._next_id + 1
        handling = HANDLING.get()
        if handling is not None and handling.lanes is not self._lanes:
            handling = None
        answer: asyncio.Future[T] = self._loop.create_future()
        self._pending[id] = _Pending(method, answer, read, key, streaming, handling)
        self._transport.send(encode(Request(id, method, params)))
        if not streaming:
            self._short_requests += 1
            if self._paused:
                self._balance()
        if handling is not None:
            handling.awaits_call()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._forget(id) is not None:
                if handling is not None:
                    handling.call_ended()
                self.notify(CANCEL_REQUEST, {"requestId": id})
            raise

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, in order with everything else; never blocks."""
        self._transport.send(encode(Notification(method, params)))

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process."""
        return self._transport.unsent

    async def drain(self) -> None:
        """Wait while more is unsent than the other side should make us keep."""
        if self._transport.unsent > self._limits.outbound:
            await self._transport.drain()

    # -- back-pressure ------------------------------------------------------------------------------------------

    def hold(self, size: int) -> None:
        """The application keeps this many received bytes unread; at the bound, reading pauses."""
        self._held += size
        if self._held > self._limits.inbound and not self._paused:
            self._balance()

    def release(self, size: int) -> None:
        """The application has taken them."""
        self._held -= size
        if self._paused:
            self._balance()

    def _balance(self) -> None:
        """Pause or resume reading. A caller of ours that waits for an answer keeps it going, up to a multiple."""
        bound = self._limits.inbound * (4 if self._short_requests else 1)
        if self._paused:
            if self._held <= bound // 2 and not self._draining:
                self._paused = False
                self._transport.resume()
        elif self._held > bound or self._draining:
            self._paused = True
            self._transport.pause()

    def _check_outbound(self) -> None:
        """Answers that pile up unread at the other side stop us from reading more requests."""
        if not self._draining:
            self._draining = True
            self._balance()
            self._own(self._drained())

    async def _drained(self) -> None:
        await self._transport.drain()
        self._draining = False
        self._balance()

    # -- what arrives -------------------------------------------------------------------------------------------

    def frames(self, frames: list[Frame]) -> None:
        """Take everything that one read brought."""
        self.heard += 1
        notifications = self._notifications
        lanes = self._lanes
        for frame in frames:
            if isinstance(frame, Oversized):
                self._refuse_oversized(frame)
                continue
            try:
                envelope = decode_envelope(frame)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                try:
                    envelope = second_look(frame)
                except NoMessage as problem:
                    self._refuse(problem, frame)
                    continue
            if envelope.jsonrpc != "2.0" and (self._strict or envelope.jsonrpc):
                self._refuse(NoMessage(INVALID_REQUEST, '`jsonrpc` is not "2.0"'), frame)
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
            except RpcError as error:
                self._report("refused", f"{method}: {error}", frame)
                continue
            if lanes:
                self._notification_in_lane(route, params, len(frame))
            else:
                self._handle(route, params, len(frame))
        if self._transport.unsent > self._limits.outbound:
            self._check_outbound()

    def _refuse(self, problem: NoMessage, frame: bytes) -> None:
        self._report("invalid" if problem.code == INVALID_REQUEST else "noise", problem.reason, frame)
        if self._answers_noise or problem.id is not None:
            error = RpcError.of(problem.code, problem.sentence, problem.reason)
            self._transport.send(encode_failure(problem.id, error))

    def _refuse_oversized(self, frame: Oversized) -> None:
        reason = f"a message of {frame.size} bytes is over the size limit"
        self._report("oversized", reason, frame.head)
        id, is_answer = id_of_oversized(frame)
        if is_answer:
            pending = self._forget(id)
            if pending is not None:
                self._deliver(pending, lambda: pending.fail(BadAnswer(f"{pending.method}: {reason}")))
        elif id is not None or self._answers_noise:
            self._transport.send(encode_failure(id, InvalidRequest(data=reason)))

    def _request_or_answer(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, envelope.method
        if method is UNSET:
            if id is not UNSET and is_message(envelope):
                self._answer_arrived(id, envelope, frame)
            else:
                self._refuse(NoMessage(INVALID_REQUEST, "neither a call nor an answer"), frame)
            return
        assert id is not UNSET
        route = self._requests.get(method)
        if route is None:
            self._transport.send(encode_failure(id, MethodNotFound(data={"method": method})))
            return
        try:
            params = route.read(envelope.params if envelope.params is not ABSENT else None)
        except RpcError as error:
            self._transport.send(encode_failure(id, error))
            return
        self._calls[id] = call = Call(id, method, len(frame))
        key = route.key(params)
        lane = self._lanes.get(key) if self._lanes else None
        if lane is None:
            self._serve(route, params, call, key)
        else:
            lane.waiting_requests += 1
            self.hold(call.size)
            lane.steps.append(lambda: self._serve_from_lane(lane, route, params, call))

    # -- notifications ------------------------------------------------------------------------------------------

    def _unrouted(self, method: str, envelope: Envelope, frame: bytes) -> None:
        if method == CANCEL_REQUEST:
            self._cancel_requested(envelope.params)
        else:
            self._report("unknown", f"no handler for the notification {method}", frame)

    def _notification_in_lane(self, route: Route, params: Any, size: int) -> None:
        lane = self._lanes.get(route.key(params))
        if lane is None or (route.urgent and not lane.waiting_requests):
            self._handle(route, params, size)
            return
        self.hold(size)

        def step() -> None:
            self._handle(route, params, size)
            self.release(size)

        lane.steps.append(step)

    def _handle(self, route: Route, params: Any, size: int) -> None:
        """Run one notification's handler; if it is asynchronous, its lane is blocked until it is done."""
        self.frame_size = size
        try:
            result = route.run(params)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._report("failed", f"a notification handler raised {type(error).__name__}: {error}")
            return
        if result is None:
            return
        key = route.key(params)
        handling = Handling(self._lanes, key)
        self.hold(size)
        adoption = self._adoption
        if adoption is not None and adoption.key == key and adoption.work is None:
            adoption.work = (result, handling, size)
        else:
            self._own(self._work(key, result, handling, size))

    async def _work(self, key: Hashable, result: Awaitable[None], handling: Handling, size: int) -> None:
        """Await one asynchronous notification handler, then those right behind it in the same lane."""
        while True:
            HANDLING.set(handling)
            try:
                await result
            except asyncio.CancelledError:
                handling.done()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                self._report("failed", f"a notification handler raised {type(error).__name__}: {error}")
            HANDLING.set(None)
            self.release(size)
            self._adoption = adoption = _Adoption(key)
            try:
                handling.done()
            finally:
                self._adoption = None
            if adoption.work is None:
                return
            result, handling, size = adoption.work

    # -- requests -----------------------------------------------------------------------------------------------

    def _serve_from_lane(self, lane: Lane, route: Route, params: Any, call: Call) -> None:
        lane.waiting_requests -= 1
        self.release(call.size)
        self._serve(route, params, call, lane.key)

    def _serve(self, route: Route, params: Any, call: Call, key: Hashable) -> None:
        """Start one request. A plain function is answered at once; a coroutine runs in a task of its own."""
        if call.cancelled:
            self._answer(call, encode_failure(call.id, RequestCancelled()))
            return
        try:
            result = route.run(params, call)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._answer(call, self._failure(call, error))
            return
        if hasattr(result, "__await__"):
            # Until the coroutine has taken its first step, what follows in its session waits.
            lane = self._lanes.block(key)
            lane.waiting_requests += 1
            call.task = self._own(self._served(call, result, lane))
        else:
            self._answer(call, self._success(call, result))

    async def _served(self, call: Call, result: Coroutine[Any, Any, Any], lane: Lane) -> None:
        call.started = True
        lane.waiting_requests -= 1
        if lane.steps:
            self._loop.call_soon(self._lanes.unblock, lane)
        else:
            self._lanes.unblock(lane)
        try:
            if call.cancelled:
                result.close()
                answer = encode_failure(call.id, RequestCancelled())
            else:
                answer = self._success(call, await result)
        except asyncio.CancelledError:
            answer = encode_failure(call.id, RequestCancelled())
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            answer = self._failure(call, error)
        call.task = None
        self._answer(call, answer)
        if self._transport.unsent > self._limits.outbound:
            self._check_outbound()

    def _success(self, call: Call, result: Any) -> bytes:
        try:
            return encode(Success(call.id, {} if result is None else result))
        except (TypeError, ValueError, RecursionError) as error:
            return self._failure(call, error)

    def _failure(self, call: Call, error: Exception) -> bytes:
        if not isinstance(error, RpcError):
            self._report("failed", f"the handler of {call.method} raised {type(error).__name__}: {error}")
        return encode_failure(call.id, to_rpc_error(error))

    def _answer(self, call: Call, frame: bytes) -> None:
        if self._calls.get(call.id) is call:
            del self._calls[call.id]
        self._transport.send(frame)
        call.answered()

    def _cancel_requested(self, raw: Raw) -> None:
        try:
            id = _read_cancel(raw).requestId
        except (msgspec.MsgspecError, ValueError):
            return
        call = self._calls.get(id)
        if call is not None:
            self.cancel(call)

    def cancel(self, call: Call) -> None:
        """Cancel the work on one incoming request; it is still answered, once."""
        call.cancelled = True
        if call.task is not None and call.started:
            call.task.cancel()

    # -- answers to our calls -----------------------------------------------------------------------------------

    def _answer_arrived(self, id: RequestId, envelope: Envelope, frame: bytes) -> None:
        pending = self._forget(id)
        if pending is None:
            self._report("unmatched", f"an answer to no open request (id {id!r})", frame)
        else:
            self._deliver(pending, lambda: pending.settle(envelope))

    def _forget(self, id: RequestId) -> _Pending[Any] | None:
        pending = self._pending.pop(id, None)
        if pending is not None and not pending.streaming:
            self._short_requests -= 1
        return pending

    def _deliver(self, pending: _Pending[Any], settle: Callable[[], None]) -> None:
        """Settle a call of ours, once everything before its answer has been handled."""

        def step() -> None:
            if pending.handling is not None:
                pending.handling.call_ended()
            settle()

        if not self._lanes:
            step()
        else:
            self._lanes.after(None if pending.key is None else (pending.key, None), step)

    # -- the end ------------------------------------------------------------------------------------------------

    def ended(self, end: End) -> None:
        """Nothing more will come: settle every call of ours with the reason, behind all that arrived before."""
        self.end = end
        unsettled = [pending for id in list(self._pending) if (pending := self._forget(id)) is not None]

        def settle(pending: _Pending[Any]) -> None:
            pending.fail(self._closed_error(pending.method, end))

        def finish() -> None:
            overdue.cancel()
            for pending in unsettled:
                settle(pending)
            if not self._finished.done():
                self._finished.set_result(end)

        overdue = self._clock.call_later(self._limits.grace, finish)
        for pending in unsettled:
            self._deliver(pending, lambda pending=pending: settle(pending))
        self._lanes.after(None, finish)
        if self._on_end is not None:
            self._on_end(end)

    async def wait_ended(self) -> End:
        """Return how it ended, once it has and what arrived before was handled."""
        return await asyncio.shield(self._finished)

    async def finish_calls(self) -> None:
        """Let the requests that are being served come to their answers; cancel those that take too long."""
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        await self._wait(tasks)

    async def aclose(self) -> None:
        """Cancel what is being served, answer it, close the transport. Bounded; may be called twice."""
        for call in list(self._calls.values()):
            self.cancel(call)
        await self.finish_calls()
        await self._transport.aclose()
        await self._wait(list(self._tasks))

    async def _wait(self, tasks: list[asyncio.Task[None]]) -> None:
        current = asyncio.current_task()
        waiting = {task for task in tasks if task is not current and not task.done()}
        if not waiting:
            return
        overdue = self._clock.call_later(self._limits.grace, lambda: [task.cancel() for task in waiting] and None)
        try:
            await asyncio.wait(waiting)
        finally:
            overdue.cancel()

    def _report(self, kind: "Literal['noise', 'invalid', 'oversized', 'unmatched', 'unknown', 'refused', 'failed']", detail: str, frame: bytes = b"") -> None:
        if self._observer is not None:
            self._observer(Report(kind, detail, frame))

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
