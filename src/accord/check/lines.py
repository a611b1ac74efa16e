"""The lines of one conversation, in the order they crossed, and how they belong together."""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from accord.check.verdict import Evidence
from accord.schema.jsontext import NotJson, parse_json
from accord.trace.exchange import at
from accord.wire.framing import DEFAULT_LIMIT
from accord.wire.transport import Frame

Message: TypeAlias = dict[str, Any]
Side: TypeAlias = Literal["client", "agent"]

MOST_VALUES: Final = 200_000
"""The values in one line that is still judged; the walk over more would take minutes."""
MOST_DEEP: Final = 100
"""The levels of one line that is still judged; those who walk over it go into each."""

_HEAD: Final = 4096


class Line(NamedTuple):
    """One line. `message` is None where it is no JSON object, and where it is too big to be judged: `unread` says why."""

    talk: str
    number: int
    sender: Side
    data: bytes
    message: Message | None
    unread: str = ""

    @property
    def shown(self) -> Evidence:
        """As evidence."""
        return Evidence(self.talk, self.number, self.sender, self.data)

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
    def may_answer(self) -> bool:
        """It was not read, and at its beginning there is nothing of a call."""
        return bool(self.unread) and b'"method"' not in self.data[:_HEAD]

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


def line_of(talk: str, number: int, sender: Side, frame: Frame) -> Line:
    """A line as it crossed."""
    if not isinstance(frame, bytes):
        why = f"a message of {frame.size} bytes, more than the {DEFAULT_LIMIT // 1024 // 1024} MiB that are read"
        return Line(talk, number, sender, frame.head, None, why)
    if values_in(frame) > MOST_VALUES:
        why = f"a message of more than {MOST_VALUES} values"
        return Line(talk, number, sender, frame, None, why)
    try:
        value = parse_json(frame)
        deep = frame.count(b"[") + frame.count(b"{") > MOST_DEEP and _is_deep(value)
    except NotJson as error:
        value, deep = None, isinstance(error.__context__, RecursionError)
    if deep:
        return Line(talk, number, sender, frame, None, f"a message of more than {MOST_DEEP} levels")
    message = cast(Message, value) if isinstance(value, dict) else None
    return Line(talk, number, sender, frame, message)


def values_in(data: bytes) -> int:
    """At most so many values are in a line."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MOST_DEEP):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += cast(Message, one).values()
            elif isinstance(one, list):
                inner += cast(list[Any], one)
        level = inner
    return bool(level)


class Exchange(NamedTuple):
    """A request of one side with its answers; there should be one."""

    request: Line
    answers: list[Line]


def key(id: Any) -> str:
    """An id, or anything else that should be text, as a key: 1, 1.0 and "1" are three."""
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
