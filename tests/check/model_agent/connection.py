"""The model agent's connection in raw JSON: sends, answers and requests, and can break a rule on purpose."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from accord.wire.transport import Frame, Transport, TransportEnd

Message = dict[str, Any]
Mutation = Callable[[Message], Message]


class ErrorResponse(Exception):
    """An error response."""

    def __init__(self, code: int, message: str = "refused", data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Connection:
    """Sends and receives whole messages. `broken` is the rule that the agent breaks, or None."""

    def __init__(self, transport: Transport, broken: Any = None, mutation: Mutation | None = None) -> None:
        self.broken = broken
        self.over = asyncio.Event()
        self._mutation = mutation
        self._transport = transport
        self._pending_answers: dict[Any, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._request_count = 0
        self.stopped = False

    def breaks(self, rule: Any) -> bool:
        return self.broken == rule

    # -- sending

    def send_raw(self, data: bytes) -> None:
        if not self.stopped:
            self._transport.send(data)

    def send(self, message: Message) -> None:
        message = {"jsonrpc": "2.0", **message}
        if self._mutation is not None:
            message = self._mutation(message)
        self.send_raw(json.dumps(message, ensure_ascii=False).encode())

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def send_request(self, method: str, params: Any) -> "asyncio.Future[Message]":
        """Send a request to the client. The returned future gets its answer."""
        self._request_count += 1
        id = f"model-{self._request_count}"
        future = self._pending_answers[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        return future

    async def ask(self, method: str, params: Any) -> Any:
        """Send a request to the client and return its result. Raises `ErrorResponse`."""
        answer = await self.send_request(method, params)
        if "error" in answer:
            raise ErrorResponse(answer["error"]["code"], "the client refused")
        return answer["result"]

    def stop_answering(self) -> None:
        """Ignore all messages and send none from now on."""
        self.stopped = True

    # -- receiving

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, bytes)
            if not self.stopped:
                self.handle_line(frame)

    def end(self) -> None:
        self.over.set()

    async def aclose(self) -> None:
        """Cancel all tasks, and the tasks that these start."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def handle_line(self, data: bytes) -> None:
        noisy = not data.strip() and self.breaks("fault-noise")
        if noisy or (len(data) > 1_000_000 and self.breaks("fault-huge")):
            self.stop_answering()
            return
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            if not self.breaks("framing.agent-survives-invalid-json"):
                self.error(None, -32700)
            return
        if isinstance(message, list):
            if self.breaks("framing.survives-batch"):
                self.stop_answering()
            else:
                self.error(None, -32600)
        elif not isinstance(message, dict) or ("method" not in message and "id" not in message):
            if not self.breaks("framing.survives-invalid-request"):
                self.error(None, -32600)
        elif "method" not in message:
            future = self._pending_answers.get(message["id"])
            if self.breaks("fault-reordered"):  # the oldest request gets it
                future = next((one for one in self._pending_answers.values() if not one.done()), future)
            if future is not None and not future.done():
                future.set_result(message)
            elif future is None and self.breaks("fault-unknown-ids"):
                self.stop_answering()
            elif future is not None and self.breaks("fault-twice"):
                self.handle_second_answer(message)
        elif "id" in message:
            self.spawn(self.serve(message))
        else:
            self.handle_notification(message["method"], message.get("params") or {})

    def spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def serve(self, message: Message) -> None:
        id = message["id"]
        try:
            result = await self.call(message["method"], message.get("params"), id)
        except ErrorResponse as error_response:
            self.error(id, error_response.code, error_response.data)
        else:
            self.send({"id": id, "result": result})

    def error(self, id: Any, code: int, data: Any = None) -> None:
        more = {} if data is None else {"data": data}
        self.send({"id": id, "error": {"code": code, "message": "refused", **more}})

    def handle_second_answer(self, message: Message) -> None:
        """Ignore a second answer."""

    async def call(self, method: str, params: Any, id: Any) -> Any:
        raise NotImplementedError

    def handle_notification(self, method: str, params: Any) -> None:
        raise NotImplementedError


class FrameReceiver:
    """Passes the frames of a transport to the connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def frames(self, frames: list[Frame]) -> None:
        self.connection.frames(frames)

    def ended(self, end: TransportEnd) -> None:
        self.connection.end()
