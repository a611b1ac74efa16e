"""The connection of the model client: sending, receiving and serving. Rules are broken here or in
`request_handlers.py`.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.check.model_client.defects import MUTATIONS, crash_on_defect
from tests.check.model_client.messages import readable
from tests.check.model_client.request_handlers import ErrorResponse, RequestHandlers, Terminal

from accord.check.program_launch import StartOptions
from accord.clock import Clock
from accord.schema.codec import NotJson, parse_json

Message = dict[str, Any]


class Crash(Exception):
    """The process dies."""


class TurnFailed(Exception):
    """The turn failed. Holds the text to print and the exit code."""


class Connection:
    """A client's end of the connection, and the state of its session."""

    pipe: Any
    connect: Callable[..., Any]

    def __init__(self, task: StartOptions, broken: Any, lacks: tuple[str, ...], clock: Clock) -> None:
        self.task = task
        self.broken = broken
        self.lacks = lacks
        self.clock = clock
        self.folder = Path(task.folder)
        self.strict = "strict" in task.arguments and broken != "accord.client-strict-mode"
        self.output = ""
        self.session = ""
        self.children: set[str] = set()
        self.agent: Message = {}
        self.cancelled = asyncio.Event()
        self.logged_in = asyncio.Event()
        self.released: list[Terminal] = []
        self.handlers = RequestHandlers(self)
        self.calls: set[str] = set()
        self.prompting = False
        self.over = False
        self.opened = False
        self._last_method = ""
        self._interrupts = 0
        self._pending_answers: dict[Any, asyncio.Future[Any]] = {}
        self._request_ids: set[Any] = set()
        self._serving: dict[Any, asyncio.Task[None]] = {}
        self._failure: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._failure.add_done_callback(lambda broke: broke.cancelled() or broke.exception())

    def breaks(self, rule: Any) -> bool:
        return rule is not None and self.broken == rule

    def option(self, word: str) -> str:
        """The value of a command-line option, its name if it has no value, or an empty string."""
        for argument in self.task.arguments:
            name, _, value = argument.partition("=")
            if name == word:
                return value or name
        return ""

    def has(self, path: str) -> bool:
        found: Any = self.agent.get("agentCapabilities")
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found is True or isinstance(found, dict)

    # -- sending

    def crash(self) -> None:
        if not self._failure.done():
            self._failure.set_exception(Crash())
        self.pipe.close()
        raise Crash

    def send(self, message: Message) -> None:
        changed: Any = MUTATIONS.get(self.broken, lambda one: one)({"jsonrpc": "2.0", **message})
        if changed is None:
            return
        indent = 1 if self.breaks("framing.client-one-line") and "\\n" in json.dumps(message) else None
        text = json.dumps(changed, ensure_ascii=False, indent=indent)
        if self.breaks("framing.client-only-messages") and message.get("method") == "initialize":
            self.pipe.put(b"debug: hello\n")
        if self.breaks("framing.client-no-batch") and message.get("method") == "session/prompt":
            self.pipe.put(b"[]\n")
        if self.breaks("fault-slow") and len(self.pipe.unread_data) > 1000:
            return
        self.pipe.put(
            text.encode("ascii" if self.breaks("framing.client-utf8") else "utf-8", "replace") + b"\n"
        )

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    async def ask(self, method: str, params: Any) -> Any:
        id = len(self._request_ids) + 1
        self._request_ids.add(id)
        self._pending_answers[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        await asyncio.wait((self._pending_answers[id], self._failure), return_when=asyncio.FIRST_COMPLETED)
        if self._failure.done():
            self._failure.result()
        return self._pending_answers[id].result()

    def agent_ended(self, pipe: Any) -> None:
        """An agent has ended."""
        if pipe is not self.pipe:
            self.logged_in.set()
            return
        hangs = (self.breaks("framing.agent-dies") and self.prompting) or (
            self.breaks("fault-dies") and not self.prompting
        )
        if not hangs and not self._failure.done() and not self.over:
            self._failure.set_exception(TurnFailed("the agent has ended", 3))

    def receive(self, frame: bytes) -> None:
        with suppress(Crash):
            self._receive(frame)

    def _receive(self, frame: bytes) -> None:
        if self.breaks("fault-huge") and len(frame) > 1_000_000:
            self.crash()
        try:
            message = parse_json(frame)
        except NotJson:
            message = None
        if not isinstance(message, dict) or not ({"method", "result", "error"} & set(message)):
            if self.breaks("framing.client-survives-invalid-json") or self.breaks("fault-noise"):
                self._failure.set_exception(TurnFailed("", 1))
                self.pipe.close()
            return
        crash_on_defect(self, message)
        if "method" in message:
            self._handle_call(message)
        else:
            self._handle_answer(message)

    def _handle_answer(self, message: Message) -> None:
        id = message.get("id")
        future = (
            self._pending_answers.get(id) if isinstance(id, (int, str)) and not isinstance(id, bool) else None
        )
        if future is None or future.done():
            rule = "fault-twice" if future is not None else "fault-unknown-ids"
            if self.breaks(rule):
                self.crash()
            return
        if "error" in message:
            future.set_exception(ErrorResponse(message["error"]["code"], str(message["error"]["message"])))
            future.exception()
        elif self.breaks("fault-reordered") and self._last_method == "session/request_permission":
            pass  # it keeps waiting
        else:
            self.opened = self.opened or "sessionId" in (message.get("result") or {})
            future.set_result(message.get("result"))

    def _handle_call(self, message: Message) -> None:
        method, params, id = message.get("method"), message.get("params"), message.get("id")
        self._last_method = str(method)
        if "id" not in message:
            self._handle_notification(method, params)
        elif self.breaks("prompt.client-serves-during-turn") and self.prompting:
            pass  # once the turn is over
        else:
            self._serving[id] = asyncio.get_running_loop().create_task(self._serve(id, str(method), params))

    async def _serve(self, id: Any, method: str, params: Any) -> None:
        answer: Message
        try:
            answer = {"result": await self.handlers.serve(method, params)}
        except ErrorResponse as refused:
            answer = {"error": {"code": refused.code, "message": str(refused)}}
            if refused.data is not None:
                answer["error"]["data"] = refused.data
        except Crash:
            return
        except asyncio.CancelledError:
            if self.breaks("cancel-request.client-still-answered"):
                return
            answer = {
                "error": {
                    "code": -32603 if self.breaks("cancel-request.client-own-abort") else -32800,
                    "message": "cancelled",
                }
            }
        self.send({"id": str(id) if self.breaks("framing.client-returns-id") and id == 0 else id, **answer})
        if self.breaks("framing.client-one-answer") and method == "_test/x":
            self.send({"id": id, **answer})

    def _handle_notification(self, method: Any, params: Any) -> None:
        if method == "session/update":
            self._update(params)
        elif method == "$/cancel_request":
            task = self._serving.get(params["requestId"])
            if task is not None and not task.done():
                task.cancel()
        elif method == "auth/status_update" and self.breaks("auth-status.account-private"):
            self.output += str(params)
        elif method == "_test/n" and self.breaks("framing.client-silent-on-notification"):
            self.send({"id": None, "result": {}})

    def _update(self, params: Any) -> None:
        update = readable(params, repair=not self.strict and not self.breaks("dialects"))
        if update is None:
            return
        kind, text = update.get("sessionUpdate"), update.get("content")
        if kind == "agent_message_chunk" and isinstance(text, dict) and isinstance(text.get("text"), str):
            if not (self.breaks("accord.client-lone-surrogate") and "\ufffd" in text["text"]):
                self.output += text["text"]
        elif kind == "notice" and not self.breaks("notice.shown") and "notices" not in self.lacks:
            self.output += str(update.get("title"))
        elif kind == "subagent_update":
            self.children.add(update["sessionId"])

    async def aclose(self) -> None:
        """End the tasks and terminals that it started."""
        for task in self._serving.values():
            task.cancel()
        await asyncio.gather(*self._serving.values(), return_exceptions=True)
        for terminal in [*self.handlers.terminals.values(), *self.released]:
            terminal.kill()
            await terminal.wait()
