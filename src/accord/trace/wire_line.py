"""One line of a connection: what it carries, and how a report shows it."""

from typing import Any, Final, NamedTuple, cast

from msgspec import Struct

from accord.schema.codec import NotJson, parse_json
from accord.trace.redaction import redact_frame
from accord.trace.text_redaction import redact_text
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.wire.envelope import Message, id_key
from accord.wire.transport import DEFAULT_LIMIT, Frame

_MAX_TEXT_CHARACTERS: Final = 1200
_MAX_REDACTED_BYTES: Final = 1024 * 1024


class Evidence(Struct, frozen=True):
    """One line of a connection, as evidence for a verdict."""

    connection: str
    number: int
    sender: str
    data: bytes

    @property
    def text(self) -> str:
        """The line as text for reports, without secrets and shortened."""
        head = self.data if len(self.data) <= _MAX_REDACTED_BYTES else self.data[:_MAX_REDACTED_BYTES]
        try:
            text = redact_frame(head).decode()
        except UnicodeDecodeError:
            text = redact_text(head.decode("utf-8", "backslashreplace"))
        if len(text) > _MAX_TEXT_CHARACTERS:
            text = f"{text[:_MAX_TEXT_CHARACTERS]}... ({len(self.data)} bytes)"
        return text


MAX_VALUES_PER_MESSAGE: Final = 200_000
"""Lines with more values are not judged; validating them would take minutes."""
MAX_DEPTH: Final = 100
"""Lines with deeper nesting are not judged; validation is recursive."""

_HEAD_BYTES: Final = 4096


class WireLine(NamedTuple):
    """One line of a connection.

    `message` is None if the line is not a JSON object, or too big to be judged; then `skip_reason` says why.
    """

    connection: str
    number: int
    sender: Side
    data: bytes
    message: Message | None
    skip_reason: str = ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The line as evidence for a verdict."""
        return (Evidence(self.connection, self.number, self.sender, self.data),)

    @property
    def method(self) -> str:
        """The method; empty for answers and invalid lines."""
        found = (self.message or {}).get("method")
        return found if isinstance(found, str) else ""

    @property
    def params(self) -> Any:
        """The params, or None."""
        return (self.message or {}).get("params")

    @property
    def id(self) -> Any:
        """The id, or None."""
        return (self.message or {}).get("id")

    @property
    def is_request(self) -> bool:
        return bool(self.method) and "id" in (self.message or {})

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer, valid or not."""
        message = self.message or {}
        return bool(message) and "method" not in message and ("result" in message or "error" in message)

    @property
    def may_answer(self) -> bool:
        """Whether it was skipped and may be an answer: its start has no `method`."""
        return bool(self.skip_reason) and b'"method"' not in self.data[:_HEAD_BYTES]

    @property
    def is_malformed(self) -> bool:
        """Whether it is no message; a peer may answer it with an error without an id."""
        return bool(self.data.strip()) and not self.method and not self.is_answer

    @property
    def batch(self) -> list[Message]:
        """The messages of a batch; empty if the line is not an array of objects."""
        if self.message is not None or self.skip_reason or self.data.lstrip()[:1] != b"[":
            return []
        try:
            items = parse_json(self.data)
        except NotJson:
            return []
        return (
            cast(list[Message], items)
            if isinstance(items, list) and all(isinstance(item, dict) for item in cast(list[Any], items))
            else []
        )

    @property
    def update(self) -> Message:
        """The session update, or an empty dict."""
        update = at(self.params, "update") if self.method == "session/update" else None
        return cast(Message, update) if isinstance(update, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of the session update, or empty."""
        found = self.update.get("sessionUpdate")
        return found if isinstance(found, str) else ""

    @property
    def session(self) -> str:
        """The session id, or empty."""
        found = at(self.params, "sessionId")
        return found if isinstance(found, str) else ""


def read_wire_line(connection: str, number: int, sender: Side, frame: Frame) -> WireLine:
    """Parse a received or sent frame."""
    if not isinstance(frame, bytes):
        reason = f"a message of {frame.size} bytes, over the limit of {DEFAULT_LIMIT // 1024 // 1024} MiB"
        return WireLine(connection, number, sender, frame.head, None, reason)
    if count_values(frame) > MAX_VALUES_PER_MESSAGE:
        reason = f"a message with more than {MAX_VALUES_PER_MESSAGE} values"
        return WireLine(connection, number, sender, frame, None, reason)
    try:
        value = parse_json(frame)
        deep = frame.count(b"[") + frame.count(b"{") > MAX_DEPTH and _is_deep(value)
    except NotJson as error:
        value, deep = None, isinstance(error.__context__, RecursionError)
    if deep:
        return WireLine(connection, number, sender, frame, None, f"a message nested over {MAX_DEPTH} levels")
    message = cast(Message, value) if isinstance(value, dict) else None
    return WireLine(connection, number, sender, frame, message)


def count_values(data: bytes) -> int:
    """An upper bound for the number of JSON values in a line."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast(Message, item).values()
            elif isinstance(item, list):
                inner += cast(list[Any], item)
        level = inner
    return bool(level)


class CallRecord(NamedTuple):
    """A request of one side with its answers; there should be exactly one."""

    request: WireLine
    answers: list[WireLine]


def pair_calls(lines: list[WireLine], sender: Side) -> list[CallRecord]:
    """The requests of one side, each with its answers. A reused id starts a new request."""
    calls: list[CallRecord] = []
    last_calls: dict[str, CallRecord] = {}
    for line in lines:
        if line.sender == sender and line.is_request:
            calls.append(CallRecord(line, []))
            last_calls[id_key(line.id)] = calls[-1]
        elif line.sender != sender and line.is_answer and id_key(line.id) in last_calls:
            last_calls[id_key(line.id)].answers.append(line)
    return calls
