"""Runs the handlers of incoming requests and notifications in order, as owned tasks.

A request or notification is handled at once if its session has nothing unfinished, otherwise behind what is
unfinished (see `lanes.py`). Synchronous handlers run inline, without a task.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextvars import Context, copy_context
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from accord.clock import OwnedTasks
from accord.errors import RequestCancelled, RpcError, to_rpc_error
from accord.schema.codec import encode
from accord.wire.calls import BackPressure, IncomingCall, Route
from accord.wire.envelope import RequestId, Success, encode_failure
from accord.wire.lanes import CURRENT_HANDLER, IN_REQUEST, Lane, Lanes, RunningHandler
from accord.wire.transport import Transport


class ConnectionTasks(OwnedTasks):
    """The tasks of one connection. Each runs in a copy of the context that the connection was started in."""

    def open(self) -> None:
        """Keep the running event loop and context for the tasks; called once."""
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._context: Context = copy_context()
        self._context.run(CURRENT_HANDLER.set, None)
        self._context.run(IN_REQUEST.set, False)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        return self.start(work, self._context.copy())


class _CancelParams(Struct):
    requestId: RequestId  # noqa: N815 - the wire's own spelling


_decode_cancel = msgspec.json.Decoder(_CancelParams).decode


def untranslated_sender(transport: Transport) -> Callable[[bytes], None]:
    """Return what sends the frames that are the same in all protocol versions."""
    return getattr(transport, "transmit", transport.send)


def untranslated_output(transport: Transport) -> Transport:
    """Return what a translation sends to, and any other transport itself: it counts the unsent bytes."""
    return cast(Any, transport).transport if hasattr(transport, "transmit") else transport


class RequestDispatcher:
    """Starts incoming requests in order, cancels them on request, and answers each exactly once."""

    def __init__(
        self,
        transport: Transport,
        lanes: Lanes,
        tasks: ConnectionTasks,
        pressure: BackPressure,
        report: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._send_untranslated = untranslated_sender(transport)
        self._lanes = lanes
        self._tasks = tasks
        self._pressure = pressure
        self._report = report
        self._calls: dict[RequestId, IncomingCall] = {}
        # Also holds calls whose id the peer used again before they were answered.
        self._unanswered: set[IncomingCall] = set()
        self._aborted = False

    def dispatch(self, route: Route, params: Any, id: RequestId, method: str, size: int) -> None:
        """Handle a request now, or after what its session has unfinished."""
        lane = busy.get(route.key(params)) if (busy := self._lanes.busy) else None
        if route.run_now is not None and lane is None and not self._aborted:
            try:
                result = route.run_now(params)
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                self._transport.send(self._encode_error(id, method, error))
                return
            if result is not None:
                self._transport.send(self._encode_result(id, method, result))
                return
        call = IncomingCall(id, method, size)
        self._calls[id] = call
        self._unanswered.add(call)
        call.stop = self.stop
        call.translated = route.translated
        call.cancelled = self._aborted
        if lane is None:
            self._start_handler(route, params, call)
            return

        def run_step() -> None:
            lane.waiting_requests -= 1
            self._pressure.release(call.size)
            self._start_handler(route, params, call)

        lane.waiting_requests += 1
        self._pressure.hold(call.size)
        lane.steps.append(run_step)

    def cancel(self, raw: Raw) -> None:
        """Handle `$/cancel_request`; ignore unknown and finished requests."""
        try:
            call = self._calls.get(_decode_cancel(raw).requestId)
        except (msgspec.MsgspecError, ValueError):
            return
        if call is not None:
            self._cancel_call(call)

    def stop(self, call: IncomingCall, error: RpcError) -> None:
        """Cancel the handler of a request, and answer with an error in the next iteration of the event loop.

        The handler cannot change or delay the answer.
        """
        call.stop_error = error
        self._tasks.loop.call_soon(self._send_answer, call, b"")
        self._cancel_call(call)

    async def finish(self) -> None:
        """Wait for the running requests; cancel those that take too long."""
        tasks = [call.task for call in self._unanswered if call.task is not None]
        if not await self._tasks.wait(tasks):
            await self._tasks.end(tasks)

    def cancel_all(self) -> None:
        """Cancel all running and later requests."""
        self._aborted = True
        for call in list(self._unanswered):
            self._cancel_call(call)

    async def abort(self) -> None:
        """Cancel all running and later requests, and wait until they are answered."""
        self.cancel_all()
        await self.finish()

    def _cancel_call(self, call: IncomingCall) -> None:
        call.cancelled = True
        if call.task is not None and call.started:
            call.task.cancel()

    def _start_handler(self, route: Route, params: Any, call: IncomingCall) -> None:
        """Start one request. A plain result is answered at once; an awaitable gets its own task."""
        if call.cancelled:
            self._send_answer(call, encode_failure(call.id, RequestCancelled()))
            return
        try:
            result = route.run(params, call)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._send_answer(call, self._encode_error(call.id, call.method, error))
            return
        if hasattr(result, "__await__"):
            # Later messages of the session wait until the coroutine has taken its first step.
            lane = self._lanes.block(route.key(params))
            lane.waiting_requests += 1
            call.task = self._tasks.run(self._run_request(call, result, lane))
        else:
            self._send_answer(call, self._encode_result(call.id, call.method, result))

    async def _run_request(self, call: IncomingCall, result: Awaitable[Any], lane: Lane) -> None:
        IN_REQUEST.set(True)
        call.started = True
        lane.waiting_requests -= 1
        if lane.steps:
            self._tasks.loop.call_soon(self._lanes.unblock, lane)
        else:
            self._lanes.unblock(lane)
        try:
            if call.cancelled:
                if asyncio.iscoroutine(result):
                    result.close()  # avoids the warning that it never ran
                elif isinstance(result, asyncio.Future):
                    result.cancel()
                answer = encode_failure(call.id, RequestCancelled())
            else:
                answer = self._encode_result(call.id, call.method, await result)
        except asyncio.CancelledError:
            answer = encode_failure(call.id, RequestCancelled())
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            answer = self._encode_error(call.id, call.method, error)
        call.task = None
        self._send_answer(call, answer)
        if self._pressure.pause_for_output():
            self._tasks.run(self._pressure.drain())

    def _encode_result(self, id: RequestId, method: str, result: Any) -> bytes:
        try:
            return encode(Success(id, {} if result is None else result))
        except (TypeError, ValueError, RecursionError) as error:
            return self._encode_error(id, method, error)

    def _encode_error(self, id: RequestId, method: str, error: Exception) -> bytes:
        if not isinstance(error, RpcError):
            self._report(f"the handler of {method} raised {type(error).__name__}: {error}")
        return encode_failure(id, to_rpc_error(error))

    def _send_answer(self, call: IncomingCall, frame: bytes) -> None:
        if call.stop_error is not None:
            if call not in self._unanswered:
                return
            frame = encode_failure(call.id, call.stop_error)
        if self._calls.get(call.id) is call:
            del self._calls[call.id]
        self._unanswered.discard(call)
        (self._transport.send if call.translated else self._send_untranslated)(frame)
        call.run_callbacks(self._report)


class _NextHandler(Struct):
    """Lets the task that has just finished a handler run the next one of the same lane."""

    key: Hashable
    work: tuple[Awaitable[None], RunningHandler, int] | None = None


class NotificationDispatcher:
    """Dispatches notifications in order; runs a handler inline if its session has nothing unfinished."""

    def __init__(
        self, lanes: Lanes, tasks: ConnectionTasks, pressure: BackPressure, report: Callable[[str], None]
    ) -> None:
        self._lanes = lanes
        self._tasks = tasks
        self._pressure = pressure
        self._report = report
        self._next_handler: _NextHandler | None = None

    def dispatch(self, route: Route, params: Any, size: int) -> None:
        """Handle a notification now, or after what its session has unfinished."""
        busy = self._lanes.busy
        if busy:
            lane = busy.get(route.key(params))
            if lane is not None and (lane.waiting_requests or not route.urgent):
                self._pressure.hold(size)

                def run_step() -> None:
                    self._run_handler(route, params, size)
                    self._pressure.release(size)

                lane.steps.append(run_step)
                return
        self._run_handler(route, params, size)

    def _run_handler(self, route: Route, params: Any, size: int) -> None:
        """Run one handler. An asynchronous one blocks its lane until it is done."""
        self._pressure.frame_size = size
        try:
            result = route.run(params)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._report(f"a notification handler raised {type(error).__name__}: {error}")
            return
        if result is None:
            return
        key = route.key(params)
        handler = RunningHandler(self._lanes, key)
        self._pressure.hold(size)
        next_handler = self._next_handler
        if next_handler is not None and next_handler.key == key and next_handler.work is None:
            next_handler.work = (result, handler, size)
        else:
            self._tasks.run(self._await_handlers(key, result, handler, size))

    async def _await_handlers(
        self, key: Hashable, result: Awaitable[None], handler: RunningHandler, size: int
    ) -> None:
        """Await one asynchronous handler, then those that follow directly in the same lane."""
        while True:
            CURRENT_HANDLER.set(handler)
            try:
                await result
            except asyncio.CancelledError:
                handler.done()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                self._report(f"a notification handler raised {type(error).__name__}: {error}")
            CURRENT_HANDLER.set(None)
            self._pressure.release(size)
            self._next_handler = next_handler = _NextHandler(key)
            try:
                handler.done()
            finally:
                self._next_handler = None
            if next_handler.work is None:
                return
            result, handler, size = next_handler.work
