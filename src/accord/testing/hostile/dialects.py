"""An agent that speaks every dialect an agent can speak: the shapes of other documents, of early versions, and of habit.

What a client shows of it has a piece of text for each message row, `row 6` and so on, so that a test sees which one was lost.
"""

from typing import Any, ClassVar, Final

from accord.testing.hostile.agent import HostileAgent, Json

BY_CLIENTS: Final = frozenset(
    {1, 2, 24, 25, 26, 28, 30, 32, 33, 34, 36, 37, 38, 43, 46, 50, 58, 59, 66, 72, 201, 202, 204, 206, 208}
)
"""Rows that a client speaks, that no message shows, or that are about what an agent accepts."""

SHOWN: Final = (6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19, 55, 56, 57, 69, 73, 101, 102, 109, 301)
"""Rows of updates; the text of each comes with its number."""

SPOKEN: Final = frozenset(
    {
        *SHOWN,
        *(3, 4, 15, 20, 21, 22, 23, 27, 29, 35, 39, 40, 41, 42, 44, 45, 47, 48, 49, 51, 52, 53, 54),
        *(60, 61, 62, 63, 64, 65, 67, 68, 70, 71, 74, 103, 104, 115, 203, 205, 207),
    }
)
"""Every row that `dialects` speaks."""

BY_OTHERS: Final = {5: "unknown-stop", 10: "dies-after-answer", 31: "ends-after-cancel"}
"""Rows that another habit shows."""


class Dialects(HostileAgent):
    """Speaks every dialect of the table that an agent can speak, in one connection and one turn."""

    habit = "dialects"
    capabilities: ClassVar[Json] = {"loadSession": True, "auth": {"status": True}}  # row 207

    def initialize(self, asked: Json) -> None:
        """Rows 39, 40, 68, 70, 71, 73, 205, 207, 301: keys in another case, no agentInfo, methods without a type."""
        methods: list[Json] = [
            {"id": "plain", "name": "Row 70"},
            {"id": "label", "label": "Row 73"},
            {"type": "env_var", "id": "variable", "name": "Row 205", "vars": [{"name": "HOSTILE_KEY"}]},
        ]
        result: Json = {
            "protocol_version": asked["params"]["protocolVersion"],
            "agent_capabilities": self.capabilities,
            "authMethods": methods,
            "_meta": {"hostile.example": {"ask_user": True}},
        }
        self.reply(asked, result)

    def new_session(self, asked: Json) -> None:
        """Rows 41, 42, 47, 63, 301: modes beside a `models` object, options by `configId`, history before the answer."""
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
            asked, {"session_id": self.session, "configOptions": options, "models": models, "modes": modes}
        )

    def prompt(self, asked: Json) -> None:
        """All the rest, and an end of rows 3, 4 and 65."""
        self.speak()
        self.call_tools()
        self.ask_oddly()
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
        self.reply(
            asked,
            {"sessionId": self.session, "stopReason": "tool_use", "content": "row 3", "usage": usage},
        )

    def other(self, asked: Json) -> None:
        """What else a client may call: rows 44, 45, 48, 49, 51, 52, 53, 54, 60, 61, 62, 103, 104."""
        method: Any = asked.get("method")
        params: Json = asked.get("params") or {}
        if "id" not in asked:
            return
        if "_meta" in params:
            self.refuse(asked, -32602, "row 48: _meta is unknown")
        elif method == "session/set_mode":
            self.reply(asked, {"modeId": params.get("modeId"), "meta": {"row": 49}})
        elif method == "session/set_config_option":
            if params.get("configId") != "effort":
                self.refuse(asked, -32600, "row 45: only one option")
            else:
                self.reply(asked, {})
        elif method == "session/load" and params.get("sessionId") != "s-old":
            self.refuse(asked, -32602, "Invalid params", data={"session_id": "Session not found"})
        elif method == "session/load":
            self.reply(asked, None)
            self.session = "s-old"
            self.update("agent_message_chunk", content={"type": "text", "text": "row 62, late"})
        elif method in ("session/close", "session/set_model", "authenticate"):
            self.reply(asked, None)
        else:
            self.refuse(asked, -32002, "row 52: not initialised")

    # -- the turn -----------------------------------------------------------------------------------------------

    def send_update(self, update: Json, **root: Any) -> None:
        """An update in any shape at all."""
        self.notify("session/update", {"sessionId": self.session, "update": update, **root})

    def speak(self) -> None:
        """Messages: rows 6 to 9, 18, 19, 55 to 57, 73, 74, 101, 301."""
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

    def call_tools(self) -> None:
        """Tool calls: rows 11 to 18, 69, 73, 102, 109."""
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

    def ask_oddly(self) -> None:
        """Requests: rows 20 to 23, 27, 29, 35, 64, 67, 115, 203. What came back is told to the log."""
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
            self.note({row: self.ask(method, params)})


class DialectStops(HostileAgent):
    """Ends its turn in old spellings: `canceled` for a turn that nobody cancelled."""

    habit = "dialect-stops"

    def prompt(self, asked: Json) -> None:
        """Row 73 in the result."""
        self.say("I stopped.")
        self.reply(asked, {"stop_reason": "canceled"})


HABITS = (Dialects, DialectStops)
