"""The connection to an agent that speaks version 2, its turns, and the fixture of one case."""

from typing import Any, ClassVar, Final

from accord import __version__
from accord.check.agent.agent_fixture import NO_PERMISSION_REQUEST, AgentFixture
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.checked_connection import CallAnswer, ConnectionOver
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message

CLIENT_CAPABILITIES: Final[dict[str, Any]] = {
    "auth": {"terminal": {}},
    "elicitation": {"form": {}, "url": {}},
}
"""The capabilities of a client that supports everything stable."""

_SERVED: Final = ("session/request_permission", "elicitation/create", "mcp/message")


class AgentV2(AgentUnderTest):
    """A connection to the agent as its client. A turn ends with the state `idle`."""

    answer_rule: ClassVar[RuleId] = "v2-framing.agent-one-answer"
    protocol: ClassVar[int] = 2
    capability_members: ClassVar[tuple[str, str]] = ("capabilities", "capabilities")
    info_member: ClassVar[str] = "info"
    introduction: ClassVar[Message] = {"info": {"name": "accord check", "version": __version__}}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        handlers = self.responder.handlers
        self.responder.handlers = {method: handlers[method] for method in _SERVED}

    async def new_session(self, cwd: str, **more: Any) -> CallAnswer:
        return await self.call("session/new", {"cwd": cwd, **more})

    async def finish_turn(
        self, request: WireLine, *, rule: RuleId = "v2-prompt.message-id", timeout: float | None = None
    ) -> AgentTurn:
        """Wait for the response to a prompt and for the idle that ends the work."""
        limit = self.timeouts.turn if timeout is None else timeout
        answer = await self.wait_for_answer(request, rule=rule, timeout=limit)
        if not answer.ok:
            return TurnV2(answer, self.lines[request.number : answer.line.number])
        idle = await self.wait_for_idle(request, timeout=limit)
        if idle is None:
            self.notes.add_fail("v2-prompt.idle", f"no idle within {limit:g} seconds", request, answer.line)
            raise ConnectionOver("the turn did not end")
        return TurnV2(answer, self.lines[request.number : max(answer.line.number, idle.number)])

    async def wait_for_idle(self, since: WireLine, *, timeout: float | None = None) -> WireLine | None:
        """The first idle of the session of this request that ends work."""
        return await self.wait_for_line(
            lambda line: is_state(line, "idle") and line.session == since.session,
            since=since.number,
            timeout=timeout,
        )


class TurnV2(AgentTurn):
    """A finished turn: the response to its prompt, and all lines up to its idle."""

    @property
    def idle(self) -> WireLine | None:
        """The idle that ended it."""
        return next((line for line in reversed(self.lines) if is_state(line, "idle")), None)

    @property
    def stop_reason(self) -> Any:
        return None if self.idle is None else self.idle.update.get("stopReason")

    @property
    def message_id(self) -> Any:
        """The id of the user message."""
        return at(self.answer.result, "messageId")


def is_state(line: WireLine, *states: str) -> bool:
    """Whether the agent reports one of these states."""
    return line.sender == "agent" and line.kind == "state_update" and line.update.get("state") in states


def is_user_message(line: WireLine, message_id: Any = None) -> bool:
    """Whether it is an update of a user message, with this id if one is given."""
    return (
        line.sender == "agent"
        and line.kind in ("user_message", "user_message_chunk")
        and (message_id is None or line.update.get("messageId") == message_id)
    )


class AgentFixtureV2(AgentFixture):
    """The environment of one case."""

    agent_type: ClassVar[type[AgentUnderTest]] = AgentV2
    capabilities: ClassVar[dict[str, Any]] = CLIENT_CAPABILITIES
    login_method: ClassVar[str] = "auth/login"
    new_session_rule: ClassVar[RuleId] = "v2-session.new"

    async def check_record(self, agent: AgentUnderTest) -> None:
        from accord.check.v2.wire_rules_v2 import check_agent_v2

        await check_agent_v2(agent, self.notes)

    async def start_busy_turn(self, agent: AgentUnderTest, session: str) -> WireLine:
        request = agent.prompt(session, self.action("busy").prompt_text())
        await agent.wait_for_line(_is_in_progress, since=request.number, timeout=self.timeouts.soon)
        lines = agent.lines[request.number :]
        if not any(is_state(line, "running", "requires_action") for line in lines):
            raise CaseUnavailable("the agent did not become busy")
        if any(is_state(line, "idle") for line in lines):
            raise CaseUnavailable("the busy turn ended at once")
        return request

    async def wait_for_permission_request(self, agent: AgentUnderTest, request: WireLine) -> WireLine:
        line = await agent.wait_for_line(
            lambda line: (
                line.sender == "agent"
                and (line.method == "session/request_permission" or is_state(line, "idle"))
            ),
            since=request.number,
            timeout=self.timeouts.turn,
        )
        if line is None or not line.is_request:
            raise CaseUnavailable(NO_PERMISSION_REQUEST)
        return line


def _is_in_progress(line: WireLine) -> bool:
    """Whether work that takes time has begun, or all work has ended."""
    if line.sender != "agent":
        return False
    if line.kind == "tool_call_update":
        return line.update.get("status") == "in_progress"
    return line.kind in ("terminal_update", "terminal_output_chunk") or is_state(line, "idle")
