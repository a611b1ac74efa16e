"""One request while the hooks of middlewares handle it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from accord.errors import AccordError, InternalError, RequestCancelled, RpcError, to_rpc_error
from accord.proxy.middleware import HookFunction, HookRoute, hook_name
from accord.proxy.typed_message import TypedMessage, encode_result
from accord.safe_text import one_line
from accord.schema.codec import encode
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import Notification, RequestId, Response, Success, encode_failure
from accord.wire.lanes import Lane

if TYPE_CHECKING:
    from accord.proxy.proxy import Flow

_CANCELED_RESULTS: Final[dict[str, Any]] = {
    "session/prompt": {"stopReason": "cancelled"},
    "session/request_permission": {"outcome": {"outcome": "cancelled"}},
}


class ForwardedRequest(Struct):
    """A request that the proxy sent, until its response."""

    method: str
    session_id: str | None
    answer: "asyncio.Future[tuple[Response[ForwardedRequest], bytes]]"
    on_response: Callable[[], None] | None = None
    """Called with the response in the order of the wire. Without it, the response waits for nothing."""
    abandoned: bool = False
    """Whether the response is dropped, because no code waits for it."""


class HookedCall:
    """A request in the hooks of its route.

    While a hook runs before `call_next`, later messages of the session wait; while it runs after, messages
    that the peer sent after its response wait. The call is answered exactly once.
    """

    def __init__(
        self, flow: "Flow", id: RequestId, route: HookRoute, message: TypedMessage, frame: bytes
    ) -> None:
        self.id: RequestId = id
        self.session_id: str | None = getattr(message.value, "session_id", None)
        self.method: str = route.method.name
        self.flow: Flow = flow
        self._route = route
        self._message = message
        self._frame = frame
        self._open_ids: list[RequestId] = []
        self._forwarded = False
        self._held: list[tuple[Flow, Lane]] = []
        self._response: tuple[TypedMessage, bytes, RequestId] | None = None
        self._peer_error: tuple[Exception, bytes] | None = None
        self._canceled_answer: bytes | None = None
        self._task: asyncio.Task[bytes] | None = None
        self._failed_hook = ""

    def start(self) -> None:
        """Run the hooks."""
        self._hold(self.flow)
        self._task = self.flow.proxy.tasks.start(self._run())
        self._task.add_done_callback(self._finish)

    def cancel(self) -> bool:
        """Handle `$/cancel_request` for this call. Returns whether the frame has to be forwarded."""
        if not self._open_ids:
            self._stop(encode_failure(self.id, RequestCancelled()))
            return False
        if self._open_ids == [self.id]:
            return True
        for id in self._open_ids:
            self.flow.target.send(encode(Notification(CANCEL_REQUEST, {"requestId": id})))
        return False

    def cancel_turn(self) -> None:
        """Handle `session/cancel` of the session: end hooks that do not wait for a peer."""
        result = _CANCELED_RESULTS.get(self.method)
        if result is not None and not self._open_ids:
            self._stop(encode(Success(self.id, result)))

    def _stop(self, answer: bytes) -> None:
        self._canceled_answer = answer
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> bytes:
        try:
            return self._answer(await self._chain(0, self._message.value))
        except Exception as error:  # noqa: BLE001 - the boundary to the middleware's code
            return self._failure(error)

    def _finish(self, task: "asyncio.Task[bytes]") -> None:
        # A callback, because a task that is canceled before its first step runs no code.
        canceled = self._canceled_answer or encode_failure(self.id, RequestCancelled())
        self.flow.source.send(canceled if task.cancelled() else task.result())
        self.flow.proxy.calls.discard(self)
        self._release()

    async def _chain(self, position: int, value: Any) -> Any:
        """Run the hooks from a position on; behind the last one is the peer."""
        hooks = self._route.hooks
        if position == len(hooks):
            return await self._forward(value)
        try:
            return await _awaited(
                hooks[position], value, lambda following: self._chain(position + 1, following)
            )
        except Exception:
            self._failed_hook = self._failed_hook or hook_name(hooks[position])
            raise

    async def _forward(self, value: Any) -> Any:
        """Send the request to the peer and return its typed result. Raises RpcError, ConnectionClosed."""
        proxy = self.flow.proxy
        id = self.id if not self._forwarded else proxy.new_id()
        if id == self.id and self._message.is_unchanged(value):
            frame = self._frame
        else:
            envelope = {"jsonrpc": "2.0", "id": id, "method": self.method}
            frame = self._message.changed_frame(value, envelope)
        self._forwarded = True
        self._open_ids.append(id)
        back = self.flow.opposite
        try:
            answer = back.expect(id, self.method, self.session_id, on_response=lambda: self._hold(back))
            self.flow.target.send(frame)
            self._release()
            response, answer_frame = await back.wait(id, answer)
        finally:
            self._open_ids.remove(id)
        try:
            if response.error is not None:
                raise response.error
            message = back.reader.result(self._route.method, response.result, answer_frame)
        except AccordError as error:
            self._peer_error = (error, answer_frame if id == self.id else b"")
            raise
        self._response = (message, answer_frame, id)
        return message.value

    def _answer(self, value: Any) -> bytes:
        if self._response is None:
            return encode_result(self.id, value, self._route.method.result)
        message, frame, id = self._response
        if id == self.id and message.is_unchanged(value):
            return frame
        return message.changed_frame(value, {"jsonrpc": "2.0", "id": self.id})

    def _failure(self, error: Exception) -> bytes:
        from_peer, frame = self._peer_error or (None, b"")
        if error is from_peer and frame:
            return frame
        if error is not from_peer and (not isinstance(error, RpcError) or isinstance(error, InternalError)):
            self.flow.proxy.report(f"{self._failed_hook or self.method} failed: {describe(error)}")
        return encode_failure(self.id, to_rpc_error(error))

    def _hold(self, flow: "Flow") -> None:
        self._held.append((flow, flow.lanes.block(self.session_id)))

    def _release(self) -> None:
        held, self._held = self._held, []
        for flow, lane in held:
            flow.lanes.unblock(lane)


def describe(error: Exception) -> str:
    """An error of a middleware's code, on one line."""
    if isinstance(error, RpcError):
        return one_line(str(error.data or error.message))
    return one_line(f"{type(error).__name__}: {error}")


async def _awaited(hook: HookFunction, value: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    result = hook(value, call_next)
    return await result if hasattr(result, "__await__") else result
