"""A model client of version 2 in memory: keeps every rule, or breaks exactly one."""

import asyncio
import json
from typing import Any

from tests.check.model_client.launcher import MemoryPipe

from accord.check.check_script import ClientCheckScript
from accord.check.client.client_under_test import PipeHandler
from accord.check.program_launch import StartOptions
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.wire.process_tree import ProcessExit

Message = dict[str, Any]

SCRIPT = ClientCheckScript(
    name="the model client of version 2", cancels=True, acts={"allow": ("allow",), "ask": ("ask",)}
)


class TurnOver(Exception):
    """The client exits with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ModelClientV2:
    """Runs one turn and exits. Implements `LaunchedClient`."""

    pipe: MemoryPipe

    def __init__(self, options: StartOptions, broken: Any, clock: Clock) -> None:
        self.options = options
        self.broken = broken
        self.clock = clock
        self.output = ""
        self.exited: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.answers: dict[Any, asyncio.Future[Message]] = {}
        self.questions: set[Any] = set()
        self.text = ""
        self.task: asyncio.Task[None] | None = None

    def breaks(self, rule: str) -> bool:
        return self.broken == rule

    # -- the checker's view

    @property
    def stdout(self) -> str:
        return self.output

    @property
    def exit(self) -> ProcessExit | None:
        return self.exited.result() if self.exited.done() else None

    async def wait(self, seconds: float) -> bool:
        return await within(self.clock, seconds, self.exited)

    def interrupt(self) -> None:
        message: Message = {"method": "session/cancel", "params": {"sessionId": "check-1"}}
        self.send({**message, "id": "c"} if self.breaks("v2-cancel.client-notification") else message)

    async def end(self) -> bool:
        forced = not self.exited.done()
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        return forced

    # -- the connection

    def send(self, message: Message) -> None:
        version = "1.0" if self.breaks("v2-framing.client-only-messages") and "error" in message else "2.0"
        self.pipe.put(json.dumps({"jsonrpc": version, **message}).encode() + b"\n")

    async def ask(self, method: str, params: Message) -> Message:
        id = len(self.answers) + 1
        answer = self.answers[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        return await answer

    def receive(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" not in message:
            self.answers[message["id"]].set_result(message)
        elif "id" in message:
            self.answer(message)
        else:
            self.note(message["method"], message.get("params") or {})

    def answer(self, message: Message) -> None:
        id, method, params = message["id"], message["method"], message.get("params") or {}
        if self.breaks("v2-framing.client-returns-id") and id == 0:
            id = "0"
        if method == "session/request_permission":
            self.answer_question(id, params)
            return
        if method == "_check/x" and self.breaks("v2-framing.client-custom-request"):
            return
        if method.startswith("fs/") and self.breaks("v2-framing.client-unknown-method"):
            self.send({"id": id, "result": {"content": ""}})
            return
        text = "" if self.breaks("v2-framing.client-error-members") else "unknown method"
        self.send({"id": id, "error": {"code": -32601, "message": text}})
        if self.breaks("v2-framing.client-one-answer"):
            self.send({"id": id, "error": {"code": -32601, "message": text}})

    def answer_question(self, id: Any, params: Message) -> None:
        kind = params.get("subject", {}).get("type")
        silent = {None: "v2-permission.every-subject", "_nope": "v2-permission.unknown-subject"}.get(kind, "")
        if self.breaks(silent):
            self.send({"id": id, "error": {"code": -32602, "message": "not understood"}})
        elif "ask" in self.options.arguments:
            self.questions.add(id)
        else:
            chosen = "x 1" if not self.breaks("v2-permission.offered-option") else "yes"
            self.send({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": chosen}}})

    def note(self, method: str, params: Message) -> None:
        if method == "session/update":
            self.apply(params)
        elif method == "$/cancel_request" and params["requestId"] in self.questions:
            self.questions.discard(params["requestId"])
            outcome: Message = {"outcome": "cancelled"}
            if self.breaks("v2-cancel.withdrawn-permission"):
                outcome = {"outcome": "selected", "optionId": "x 1"}
            self.send({"id": params["requestId"], "result": {"outcome": outcome}})
        elif method == "$/note" and self.breaks("v2-framing.client-silent-on-notification"):
            self.send({"id": None, "error": {"code": -32601, "message": "unknown"}})

    def apply(self, params: Message) -> None:
        update = params["update"]
        kind, ours = update["sessionUpdate"], params["sessionId"] == "check-1"
        harmful = {
            "v2-update.unknown-kind": kind == "_nope",
            "v2-update.malformed": kind == "agent_message_chunk" and "content" not in update,
            "v2-update.other-session": not ours,
            "v2-prompt.unknown-state": update.get("state") == "_thinking",
        }
        if harmful.get(self.broken):
            self.stop(0)
        elif not ours:
            return
        elif kind == "agent_message_chunk" and "content" in update:
            separator = "\n" if self.breaks("v2-update.append") else ""
            if not (
                self.breaks("v2-prompt.early-updates") and 3 in self.answers and not self.answers[3].done()
            ):
                self.text += update["content"]["text"] + separator
        elif kind == "state_update" and update["state"] == "idle":
            failed = update.get("stopReason") == "error" and not self.breaks("v2-prompt.error-reason")
            if not (self.breaks("v2-prompt.unknown-reason") and update["stopReason"] == "_nope"):
                self.stop(1 if failed else 0)

    def stop(self, code: int) -> None:
        if not self.over.done():
            self.over.set_result(code)

    # -- the turn

    async def run(self) -> None:
        try:
            code = await self.turn()
        except TurnOver as over:
            code = over.code
        self.output += self.text
        self.pipe.close()
        self.exited.set_result(ProcessExit(code))

    async def turn(self) -> int:
        info = {"name": "" if self.breaks("v2-initialize.client-info") else "model", "version": "1"}
        form: Any = True if self.breaks("v2-initialize.client-capability-objects") else {}
        params: Message = {
            "protocolVersion": 2,
            "info": info,
            "capabilities": {"elicitation": {"form": form}},
        }
        if self.breaks("v2-framing.client-custom-members"):
            params["zzz"] = 1
        if self.breaks("v2-initialize.first"):
            self.send({"method": "_early"})
        answer = await self.ask("initialize", params)
        if "error" in answer:
            if self.breaks("v2-initialize.refused-version"):
                await asyncio.Event().wait()
            self.output += "the agent refuses version 2\n"
            return 3
        if answer["result"]["protocolVersion"] != 2:
            if not self.breaks("v2-initialize.answered-version"):
                self.output += "the agent does not speak version 2\n"
            return 3
        if self.breaks("v2-framing.client-known-methods"):
            self.send({"method": "session/set_mode", "params": {"sessionId": "x", "modeId": "y"}})
        if self.breaks("v2-auth.only-offered"):
            self.send({"id": "login", "method": "auth/login", "params": {"methodId": "key"}})
            self.answers["login"] = asyncio.get_running_loop().create_future()
        relative = self.breaks("v2-session.absolute-folder")
        await self.ask("session/new", {"cwd": "here" if relative else str(self.options.folder)})
        prompt = [{"type": "text", "text": self.options.prompt}]
        await self.ask("session/prompt", {"sessionId": "check-1", "prompt": prompt})
        if self.breaks("v2-prompt.waits-for-idle"):
            return 0
        return await self.over


class ModelLauncherV2:
    """Starts model clients that break one rule, or none."""

    can_choose_prompt = True

    def __init__(self, broken: Any = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.broken = broken
        self.clock = clock

    async def __call__(self, options: StartOptions, on_pipe: PipeHandler) -> ModelClientV2:
        client = ModelClientV2(options, self.broken, self.clock)
        client.pipe = MemoryPipe(client.receive, lambda: client.stop(5), write_is_frame=False)
        on_pipe(client.pipe)
        client.task = asyncio.get_running_loop().create_task(client.run())
        return client
