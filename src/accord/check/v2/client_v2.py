"""The connection to a client that speaks version 2, its agent's answers, and the fixture of one case."""

from itertools import count
from typing import Any, ClassVar, Final

from accord.check.checked_connection import Handler, result_reply
from accord.check.client.agent_responder import AgentResponder
from accord.check.client.client_fixture import PROMPT, ClientFixture, ClientTurn
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import RuleId
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message

AGENT_CAPABILITIES: Final[dict[str, Any]] = {
    "session": {
        "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
        "additionalDirectories": {},
    }
}
"""The capabilities of an agent that supports everything stable."""


class AgentResponderV2(AgentResponder):
    """The agent side of a case."""

    def __init__(self) -> None:
        super().__init__()
        self.initialize_result: dict[str, Any] = {
            "protocolVersion": 2,
            "info": {"name": "accord-check", "version": "1"},
            "capabilities": AGENT_CAPABILITIES,
        }
        self.handlers: dict[str, Handler] = {
            "initialize": lambda _: result_reply(self.initialize_result),
            "session/new": lambda _: result_reply({"sessionId": self.session, **self.session_result}),
            "session/resume": lambda _: result_reply(self.session_result),
            "session/list": lambda _: result_reply({"sessions": self.sessions}),
            "session/prompt": lambda _: None,
            **dict.fromkeys(("session/close", "session/delete"), lambda _: result_reply({})),
        }


class ClientV2(ClientUnderTest):
    """A connection to the client, as an agent that it started. A turn ends with the state `idle`."""

    answer_rule: ClassVar[RuleId] = "v2-framing.client-one-answer"
    info_member: ClassVar[str] = "info"
    capabilities_member: ClassVar[str] = "capabilities"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._numbers = count(1)

    @property
    def answered(self) -> set[Any]:
        """The ids of the client's requests that are answered."""
        return {line.id for line in self.lines if line.sender == "agent" and line.is_answer}

    def insert_prompt(self, prompt: WireLine) -> WireLine:
        """Answer the prompt, report its message, and start to work."""
        message_id = f"user-{prompt.id}"
        line = self.reply(prompt, {"result": {"messageId": message_id}})
        self.update("user_message", messageId=message_id, content=at(prompt.params, "prompt"))
        self.update("state_update", state="running")
        return line

    def send_text(self, text: str, **more: Any) -> WireLine:
        """Send a chunk of the agent's message, by default of a new one."""
        message_id = more.pop("messageId", f"agent-{next(self._numbers)}")
        content = {"type": "text", "text": text}
        return self.update("agent_message_chunk", content=content, messageId=message_id, **more)

    def end_turn(self, prompt: WireLine, reason: Any = "end_turn", **more: Any) -> WireLine:
        if prompt.id not in self.answered:
            self.insert_prompt(prompt)
        return self.update("state_update", state="idle", stopReason=reason, **more)


class ClientFixtureV2(ClientFixture):
    """The environment of one case."""

    client_type: ClassVar[type[ClientUnderTest]] = ClientV2
    responder_type: ClassVar[type[AgentResponder]] = AgentResponderV2

    async def start_turn(
        self, *actions: str, prompt: str = PROMPT, rule: RuleId | None = None, **values: Any
    ) -> ClientTurn:
        """Start the client, wait for its prompt and answer it, unless `inserted` is false."""
        inserted = values.pop("inserted", True)
        turn = await super().start_turn(*actions, prompt=prompt, rule=rule, **values)
        if inserted and isinstance(turn.client, ClientV2):
            turn.client.insert_prompt(turn.prompt)
        return turn

    async def check_record(self, client: ClientUnderTest) -> None:
        from accord.check.v2.wire_rules_v2 import check_client_v2

        await check_client_v2(client, self.notes)


def refusal(requested: Any) -> Message:
    """The error of an agent that does not speak the requested version."""
    data = {"requested": requested, "supported": [99]}
    return {"error": {"code": -32022, "message": "unsupported protocol version", "data": data}}
