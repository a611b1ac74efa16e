"""The lines of one conversation with an agent, in the order they crossed, and how they belong together."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from accord.check.verdict import Evidence, evidence
from accord.schema.jsontext import NotJson, parse_json
from accord.trace.exchange import at

Message: TypeAlias = dict[str, Any]
Side: TypeAlias = Literal["client", "agent"]


class Line(NamedTuple):
    """One line. `message` is None where it is no JSON object."""

    talk: str
    number: int
    sender: Side
    data: bytes
    message: Message | None

    @property
    def shown(self) -> Evidence:
        """As evidence."""
        return evidence(self.talk, self.number, self.sender, self.data)

    @property
    def method(self) -> str:
        """The method; empty for an answer and for noise."""
        found = (self.message or {}).get("method")
        return found if isinstance(found, str) else ""

    @property
    def params(self) -> Any:
        """The parameters."""
        return (self.message or {}).get("params")

    @property
    def id(self) -> Any:
        """The id; None also where there is none."""
        return (self.message or {}).get("id")

    @property
    def is_request(self) -> bool:
        """A call that wants an answer."""
        return bool(self.method) and "id" in (self.message or {})

    @property
    def is_answer(self) -> bool:
        """An answer, sound or not."""
        message = self.message or {}
        return bool(message) and "method" not in message and ("result" in message or "error" in message)

    @property
    def update(self) -> Message:
        """The session update that it is, empty if it is none."""
        update = at(self.params, "update") if self.method == "session/update" else None
        return cast(Message, update) if isinstance(update, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of update."""
        found = self.update.get("sessionUpdate")
        return found if isinstance(found, str) else ""

    @property
    def session(self) -> str:
        """The session it names."""
        found = at(self.params, "sessionId")
        return found if isinstance(found, str) else ""


def line_of(talk: str, number: int, sender: Side, data: bytes) -> Line:
    """A line as it crossed."""
    try:
        value = parse_json(data)
    except NotJson:
        value = None
    message = cast(Message, value) if isinstance(value, dict) else None
    return Line(talk, number, sender, data, message)


class Exchange(NamedTuple):
    """A request of one side with its answers; there should be one."""

    request: Line
    answers: list[Line]


def key(id: Any) -> str:
    """An id as a key: 1, 1.0 and "1" are three."""
    return f"{type(id).__name__}:{id!r}"


def exchanges(lines: list[Line], asker: Side) -> Iterator[Exchange]:
    """The requests of one side, each with its answers. An id that was used again after its answer is a new request."""
    asked: dict[str, Exchange] = {}
    found: list[Exchange] = []
    for line in lines:
        if line.sender == asker and line.is_request:
            exchange = Exchange(line, [])
            asked[key(line.id)] = exchange
            found.append(exchange)
        elif line.sender != asker and line.is_answer and key(line.id) in asked:
            asked[key(line.id)].answers.append(line)
    yield from found
