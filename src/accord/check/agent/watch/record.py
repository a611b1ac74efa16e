"""A conversation with an agent that is over, with what the watches ask of it."""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from accord.check.lines import Line
from accord.check.watch.record import Record

if TYPE_CHECKING:
    from accord.check.agent.talk import Talk


class TurnSpan(NamedTuple):
    """A prompt and its answer, by their place among the lines."""

    session: str
    begin: int
    end: int
    answer: Line | None
    cancelled: bool


class AgentRecord(Record):
    """One conversation, as the client had it."""

    def __init__(self, talk: "Talk") -> None:
        super().__init__(talk, talk.offered, talk.initialized)
        self.began = bool(talk.initialized)
        self.left = len(talk.lines) if talk.left is None else talk.left
        """What comes after that many lines, nobody can act on any more."""

    @cached_property
    def updates(self) -> list[Line]:
        """The session updates."""
        return [line for line in self.sent if line.update]

    def requests(self, *methods: str) -> list[Line]:
        """The agent's requests of these methods."""
        return [one.request for one in self.asked_by_agent if one.request.method in methods]

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
