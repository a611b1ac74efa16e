"""Agents with the dialects and the nonstandard behavior of real agents."""

from typing import Any, ClassVar, Final

from accord.testing.hostile.hostile_agent import YES_NO, HostileAgent, Json

# MERGED testing.hostile.dialects: An agent that speaks every dialect an agent can speak: the shapes of other documents, of early versions, and of habit.
#
# What a client shows of it has a piece of text for each message row, `row 6` and so on, so that a test sees which one was lost.

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


DIALECTS = (Dialects, DialectStops)


# MERGED testing.hostile.wild: Agents as they were met in the wild: against the letter or the habit of the protocol, and yet in use. A client loses no turn.


class RealWorldQuirks(HostileAgent):
    """Has every habit that was seen in real agents and fits into one good turn."""

    habit = "wild"

    def initialize(self, asked: Json) -> None:
        """Echoes whatever version was asked for."""
        self.raw(b"wild-agent 1.2.3 starting up\n")
        self.reply(asked, {"protocolVersion": asked["params"]["protocolVersion"]})

    def new_session(self, asked: Json) -> None:
        """Updates before the answer that names the session; modes and models, each in its own way."""
        self.update(
            "available_commands_update", availableCommands=[{"name": "early", "description": "Came early"}]
        )
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
        models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]}
        self.reply(asked, {"sessionId": self.session, "modes": modes, "models": models})

    def prompt(self, asked: Json) -> None:
        """One after the other."""
        self.say("Let me see. ")
        self.unannounced()
        self.unfinished()
        self.odd_ids()
        self.own_methods()
        self.missing_file()
        self.say("That is all.")
        self.finish(asked)
        self.update("usage_update", used=53_000, size=200_000)
        self.update("session_info_update", title="A title that came late")
        self.update("tool_call_update", toolCallId="forgotten", status="completed")

    def other(self, asked: Json) -> None:
        """An option is set without the list in the result."""
        if asked.get("method") in ("session/set_config_option", "session/set_mode", "session/set_model"):
            self.reply(asked, {})
        else:
            super().other(asked)

    def unannounced(self) -> None:
        """A change of a call that nobody announced; the call comes after it and goes back to pending."""
        self.update("tool_call_update", toolCallId="late", status="in_progress")
        self.update("tool_call_update", toolCallId="late", status="completed")
        self.update("tool_call", toolCallId="late", title="Announced late", kind="read", status="pending")

    def unfinished(self) -> None:
        """Calls without kind and status, one that never ends, one with a terminal that nobody made."""
        self.update("tool_call", toolCallId="bare", title="Neither kind nor status")
        self.update("tool_call", toolCallId="forgotten", title="Never finished", status="in_progress")
        terminal = {"type": "terminal", "terminalId": "of-nobody"}
        self.update("tool_call", toolCallId="tty", title="A terminal of nobody", content=[terminal])

    def odd_ids(self) -> None:
        """Questions for calls that nobody knows, under ids of every kind; silence after a rejection."""
        for number, id in enumerate((0, "0", "9b2edc2b-1111-4222-8333-444455556666", "req:7", -1)):
            call = {"toolCallId": f"toolu_{number}", "title": f"Question {number}", "kind": "read"}
            self.ask("session/request_permission", {"toolCall": call, "options": YES_NO}, id=id)
        self.say("Five questions. ")

    def own_methods(self) -> None:
        """Notifications and requests of its own, with and without an underscore."""
        self.notify("wild/telemetry", {"x": 1})
        self.notify("_wild/thing", {})
        for method in ("wild/ask", "_wild/ask"):
            self.report(method, self.ask(method, {}))

    def missing_file(self) -> None:
        """Reads a file that is not there, to find out whether it may be made."""
        self.report("missing file", self.ask("fs/read_text_file", {"path": f"{self.cwd}/not-there.txt"}))


class EndsOnRejection(HostileAgent):
    """Ends the turn as `cancelled`, without a word, when a permission is refused."""

    habit = "ends-on-rejection"

    def prompt(self, asked: Json) -> None:
        """A no is the end."""
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        answer = self.ask("session/request_permission", {"toolCall": call, "options": YES_NO})
        if self.outcome(answer).get("optionId") not in ("yes", "always"):
            self.finish(asked, "cancelled")
        else:
            self.say("Deleted.")
            self.finish(asked)


class EndsAfterCancel(HostileAgent):
    """Answers a cancelled turn with `end_turn`, after some more updates."""

    habit = "ends-after-cancel"

    def prompt(self, asked: Json) -> None:
        """As if nothing had happened."""
        self.say("Working. ")
        self.wait_for_cancel()
        self.say("Just this.")
        self.finish(asked)


REAL_WORLD = (RealWorldQuirks, EndsOnRejection, EndsAfterCancel)


BEHAVIORS: Final = (
    *DIALECTS,
    *REAL_WORLD,
)
