"""A model agent of version 2 in memory: keeps every rule, or breaks exactly one."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.check.model_agent.connection import Connection, ErrorResponse, FrameReceiver

from accord.check.check_script import AgentCheckScript
from accord.check.program_launch import StartOptions
from accord.wire.memory_transport import MemoryTransport, memory_pair

Message = dict[str, Any]

SCRIPT = AgentCheckScript(
    name="the model agent of version 2",
    login="key",
    acts={
        "talk": "say",
        "plan": "plan",
        "read": "read {file}",
        "write": "write {file} {text}",
        "permission": "ask-and-write {file}",
        "run": "run",
        "busy": "busy",
        "ask": "form",
    },
)


class Session:
    """A session, which outlives its connection."""

    def __init__(self, id: str, cwd: str) -> None:
        self.id = id
        self.cwd = cwd
        self.messages: list[tuple[str, str, str]] = []
        """Kind, id and text of each message."""
        self.color = "red"
        self.work: asyncio.Task[None] | None = None
        self.held: dict[Any, asyncio.Future[None]] = {}
        """Prompts that wait for the end of the work, by request id."""
        self.turns = 0
        self.background: list[Message] | None = None
        """Work that goes on; None before the first."""


class ModelAgentV2(Connection):
    """Serves one connection."""

    def __init__(self, transport: MemoryTransport, broken: Any, store: dict[str, Session]) -> None:
        super().__init__(transport, broken)
        self.transport = transport
        self.store = store
        self.client: Message = {}
        self.initialized = False
        self.used = False
        self.signed_in = False
        self.numbers = 0

    def start(self) -> None:
        self.transport.start(FrameReceiver(self))

    # -- receiving

    def handle_line(self, data: bytes) -> None:
        message = json.loads(data)
        if isinstance(message, list):
            self.error(None, -32600)
            if self.breaks("v2-framing.batch-refused") and message:
                self.send({"id": message[0]["id"], "result": {}})
        elif "method" not in message:
            future = self._pending_answers.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" not in message:
            self.handle_notification(message["method"], message.get("params") or {})
        elif (message["id"] is None or isinstance(message["id"], float)) and not self.breaks(
            "v2-framing.invalid-id"
        ):
            self.error(None, -32600)
        elif message["id"] is None:
            self.send({"method": "_note"})
        else:
            self.spawn(self.serve(message))

    async def serve(self, message: Message) -> None:
        await super().serve(message)
        if message["method"] == "_check/id" and self.breaks("v2-framing.agent-one-answer"):
            self.send({"id": message["id"], "result": {}})

    def send(self, message: Message) -> None:
        if self.breaks("v2-framing.agent-only-messages") and message.get("id") == -7:
            message = {**message, "jsonrpc": "1.0"}
        if self.breaks("v2-framing.agent-returns-id") and message.get("id") == -7:
            message = {**message, "id": "-7"}
        if self.breaks("v2-framing.agent-error-members") and "error" in message:
            message = {**message, "error": {**message["error"], "message": ""}}
        super().send(message)

    def handle_notification(self, method: str, params: Any) -> None:
        if self.breaks("v2-framing.agent-silent-on-notification") and method == "$/note":
            self.error(None, -32601)
        if method == "session/cancel" and self.initialized:
            session = self.store.get(params["sessionId"])
            if session is not None:
                for held in session.held.values():
                    held.set_exception(ErrorResponse(-32800))
                if session.work is not None:
                    session.work.cancel()
        elif method == "$/cancel_request":
            if self.breaks("v2-cancel.unknown-request"):
                self.error(None, -32602)
            for session in self.store.values():
                held = session.held.get(params["requestId"])
                if held is not None and not self.breaks("v2-cancel.held-prompt"):
                    held.set_exception(ErrorResponse(-32800))

    # -- requests

    async def call(self, method: str, params: Any, id: Any) -> Any:
        params = params or {}
        if method == "initialize":
            return self.initialize(params)
        if not self.initialized and not self.breaks("v2-initialize.requests-before"):
            raise ErrorResponse(-32600)
        self.used = True
        handler = getattr(self, method.replace("/", "_").lstrip("_"), None)
        if method.startswith("_"):
            if self.breaks("v2-framing.agent-custom-request") and method == "_check/x":
                await asyncio.Event().wait()
            raise ErrorResponse(-32601)
        if handler is None:
            if self.breaks("v2-framing.agent-unknown-method"):
                return {}
            raise ErrorResponse(-32601)
        if params.get("_meta") and self.breaks("v2-framing.meta-accepted"):
            raise ErrorResponse(-32602)
        return await handler(params, id)

    def initialize(self, params: Message) -> Message:
        version = params["protocolVersion"]
        if self.used and not self.breaks("v2-initialize.repeated"):
            raise ErrorResponse(-32600)
        if version < 2:
            data = {"requested": version, "supported": [2]}
            raise ErrorResponse(-32022, data={} if self.breaks("v2-initialize.older-version") else data)
        self.initialized = True
        self.client = params.get("capabilities") or {}
        answered = version if self.breaks("v2-initialize.newer-version") else 2
        if self.breaks("v2-initialize.version") and version == 2 and "capabilities" not in params:
            answered = 1
        methods = [{"methodId": "key", "name": "Key", "type": "agent"}]
        if "auth" in self.client or self.breaks("v2-auth.terminal-needs-capability"):
            methods.append({"methodId": "terminal", "name": "Terminal", "type": "terminal"})
        if self.breaks("v2-auth.method-members"):
            methods.append(methods[0])
        boolean = self.breaks("v2-initialize.agent-capability-objects")
        return {
            "protocolVersion": answered,
            "info": {
                "name": "" if self.breaks("v2-initialize.agent-info") else "model",
                "version": "1",
            },
            "capabilities": {
                "session": {"prompt": {}, "delete": {}, "additionalDirectories": True if boolean else {}}
            },
            "authMethods": methods,
        }

    async def auth_login(self, params: Message, id: Any) -> Any:
        if params["methodId"] != "key" and not self.breaks("v2-auth.unknown-method"):
            raise ErrorResponse(-32602)
        self.signed_in = not (self.breaks("v2-auth.login") and self.store_is_empty())
        return {}

    def store_is_empty(self) -> bool:
        return not self.store

    async def auth_logout(self, params: Message, id: Any) -> Any:
        return None if self.breaks("v2-auth.logout") else {}

    # -- sessions

    async def session_new(self, params: Message, id: Any) -> Any:
        if not self.signed_in and self.breaks("v2-auth.login"):
            raise ErrorResponse(-32000)
        for server in params.get("mcpServers") or []:
            if server["type"] not in ("stdio", "http") and not self.breaks("v2-session.mcp-transport"):
                raise ErrorResponse(-32602)
        if params.get("additionalDirectories") and self.breaks("v2-session.additional-folders"):
            raise ErrorResponse(-32602)
        session_id = "s" if self.breaks("v2-session.new") else f"s{len(self.store) + 1}"
        session = self.store[session_id] = Session(session_id, params["cwd"])
        return {"sessionId": session_id, "configOptions": self.options(session)}

    def options(self, session: Session) -> list[Message]:
        choices = [{"value": color, "name": color} for color in ("red", "blue")]
        color = {"type": "select", "configId": "color", "name": "Color", "options": choices}
        return [{**color, "currentValue": session.color}]

    async def session_set_config_option(self, params: Message, id: Any) -> Any:
        session = self.session(params)
        known = params["configId"] == "color" and params["value"] in ("red", "blue")
        if not known:
            if self.breaks("v2-session.option-unknown"):
                return {"configOptions": self.options(session)}
            raise ErrorResponse(-32602)
        if not self.breaks("v2-session.option-set"):
            session.color = params["value"]
        return {"configOptions": self.options(session)}

    def session(self, params: Message) -> Session:
        session = self.store.get(params["sessionId"])
        if session is None:
            data = {"sessionId": params["sessionId"]}
            raise ErrorResponse(-32002, data=None if self.breaks("v2-session.unknown") else data)
        return session

    async def session_list(self, params: Message, id: Any) -> Any:
        cwd = None if self.breaks("v2-session.list") else params.get("cwd")
        found = [one for one in self.store.values() if cwd in (None, one.cwd)]
        return {"sessions": [{"sessionId": one.id, "cwd": one.cwd} for one in found]}

    async def session_resume(self, params: Message, id: Any) -> Any:
        session = self.session(params)
        if self.breaks("v2-session.resume") and "replayFrom" not in params:
            raise ErrorResponse(-32601)
        replay = params.get("replayFrom")
        if replay and replay["type"] != "start" and not self.breaks("v2-session.replay-cursor"):
            raise ErrorResponse(-32602)
        if not self.breaks("v2-session.resume-state"):
            self.state(session, "idle")
        if replay and not self.breaks("v2-session.replay"):
            self.replay(session)
        elif replay:
            self.spawn(self.replay_later(session))
        return {"configOptions": self.options(session)}

    async def replay_later(self, session: Session) -> None:
        await asyncio.sleep(0)
        self.replay(session)

    def replay(self, session: Session) -> None:
        for kind, id, text in session.messages:
            shown_id = f"again-{id}" if self.breaks("v2-session.replay-ids") else id
            if not self.breaks("v2-session.replay-whole-message"):
                self.update(session, kind, messageId=shown_id, content=[])
            content = {"type": "text", "text": text}
            self.update(session, f"{kind}_chunk", messageId=shown_id, content=content)

    async def session_close(self, params: Message, id: Any) -> Any:
        session = self.store.get(params["sessionId"])
        if session is None:
            if self.breaks("v2-session.close-unknown"):
                raise ErrorResponse(-32603)
            return {}
        work, session.work = session.work, None
        if work is not None and not self.breaks("v2-session.close"):
            work.cancel()
            await asyncio.wait([work])
        if self.breaks("v2-session.close-silent") and session.turns:
            self.spawn(self.replay_later(session))
        return {}

    async def session_delete(self, params: Message, id: Any) -> Any:
        if not self.breaks("v2-session.delete"):
            self.store.pop(params["sessionId"], None)
        return {}

    async def tool_call_cancel(self, params: Message, id: Any) -> Any:
        if self.breaks("v2-cancel.unknown-entity"):
            return {}
        raise ErrorResponse(-32602)

    terminal_cancel = tool_call_cancel

    # -- turns

    def update(self, session: Session, kind: str, /, **members: Any) -> None:
        shown_id = "nope" if self.breaks("v2-update.session") and kind == "agent_message" else session.id
        params = {"sessionId": shown_id, "update": {"sessionUpdate": kind, **members}}
        self.notify("session/update", params)

    def state(self, session: Session, state: str, **more: Any) -> None:
        if session.background is not None:
            more["background"] = session.background
            if self.breaks("v2-update.background"):
                more["background"] = [{"type": "terminal", "terminalId": "never-announced"}]
        self.update(session, "state_update", state=state, **more)

    async def session_prompt(self, params: Message, id: Any) -> Any:
        session = self.session(params)
        kinds = {block["type"] for block in params["prompt"]}
        if kinds - {"text", "resource_link"} and not self.breaks("v2-prompt.unsupported-block"):
            raise ErrorResponse(-32602)
        if "resource_link" in kinds and self.breaks("v2-prompt.link-block"):
            raise ErrorResponse(-32602)
        if session.work is not None and self.breaks("v2-prompt.while-busy"):
            raise ErrorResponse(-32600)
        if session.work is not None:
            await self.hold(session, id)
        self.numbers += 1
        same = self.breaks("v2-prompt.distinct-ids")
        message_id = f"{session.id}-{0 if same else len(session.messages)}"
        text = params["prompt"][0]["text"]
        if not self.breaks("v2-prompt.user-message"):
            content = [{"type": "text", "text": text}]
            self.update(session, "user_message", messageId=message_id, content=content)
        session.messages.append(("user_message", message_id, text))
        work = session.work = self.spawn(self.work(session, text.split()))
        if self.breaks("v2-cancel.no-error") and text == "busy":
            await asyncio.wait([work])
            raise ErrorResponse(-32603)
        more = {"stopReason": "end_turn"} if self.breaks("v2-prompt.message-id") else {}
        return {"messageId": message_id, **more}

    async def hold(self, session: Session, id: Any) -> None:
        """Wait for the end of the work. Raises ErrorResponse if the prompt is withdrawn."""
        held = session.held[id] = asyncio.get_running_loop().create_future()
        try:
            await held
        finally:
            session.held.pop(id, None)

    async def work(self, session: Session, words: list[str]) -> None:
        session.turns += 1
        if not self.breaks("v2-prompt.running"):
            self.state(session, "running")
        reason = "end_turn"
        try:
            await getattr(self, f"do_{words[0].replace('-', '_')}")(session, *words[1:])
        except asyncio.CancelledError:
            reason = "end_turn" if self.breaks("v2-cancel.stop-reason") else "cancelled"
        session.work = None
        if self.breaks("v2-prompt.idle") and words[0] == "say":
            return
        if self.breaks("v2-prompt.stop-reason"):
            reason = "finished"
        self.state(session, "idle", stopReason=reason)
        if reason == "cancelled" and self.breaks("v2-cancel.no-state-after"):
            self.state(session, "idle")
        for held in list(session.held.values())[:1]:
            if not held.done():
                held.set_result(None)

    async def do_say(self, session: Session) -> None:
        id = f"{session.id}-a{len(session.messages)}"
        session.messages.append(("agent_message", id, "hello"))
        self.update(session, "agent_message", messageId=id, content=[])
        chunk = {"content": {"type": "text", "text": "hello"}}
        self.update(session, "agent_message_chunk", **chunk, messageId=id)
        if self.breaks("v2-update.message-id"):
            self.update(session, "agent_message_chunk", **chunk)
        if self.breaks("v2-framing.agent-custom-members"):
            self.update(session, "agent_message_chunk", **chunk, messageId=id, zzz=1)
        if self.breaks("v2-framing.agent-known-methods"):
            self.send_request("fs/read_text_file", {"sessionId": session.id, "path": "/x"})

    async def do_plan(self, session: Session) -> None:
        entries = [{"content": "look", "priority": "medium", "status": "pending"}]
        id = {} if self.breaks("v2-update.plan-id") else {"planId": "p"}
        self.update(session, "plan_update", plan={"type": "items", "entries": entries, **id})

    async def do_read(self, session: Session, file: str) -> None:
        title = {} if self.breaks("v2-update.tool-call-title") else {"title": f"read {file}"}
        kind = "reading" if self.breaks("v2-update.known-values") else "read"
        self.update(session, "tool_call_update", toolCallId="t1", status="in_progress", kind=kind, **title)
        if self.breaks("v2-update.tool-call-id"):
            self.update(session, "tool_call_content_chunk", content={"type": "terminal", "terminalId": "x"})
        self.update(session, "tool_call_update", toolCallId="t1", status="completed")

    async def do_write(self, session: Session, file: str, text: str) -> None:
        Path(session.cwd, file).write_text(text)

    async def do_run(self, session: Session) -> None:
        cwd = "relative" if self.breaks("v2-update.terminal") else session.cwd
        self.update(session, "terminal_update", terminalId="e1", command="true", cwd=cwd)
        self.update(session, "terminal_output_chunk", terminalId="e1", data="aGVsbG8=")
        session.background = [{"type": "terminal", "terminalId": "e1"}]
        self.state(session, "running")
        self.update(session, "terminal_update", terminalId="e1", exitStatus={"exitCode": 0})
        session.background = []

    async def do_busy(self, session: Session) -> None:
        self.update(session, "tool_call_update", toolCallId="b", title="busy", status="in_progress")
        await asyncio.Event().wait()

    async def do_form(self, session: Session) -> None:
        if "elicitation" not in self.client and not self.breaks("v2-permission.forms-need-capability"):
            return
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"sessionId": session.id, "mode": "form", "message": "Name?", "requestedSchema": schema}
        await self.send_request("elicitation/create", params)

    async def do_ask_and_write(self, session: Session, file: str) -> None:
        if not self.breaks("v2-prompt.requires-action"):
            self.state(session, "requires_action")
        options = [
            {"optionId": "a", "name": "Allow", "kind": "allow_once"},
            {"optionId": "r", "name": "Reject", "kind": "reject_once"},
        ]
        if self.breaks("v2-permission.members"):
            del options[0]["name"]
        params = {"sessionId": session.id, "title": f"write {file}", "options": options}
        asking = self.send_request("session/request_permission", params)
        id = f"model-{self._request_count}"
        try:
            answer = await asking
        except asyncio.CancelledError:
            if not self.breaks("v2-cancel.permission-withdrawn"):
                self.notify("$/cancel_request", {"requestId": id})
            raise
        if not self.breaks("v2-prompt.requires-action"):
            self.state(session, "running")
        outcome = answer["result"]["outcome"]
        allowed = outcome == {"outcome": "selected", "optionId": "a"}
        if self.breaks("v2-permission.not-offered"):
            allowed = outcome.get("optionId") != "r"
        if allowed or self.breaks("v2-permission.rejected"):
            Path(session.cwd, file).write_text("made\n")


class LaunchedModelAgent:
    """One model agent in memory."""

    def __init__(self, transport: MemoryTransport, agent: ModelAgentV2) -> None:
        self.transport = transport
        self.agent = agent
        self.stderr = ""

    async def close(self) -> str:
        await self.transport.aclose()
        await self.agent.aclose()
        return "it still ran" if self.agent.breaks("v2-framing.exits-at-end-of-input") else ""


class ModelLauncherV2:
    """Starts model agents that break one rule, or none."""

    def __init__(self, broken: Any = None) -> None:
        self.broken = broken
        self.stores: dict[Path, dict[str, Session]] = {}

    async def __call__(self, options: StartOptions) -> LaunchedModelAgent:
        ours, theirs = memory_pair()
        agent = ModelAgentV2(theirs, self.broken, self.stores.setdefault(options.home, {}))
        agent.start()
        return LaunchedModelAgent(ours, agent)
