"""The record of a connection with an agent, and the rules for its text."""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from accord.check.findings import RuleNotes
from accord.check.wire_rules import ConnectionRecord
from accord.trace.wire_line import WireLine

if TYPE_CHECKING:
    from accord.check.agent.agent_under_test import AgentUnderTest


class TurnSpan(NamedTuple):
    """A turn as line numbers: of its prompt and of its answer."""

    session: str
    begin: int
    end: int
    answer: WireLine | None
    cancelled: bool


class AgentRecord(ConnectionRecord):
    """The record of one connection with an agent."""

    def __init__(self, agent: "AgentUnderTest") -> None:
        super().__init__(agent, agent.client_capabilities, agent.initialize_result)
        self.initialized: bool = bool(agent.initialize_result)
        self.lines_at_close: int = len(agent.lines) if agent.lines_at_close is None else agent.lines_at_close
        """Later lines were sent after the checker closed the connection."""

    @cached_property
    def updates(self) -> list[WireLine]:
        """The session updates."""
        return [line for line in self.sent if line.update]

    def requests(self, *methods: str) -> list[WireLine]:
        """The agent's requests of these methods."""
        return [call.request for call in self.agent_requests if call.request.method in methods]

    @property
    def no_client_capabilities(self) -> bool:
        """Whether the client sent no capabilities."""
        return not isinstance(self.client_capabilities, dict)

    @cached_property
    def turns(self) -> list[TurnSpan]:
        """The turns, in order."""
        found: list[TurnSpan] = []
        for call in self.client_requests:
            request = call.request
            if request.method != "session/prompt":
                continue
            answer = call.answers[0] if call.answers else None
            if answer is not None and answer.number > self.lines_at_close:
                answer = None
            end = answer.number if answer else len(self.lines) + 1
            cancelled = any(
                line.sender == "client"
                and line.method == "session/cancel"
                and line.session == request.session
                for line in self.lines[request.number : end - 1]
            )
            found.append(TurnSpan(request.session, request.number, end, answer, cancelled))
        return found

    def turn_at(self, line: WireLine) -> TurnSpan | None:
        """The turn during which a line of its session was sent."""
        return next(
            (
                turn
                for turn in self.turns
                if turn.session == line.session and turn.begin < line.number < turn.end
            ),
            None,
        )

    @cached_property
    def _replays(self) -> list[tuple[str, int, int]]:
        return [
            (
                call.request.session,
                call.request.number,
                call.answers[0].number if call.answers else len(self.lines) + 1,
            )
            for call in self.client_requests
            if call.request.method == "session/load"
        ]

    def is_replay(self, line: WireLine) -> bool:
        """Whether the line belongs to the replay of a loaded session."""
        return any(
            session == line.session and begin < line.number < end for session, begin, end in self._replays
        )


def check_text(record: AgentRecord, notes: RuleNotes) -> None:
    """Check multi-line and non-ASCII text."""
    messages = [line for line in record.sent if line.message is not None]
    multi_line = next((line for line in messages if b"\\n" in line.data), None)
    if multi_line is not None:
        notes.add_pass("framing.agent-one-line", "multi-line text was sent in one line", multi_line)
    non_ascii = next((line for line in messages if not line.data.isascii() or b"\\u" in line.data), None)
    if non_ascii is not None:
        notes.add_pass("framing.agent-utf8", "non-ASCII text was sent as UTF-8 or escaped", non_ascii)
