"""Agents with the dialects and the nonstandard behavior of real agents.

Rows are those of the table in `accord.schema.dialects`. `Dialects` puts the text `row N` into the update of
row N, so that a test sees which one was lost.
"""

from typing import Any, ClassVar, Final

from accord.testing.hostile.hostile_agent import PERMISSION_OPTIONS, HostileAgent, Json

CLIENT_ROWS: Final = frozenset(
    {1, 2, 24, 25, 26, 28, 30, 32, 33, 34, 36, 37, 38, 43, 46, 50, 58, 59, 66, 72, 201, 202, 204, 206, 208}
)
"""Rows that clients use, that no message shows, or that are about what an agent accepts."""

UPDATE_ROWS: Final = (6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19, 55, 56, 57, 69, 73, 101, 102, 109, 301)
"""Rows of session updates; each update contains the text `row N`."""

DIALECT_ROWS: Final = frozenset(
    {
        *UPDATE_ROWS,
        *(3, 4, 15, 20, 21, 22, 23, 27, 29, 35, 39, 40, 41, 42, 44, 45, 47, 48, 49, 51, 52, 53, 54),
        *(60, 61, 62, 63, 64, 65, 67, 68, 70, 71, 74, 103, 104, 115, 203, 205, 207),
    }
)
"""All rows that `dialects` uses."""

ROWS_OF_OTHER_AGENTS: Final = {
    5: "unknown-stop", 10: "dies-after-answer", 31: "ends-after-cancel", 75: "runs-rejections",
}  # fmt: skip
"""Rows that another behavior uses."""


class Dialects(HostileAgent):
    """Uses every dialect that an agent can use, in one connection and one turn."""

    name = "dialects"
    capabilities: ClassVar[Json] = {"loadSession": True, "auth": {"status": True}}  # row 207

    def initialize(self, request: Json) -> None:
        """Rows 39, 40, 68, 70, 71, 73, 205, 207, 301."""
        methods: list[Json] = [
            {"id": "plain", "name": "Row 70"},
            {"id": "label", "label": "Row 73"},
            {"type": "env_var", "id": "variable", "name": "Row 205", "vars": [{"name": "HOSTILE_KEY"}]},
        ]
        result: Json = {
            "protocol_version": request["params"]["protocolVersion"],
            "agent_capabilities": self.capabilities,
            "authMethods": methods,
            "_meta": {"hostile.example": {"ask_user": True}},
        }
        self.reply(request, result)

    def new_session(self, request: Json) -> None:
        """Rows 41, 42, 47, 63, 301."""
        self.update("user_message_chunk", content={"type": "text", "text": "row 63, long ago"})
        options = [
            {"configId": "effort", "type": "select", "currentValue": None, "options": [{"value": "low"}]}
        ]
        models = {"currentModelId": "m1", "availableModels": [{"modelId": "m1", "name": "M1"}]}
        modes = {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
        }
        self.reply(
            request, {"session_id": self.session, "configOptions": options, "models": models, "modes": modes}
        )

    def prompt(self, request: Json) -> None:
        """The rows of a turn; its answer has rows 3, 4 and 65."""
        self.send_messages()
        self.send_tool_calls()
        self.send_odd_requests()
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
        self.reply(
            request, {"sessionId": self.session, "stopReason": "tool_use", "content": "row 3", "usage": usage}
        )

    def other(self, request: Json) -> None:
        """Rows 44, 45, 48, 49, 51, 52, 53, 54, 60, 61, 62, 103, 104."""
        method: Any = request.get("method")
        params: Json = request.get("params") or {}
        if "id" not in request:
            return
        if "_meta" in params:
            self.refuse(request, -32602, "row 48: _meta is unknown")
        elif method == "session/set_mode":
            self.reply(request, {"modeId": params.get("modeId"), "meta": {"row": 49}})
        elif method == "session/set_config_option":
            if params.get("configId") != "effort":
                self.refuse(request, -32600, "row 45: only one option")
            else:
                self.reply(request, {})
        elif method == "session/load" and params.get("sessionId") != "s-old":
            self.refuse(request, -32602, "Invalid params", data={"session_id": "Session not found"})
        elif method == "session/load":
            self.reply(request, None)
            self.session = "s-old"
            self.update("agent_message_chunk", content={"type": "text", "text": "row 62, late"})
        elif method in ("session/close", "session/set_model", "authenticate"):
            self.reply(request, None)
        else:
            self.refuse(request, -32002, "row 52: not initialised")

    def send_update(self, update: Json, **root: Any) -> None:
        self.notify("session/update", {"sessionId": self.session, "update": update, **root})

    def send_messages(self) -> None:
        """Rows 6 to 9, 18, 19, 55 to 57, 73, 74, 101, 301."""
        session = self.session
        text = {"type": "text"}
        self.notify(
            "session/update",
            {
                "sessionId": session,
                "sessionUpdate": "agent_message_chunk",
                "content": {**text, "text": "row 6 "},
            },
        )
        self.send_update({"type": "agent_message_chunk", "content": {**text, "text": "row 7 "}})
        self.send_update({"sessionUpdate": "AgentMessageChunk", "content": {**text, "text": "row 8 "}})
        self.send_update({"sessionUpdate": "agent_message_chunk", "text": "row 9 "})
        self.send_update({"sessionUpdate": "agent_message_chunk", "content": ["row 9", "a "]})
        self.send_update(
            {"sessionUpdate": "agent_thought_chunk", "content": "row 19: out of memory, compacting"}
        )
        flat = {"type": "embedded_resource", "uri": "file:///row-55", "text": "row 55"}
        self.send_update({"sessionUpdate": "agent_message_chunk", "content": flat})
        self.send_update(
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "TextContentBlock", "text": "row 56 "},
            }
        )
        link = {"type": "resource_link", "uri": "file:///row-57.txt"}
        self.send_update({"sessionUpdate": "agent_message_chunk", "content": link})
        self.notify(
            "session/update",
            {
                "session_id": session,
                "update": {"session_update": "agent_message_chunk", "content": {**text, "text": "row 301 "}},
            },
        )
        self.send_update({"sessionUpdate": "current_mode_update", "modeId": "code"})
        entry = {"content": "row 73", "priority": "High", "status": "inProgress"}
        self.send_update({"sessionUpdate": "plan", "entries": [entry]})
        self.send_update(
            {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "id": "p", "content": "row 74"}}
        )

    def send_tool_calls(self) -> None:
        """Rows 11 to 18, 69, 73, 102, 109."""
        for update in (
            {"sessionUpdate": "tool_call", "id": "c11", "name": "row 11", "status": "completed"},
            {"sessionUpdate": "tool_call", "toolCallId": "c12", "toolName": "row 12", "args": {"q": 1}},
            {"sessionUpdate": "tool_call", "toolCallId": "c13", "title": "row 13", "status": "in_progress"},
            {"type": "tool_call", "toolCallId": "c14", "title": "row 14", "raw_input": [1], "output": 2},
            {"sessionUpdate": "tool_call", "toolCallId": "c16", "title": "row 16", "kind": "command"},
            {"sessionUpdate": "tool_call", "toolCallId": "c17", "title": "row 17", "status": "in_progress"},
            {"sessionUpdate": "tool_call", "toolCallId": "c69", "title": "row 69", "rawInput": "no object"},
            {"kind": "toolCall", "toolCallId": "c73", "label": "row 73, a label", "status": "inProgress"},
            {"sessionUpdate": "tool_call", "toolCallId": "c109", "title": "row 109", "status": "cancelled"},
        ):
            self.send_update(update)
        flat = {"sessionId": self.session, "sessionUpdate": "tool_call_update", "toolCallId": "c13"}
        self.notify("session/update", {**flat, "result": "row 13, the result"})
        self.notify("session/update", {**flat, "error": "row 13, the error"})
        for part in ("first ", "second"):
            self.send_update(
                {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": "c17",
                    "content": [{"type": "text", "text": f"row 102, row 18: {part}"}],
                }
            )

    def send_odd_requests(self) -> None:
        """Rows 20 to 23, 27, 29, 35, 64, 67, 115, 203. The answers go to the log."""
        options = [
            {"optionId": "allow", "name": "Allow", "kind": "allowOnce"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ]
        call = {"toolCallId": "c11"}
        self.notify(
            "session/request_permission", {"sessionId": self.session, "toolCall": call, "options": options}
        )
        odd: dict[str, tuple[str, Json]] = {
            "row 21": ("request_permission", {"toolCall": call, "options": options}),
            "row 22": (
                "session/request_permission",
                {"permissionId": "p1", "toolName": "row 22", "args": {}, "description": "May I?"},
            ),
            "row 23": (
                "session/request_permission",
                {"toolCall": {"title": "row 23", "kind": "execute", "input": {}}, "options": options},
            ),
            "row 35": ("terminal/create", {"command": "/bin/true", "env": {"ROW": "35"}}),
            "row 67": ("_agentao.cn/ask_user", {"question": "Who are you?"}),
            "row 115": (
                "session/elicitation",
                {
                    "mode": "form",
                    "message": "row 115",
                    "requestedSchema": {
                        "type": "object",
                        "properties": {"id": {"type": "string", "format": "uuid"}},
                    },
                },
            ),
        }
        for row, (method, params) in odd.items():
            self.log({row: self.ask(method, params)})


class DialectStops(HostileAgent):
    """Ends its turn with an old spelling: `canceled`, without a cancel."""

    name = "dialect-stops"

    def prompt(self, request: Json) -> None:
        """Row 73 in the result."""
        self.say("I stopped.")
        self.reply(request, {"stop_reason": "canceled"})


class RealWorldQuirks(HostileAgent):
    """Has every habit of real agents that fits into one good turn."""

    name = "wild"

    def initialize(self, request: Json) -> None:
        self.write(b"wild-agent 1.2.3 starting up\n")
        self.reply(request, {"protocolVersion": request["params"]["protocolVersion"]})

    def new_session(self, request: Json) -> None:
        self.update(
            "available_commands_update", availableCommands=[{"name": "early", "description": "Came early"}]
        )
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
        models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]}
        self.reply(request, {"sessionId": self.session, "modes": modes, "models": models})

    def prompt(self, request: Json) -> None:
        self.say("Let me see. ")
        self.send_late_tool_calls()
        self.send_unfinished_tool_calls()
        self.send_odd_request_ids()
        self.send_own_methods()
        self.read_missing_file()
        self.say("That is all.")
        self.finish(request)
        self.update("usage_update", used=53_000, size=200_000)
        self.update("session_info_update", title="A title that came late")
        self.update("tool_call_update", toolCallId="forgotten", status="completed")

    def other(self, request: Json) -> None:
        if request.get("method") in ("session/set_config_option", "session/set_mode", "session/set_model"):
            self.reply(request, {})
        else:
            super().other(request)

    def send_late_tool_calls(self) -> None:
        self.update("tool_call_update", toolCallId="late", status="in_progress")
        self.update("tool_call_update", toolCallId="late", status="completed")
        self.update("tool_call", toolCallId="late", title="Announced late", kind="read", status="pending")

    def send_unfinished_tool_calls(self) -> None:
        self.update("tool_call", toolCallId="bare", title="Neither kind nor status")
        self.update("tool_call", toolCallId="forgotten", title="Never finished", status="in_progress")
        terminal = {"type": "terminal", "terminalId": "of-nobody"}
        self.update("tool_call", toolCallId="tty", title="A terminal of nobody", content=[terminal])

    def send_odd_request_ids(self) -> None:
        for number, id in enumerate((0, "0", "9b2edc2b-1111-4222-8333-444455556666", "req:7", -1)):
            call = {"toolCallId": f"toolu_{number}", "title": f"Question {number}", "kind": "read"}
            self.ask("session/request_permission", {"toolCall": call, "options": PERMISSION_OPTIONS}, id=id)
        self.say("Five questions. ")

    def send_own_methods(self) -> None:
        self.notify("wild/telemetry", {"x": 1})
        self.notify("_wild/thing", {})
        for method in ("wild/ask", "_wild/ask"):
            self.report(method, self.ask(method, {}))

    def read_missing_file(self) -> None:
        self.report("missing file", self.ask("fs/read_text_file", {"path": f"{self.cwd}/not-there.txt"}))


class EndsOnRejection(HostileAgent):
    """Ends the turn as `cancelled`, without text, when a permission is refused."""

    name = "ends-on-rejection"

    def prompt(self, request: Json) -> None:
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        answer = self.ask("session/request_permission", {"toolCall": call, "options": PERMISSION_OPTIONS})
        if self.outcome(answer).get("optionId") not in ("yes", "always"):
            self.finish(request, "cancelled")
        else:
            self.say("Deleted.")
            self.finish(request)


class RunsRejections(HostileAgent):
    """Takes every selected option for an approval, as iac-code does."""

    name = "runs-rejections"

    def initialize(self, request: Json) -> None:
        info = {"name": "iac-code", "version": "0.16.0"}
        version = request["params"]["protocolVersion"]
        self.reply(request, {"protocolVersion": version, "agentInfo": info})

    def prompt(self, request: Json) -> None:
        """Row 75."""
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        answer = self.ask("session/request_permission", {"toolCall": call, "options": PERMISSION_OPTIONS})
        self.say("Deleted." if self.outcome(answer).get("outcome") == "selected" else "Kept.")
        self.finish(request)


class EndsAfterCancel(HostileAgent):
    """Answers a canceled turn with `end_turn`, after more updates."""

    name = "ends-after-cancel"

    def prompt(self, request: Json) -> None:
        self.say("Working. ")
        self.wait_for_cancel()
        self.say("Just this.")
        self.finish(request)


BEHAVIORS: Final[tuple[type[HostileAgent], ...]] = (
    Dialects, DialectStops, RealWorldQuirks, EndsOnRejection, RunsRejections, EndsAfterCancel,
)  # fmt: skip
