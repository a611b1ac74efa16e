"""A conversation that is over, with what the watches ask of it."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.check.agent.lines import Exchange, Line, Message, exchanges
from accord.trace.exchange import at

if TYPE_CHECKING:
    from accord.check.agent.talk import Talk


class TurnSpan(NamedTuple):
    """A prompt and its answer, by their place among the lines."""

    session: str
    begin: int
    end: int
    answer: Line | None
    cancelled: bool


class Record:
    """One conversation."""

    def __init__(self, talk: "Talk") -> None:
        self.name = talk.name
        self.lines = talk.lines
        self.offered: Any = talk.offered
        """The client capabilities as sent: anything at all, or the mark for none."""
        self.initialized: Message = talk.initialized
        self.began = bool(talk.initialized)
        self.left = len(talk.lines) if talk.left is None else talk.left
        """What comes after that many lines, nobody can act on any more."""

    @cached_property
    def from_agent(self) -> list[Line]:
        """The agent's lines."""
        return [line for line in self.lines if line.sender == "agent"]

    @cached_property
    def updates(self) -> list[Line]:
        """The session updates."""
        return [line for line in self.from_agent if line.update]

    @cached_property
    def asked(self) -> list[Exchange]:
        """The client's requests with the agent's answers."""
        return list(exchanges(self.lines, "client"))

    @cached_property
    def asked_by_agent(self) -> list[Exchange]:
        """The agent's requests with the client's answers."""
        return list(exchanges(self.lines, "agent"))

    def results(self, *methods: str) -> list[tuple[Line, Any]]:
        """The results of these methods, each with its line."""
        return [
            (answer, (answer.message or {}).get("result"))
            for exchange in self.asked
            if exchange.request.method in methods
            for answer in exchange.answers
            if "result" in (answer.message or {})
        ]

    def requests(self, *methods: str) -> list[Line]:
        """The agent's requests of these methods."""
        return [one.request for one in self.asked_by_agent if one.request.method in methods]

    def offers(self, path: str) -> bool:
        """Whether the client advertised a capability, by its path."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    @property
    def nothing_offered(self) -> bool:
        """Whether the client said nothing of its capabilities."""
        return not isinstance(self.offered, dict)

    @cached_property
    def turns(self) -> list[TurnSpan]:
        """The turns, in order."""
        found: list[TurnSpan] = []
        for exchange in self.asked:
            request = exchange.request
            if request.method != "session/prompt":
                continue
            answer = exchange.answers[0] if exchange.answers else None
            if answer is not None and answer.number > self.left:
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

    def turn_at(self, line: Line) -> TurnSpan | None:
        """The turn that a line of its session falls into."""
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
                one.request.session,
                one.request.number,
                one.answers[0].number if one.answers else len(self.lines) + 1,
            )
            for one in self.asked
            if one.request.method == "session/load"
        ]

    def replayed(self, line: Line) -> bool:
        """Whether the line belongs to the replay of a loaded session."""
        return any(
            session == line.session and begin < line.number < end for session, begin, end in self._replays
        )
