"""Runs the handlers of incoming requests and notifications in order, as owned tasks.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from contextvars import Context, copy_context
from typing import Any

import msgspec
from msgspec import Raw, Struct

from accord.clock import Clock, within
from accord.errors import RequestCancelled, RpcError, to_rpc_error
from accord.schema.codec import encode
from accord.wire.calls import BackPressure, IncomingCall, Route
from accord.wire.envelope import RequestId, Success, encode_failure
from accord.wire.lanes import HANDLING, SERVING, Lane, Lanes, RunningHandler

# MERGED wire.tasks: The tasks of one connection: each is owned, runs in a clean copy of the context the connection was started in, and is
# waited for, with a bound, when the connection ends.


class OwnedTasks:
    """Started through here, never left behind."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._stubborn: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Remember where the tasks belong; called once, on the event loop."""
        self.loop = asyncio.get_running_loop()
        self._context: Context = copy_context()
        self._context.run(HANDLING.set, None)
        self._context.run(SERVING.set, False)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start some work."""
        task = self.loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(
        self, tasks: Iterable[asyncio.Task[None]] | None = None, *, overdue: Callable[[], None] | None = None
    ) -> None:
        """Wait for these tasks (None: for all, and for those they start) but the current one.

        Those that outlast the grace are cancelled, right after `overdue` was called; those that outlast it once more
        are not waited for again.
        """
        mine = self._tasks if tasks is None else set(tasks)
        if await self._gone(mine):
            return
        if overdue is not None:
            overdue()
        for task in self._unfinished(mine):
            task.cancel()
        if not await self._gone(mine):
            self._stubborn.update(self._unfinished(mine))

    async def _gone(self, mine: set[asyncio.Task[None]]) -> bool:
        """Whether all of them end within the grace."""
        deadline = self._clock.now() + self._grace
        while waiting := self._unfinished(mine):
            left = deadline - self._clock.now()
            if left <= 0:
                return False
            await within(self._clock, left, asyncio.gather(*waiting, return_exceptions=True))
        return True

    def _unfinished(self, mine: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
        current = asyncio.current_task()
        return {task for task in mine - self._stubborn if task is not current and not task.done()}


# MERGED wire.serving: Requests of the other side while we serve them: started in order, cancellable, each answered exactly once.


class _CancelParams(Struct):
    requestId: RequestId  # noqa: N815 - the wire's own spelling


_read_cancel = msgspec.json.Decoder(_CancelParams).decode


class RequestDispatcher:
    """The calls that are being served, by id."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        lanes: Lanes,
        tasks: OwnedTasks,
        pressure: BackPressure,
        failed: Callable[[str], None],
    ) -> None:
        self._send = send
        self._lanes = lanes
        self._tasks = tasks
        self._pressure = pressure
        self._failed = failed
        self._calls: dict[RequestId, IncomingCall] = {}
        self._unanswered: set[IncomingCall] = (
            set()
        )  # more than the above where a peer uses an id twice at once
        self._aborted = False

    def begin(self, route: Route, params: Any, call: IncomingCall) -> None:
        """Serve a request in its place: at once, or behind what its session has unfinished."""
        self._calls[call.id] = call
        self._unanswered.add(call)
        if self._aborted:
            call.cancelled = True
        key = route.key(params)
        lane = self._lanes.get(key) if self._lanes else None
        if lane is None:
            self._serve(route, params, call, key)
            return

        def step() -> None:
            lane.waiting_requests -= 1
            self._pressure.release(call.size)
            self._serve(route, params, call, key)

        lane.waiting_requests += 1
        self._pressure.hold(call.size)
        lane.steps.append(step)

    def cancel_requested(self, raw: Raw) -> None:
        """The other side gave up on one of its requests; unknown and finished ones are nobody's business."""
        try:
            call = self._calls.get(_read_cancel(raw).requestId)
        except (msgspec.MsgspecError, ValueError):
            return
        if call is not None:
            self._cancel(call)

    async def finish(self) -> None:
        """Let what is being served come to its answer; cancel what takes too long."""
        await self._tasks.wait([call.task for call in self._unanswered if call.task is not None])

    async def abort(self) -> None:
        """Cancel what is being served, and what still comes, and wait for the answers."""
        self._aborted = True
        for call in list(self._unanswered):
            self._cancel(call)
        await self.finish()

    def _cancel(self, call: IncomingCall) -> None:
        call.cancelled = True
        if call.task is not None and call.started:
            call.task.cancel()

    def _serve(self, route: Route, params: Any, call: IncomingCall, key: Hashable) -> None:
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
            call.task = self._tasks.run(self._served(call, result, lane))
        else:
            self._answer(call, self._success(call, result))

    async def _served(self, call: IncomingCall, result: Awaitable[Any], lane: Lane) -> None:
        SERVING.set(True)
        call.started = True
        lane.waiting_requests -= 1
        if lane.steps:
            self._tasks.loop.call_soon(self._lanes.unblock, lane)
        else:
            self._lanes.unblock(lane)
        try:
            if call.cancelled:
                if asyncio.iscoroutine(result):
                    result.close()  # or it would complain that it never ran
                elif isinstance(result, asyncio.Future):
                    result.cancel()
                answer = encode_failure(call.id, RequestCancelled())
            else:
                answer = self._success(call, await result)
        except asyncio.CancelledError:
            answer = encode_failure(call.id, RequestCancelled())
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            answer = self._failure(call, error)
        call.task = None
        self._answer(call, answer)
        if self._pressure.clogged():
            self._tasks.run(self._pressure.drain())

    def _success(self, call: IncomingCall, result: Any) -> bytes:
        try:
            return encode(Success(call.id, {} if result is None else result))
        except (TypeError, ValueError, RecursionError) as error:
            return self._failure(call, error)

    def _failure(self, call: IncomingCall, error: Exception) -> bytes:
        if not isinstance(error, RpcError):
            self._failed(f"the handler of {call.method} raised {type(error).__name__}: {error}")
        return encode_failure(call.id, to_rpc_error(error))

    def _answer(self, call: IncomingCall, frame: bytes) -> None:
        if self._calls.get(call.id) is call:
            del self._calls[call.id]
        self._unanswered.discard(call)
        self._send(frame)
        call.answered(self._failed)


# MERGED wire.hearing: Notifications of the other side while we handle them: in order, inline where nothing stands before them.


class _Adoption(Struct):
    """Lets the task that has just finished a handler take over the next one of the same lane."""

    key: Hashable
    work: tuple[Awaitable[None], RunningHandler, int] | None = None


class NotificationDispatcher:
    """What we were told and have not finished with."""

    def __init__(
        self, lanes: Lanes, tasks: OwnedTasks, pressure: BackPressure, failed: Callable[[str], None]
    ) -> None:
        self.frame_size = 0
        """Size of the notification that is being handled right now."""
        self._lanes = lanes
        self._tasks = tasks
        self._pressure = pressure
        self._failed = failed
        self._adoption: _Adoption | None = None

    def take(self, route: Route, params: Any, size: int) -> None:
        """Handle a notification in its place: at once, or behind what its session has unfinished."""
        busy = self._lanes.busy
        if busy:
            lane = busy.get(route.key(params))
            if lane is not None and (lane.waiting_requests or not route.urgent):
                self._pressure.hold(size)

                def step() -> None:
                    self._handle(route, params, size)
                    self._pressure.release(size)

                lane.steps.append(step)
                return
        self._handle(route, params, size)

    def _handle(self, route: Route, params: Any, size: int) -> None:
        """Run one notification's handler; if it is asynchronous, its lane is blocked until it is done."""
        self.frame_size = size
        try:
            result = route.run(params)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._failed(f"a notification handler raised {type(error).__name__}: {error}")
            return
        if result is None:
            return
        key = route.key(params)
        handling = RunningHandler(self._lanes, key)
        self._pressure.hold(size)
        adoption = self._adoption
        if adoption is not None and adoption.key == key and adoption.work is None:
            adoption.work = (result, handling, size)
        else:
            self._tasks.run(self._work(key, result, handling, size))

    async def _work(
        self, key: Hashable, result: Awaitable[None], handling: RunningHandler, size: int
    ) -> None:
        """Await one asynchronous notification handler, then those right behind it in the same lane."""
        while True:
            HANDLING.set(handling)
            try:
                await result
            except asyncio.CancelledError:
                handling.done()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                self._failed(f"a notification handler raised {type(error).__name__}: {error}")
            HANDLING.set(None)
            self._pressure.release(size)
            self._adoption = adoption = _Adoption(key)
            try:
                handling.done()
            finally:
                self._adoption = None
            if adoption.work is None:
                return
            result, handling, size = adoption.work
