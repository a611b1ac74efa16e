"""Requests of the other side while we serve them: started in order, cancellable, each answered exactly once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from accord.errors import RequestCancelled, RpcError, to_rpc_error
from accord.schema.codec import encode
from accord.wire.backpressure import BackPressure
from accord.wire.envelope import RequestId, Success, encode_failure
from accord.wire.lanes import SERVING, Lane, Lanes
from accord.wire.routes import Call, Route
from accord.wire.tasks import OwnedTasks


class _CancelParams(Struct):
    requestId: RequestId  # noqa: N815 - the wire's own spelling


_read_cancel = msgspec.json.Decoder(_CancelParams).decode


class Serving:
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
        self._calls: dict[RequestId, Call] = {}
        self._unanswered: set[Call] = set()  # more than the above where a peer uses an id twice at once
        self._aborted = False

    def begin(self, route: Route, params: Any, call: Call) -> None:
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

    def _cancel(self, call: Call) -> None:
        call.cancelled = True
        if call.task is not None and call.started:
            call.task.cancel()

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
            call.task = self._tasks.run(self._served(call, result, lane))
        else:
            self._answer(call, self._success(call, result))

    async def _served(self, call: Call, result: Awaitable[Any], lane: Lane) -> None:
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

    def _success(self, call: Call, result: Any) -> bytes:
        try:
            return encode(Success(call.id, {} if result is None else result))
        except (TypeError, ValueError, RecursionError) as error:
            return self._failure(call, error)

    def _failure(self, call: Call, error: Exception) -> bytes:
        if not isinstance(error, RpcError):
            self._failed(f"the handler of {call.method} raised {type(error).__name__}: {error}")
        return encode_failure(call.id, to_rpc_error(error))

    def _answer(self, call: Call, frame: bytes) -> None:
        if self._calls.get(call.id) is call:
            del self._calls[call.id]
        self._unanswered.discard(call)
        self._send(frame)
        call.answered(self._failed)
