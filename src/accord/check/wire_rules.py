"""Rules checked on the recorded lines of either side: envelopes, ids, and the messages to validate."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from accord.check.checked_connection import (
    CallRecord,
    CheckedConnection,
    Message,
    Side,
    WireLine,
    id_key,
    pair_calls,
)
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.schema.codec import NotJson, is_utf8, parse_json
from accord.schema.methods import notification, request
from accord.trace.trace_steps import at


class ConnectionRecord:
    """The lines of one closed connection, with queries for the rules."""

    def __init__(self, connection: CheckedConnection, offered: Any, initialize_result: Message) -> None:
        self.name: str = connection.name
        self.lines: list[WireLine] = connection.lines
        self.side: Side = connection.peer
        """The side under test."""
        self.flood: str = connection.flood
        self.client_capabilities: Any = offered
        """The client capabilities as sent (any value), or `ABSENT`."""
        self.initialize_result = initialize_result
        """The result of `initialize`."""

    @cached_property
    def sent(self) -> list[WireLine]:
        """The lines that the side under test sent."""
        return [line for line in self.lines if line.sender == self.side]

    @cached_property
    def calls(self) -> list[WireLine]:
        """The requests and notifications of the side under test."""
        return [line for line in self.sent if line.method]

    @cached_property
    def client_requests(self) -> list[CallRecord]:
        """The client's requests with the agent's answers."""
        return list(pair_calls(self.lines, "client"))

    @cached_property
    def agent_requests(self) -> list[CallRecord]:
        """The agent's requests with the client's answers."""
        return list(pair_calls(self.lines, "agent"))

    @property
    def received_requests(self) -> list[CallRecord]:
        """The requests that the side under test must answer."""
        return self.client_requests if self.side == "agent" else self.agent_requests

    def results(self, *methods: str) -> list[tuple[WireLine, Any]]:
        """The agent's results of these methods, each with its line."""
        return [
            (answer, (answer.message or {}).get("result"))
            for call in self.client_requests
            if call.request.method in methods
            for answer in call.answers
            if "result" in (answer.message or {})
        ]

    def offers(self, path: str) -> bool:
        """Whether the client advertised a capability (dotted path)."""
        found = at(self.client_capabilities, *path.split("."))
        return found is True or isinstance(found, dict)

    def advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability (dotted path)."""
        found = at(self.initialize_result, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)


RecordT = TypeVar("RecordT", bound=ConnectionRecord, contravariant=True)


class RecordRule(Protocol[RecordT]):
    """A function that checks rules on a record."""

    def __call__(self, record: RecordT, notes: RuleNotes) -> None:
        """Check the record and add notes."""
        ...


async def check_record(record: RecordT, notes: RuleNotes, rules: "Sequence[RecordRule[RecordT]]") -> None:
    """Run all rule functions on a record. Yields to the event loop between them."""
    for line in record.sent:
        if line.skip_reason:
            notes.add_unjudged(SCHEMA, f"not judged: {line.skip_reason}", [line.evidence])
    if record.flood:
        notes.add_unjudged(SCHEMA, f"only the start was judged of {record.flood}")
    for check_rule in rules:
        await asyncio.sleep(0)
        try:
            check_rule(record, notes)
        except Exception as error:  # noqa: BLE001 - an unexpected message must not end the run
            notes.add_fail(SCHEMA, f"a message that cannot be judged ({type(error).__name__})")


_ALL: Final = "in every line"


class EnvelopeRules(NamedTuple):
    """The numbers of the envelope rules for one side."""

    line: int
    whole: int
    utf8: int
    version: int
    id: int
    once: int
    error: int
    batch: int
    method: int
    extension: int


AGENT_ENVELOPE_RULES: Final = EnvelopeRules(1, 3, 5, 7, 9, 11, 27, 29, 44, 46)
CLIENT_ENVELOPE_RULES: Final = EnvelopeRules(2, 4, 6, 8, 10, 12, 28, 30, 45, 47)


def check_envelopes(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    """Check lines and envelopes: JSON, UTF-8, `jsonrpc`, ids, one answer each, errors, methods."""
    sound = [line for line in record.sent if line.message is not None]
    _check_invalid_lines(record, notes, rules)
    for line in sound:
        versioned = (line.message or {}).get("jsonrpc") == "2.0"
        frames = [] if versioned else [line.evidence]
        notes.judge(rules.version, versioned, _ALL, 'no `jsonrpc: "2.0"`', frames)
    if sound:
        for rule in (rules.line, rules.batch):
            notes.add_pass(rule, _ALL)
    _check_answers(record, notes, rules)
    _check_errors(sound, notes, rules)
    _check_methods(record, notes, rules)


def _check_invalid_lines(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    """Check lines that are not messages: not UTF-8, an array, a message over several lines, or else."""
    pieces: list[WireLine] = []
    for line in [*record.sent, None]:
        if line is not None and line.message is None and not line.skip_reason and line.data.strip():
            pieces.append(line)
            continue
        if pieces:
            _check_line_group(pieces, notes, rules)
            pieces = []


def _check_line_group(pieces: list[WireLine], notes: RuleNotes, rules: EnvelopeRules) -> None:
    if len(pieces) > 1 and _is_message("\n".join(line.data.decode("utf-8", "replace") for line in pieces)):
        notes.add_fail(
            rules.whole, "a message is spread over several lines", [line.evidence for line in pieces]
        )
        return
    for line in pieces:
        if not is_utf8(line.data):
            notes.add_fail(rules.utf8, "a line is not UTF-8", [line.evidence])
        elif line.data.lstrip()[:1] == b"[" and _parses(line.data):
            notes.add_fail(rules.batch, "an array of messages", [line.evidence])
        else:
            notes.add_fail(rules.line, "a line is not a message", [line.evidence])


def _parses(data: bytes) -> bool:
    try:
        parse_json(data)
    except NotJson:
        return False
    return True


def _is_message(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _check_answers(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    known = {id_key(one.request.id) for one in record.received_requests}
    for line in record.sent:
        if line.is_answer and line.id is not None and id_key(line.id) not in known:
            bad = f"an answer to the id {line.id!r}, which no request has"
            notes.add_fail(rules.id, bad, [line.evidence])
        elif line.message and "method" not in line.message and not line.is_answer:
            notes.add_fail(SCHEMA, "neither a call nor an answer", [line.evidence])
    for call in record.received_requests:
        for answer in call.answers:
            message = answer.message or {}
            if "result" in message and "error" in message:
                notes.add_fail(rules.once, "an answer with a result and an error", [answer.evidence])
        if len(call.answers) > 1:
            frames = [call.request.evidence, *(answer.evidence for answer in call.answers)]
            notes.add_fail(rules.once, f"{len(call.answers)} answers to one request", frames)
        elif call.answers:
            notes.add_pass(rules.once, "every request has one answer")


def _check_errors(lines: list[WireLine], notes: RuleNotes, rules: EnvelopeRules) -> None:
    for line in lines:
        message = line.message or {}
        if "error" not in message or "method" in message:
            continue
        code, text = at(message, "error", "code"), at(message, "error", "message")
        sound = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
        good, bad = "errors have a code and a message", "an error without a code and a message"
        notes.judge(rules.error, sound, good, bad, [line.evidence])


def _check_methods(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find = request if line.is_request else notification
        known = find(other, line.method) is not None or line.method.startswith(("_", "$/"))
        good = "its methods are in the protocol, or start with `_`"
        bad = f"{line.method} is not a {'request' if line.is_request else 'notification'} of the protocol"
        if line.method != "session/cancel":  # another rule is about it
            notes.judge(rules.method, known, good, bad, [line.evidence])
    own = [line for line in record.calls if line.method.startswith("_")]
    if own:
        announced = '"_meta"' in json.dumps(_announcements(record))
        bad = f"{own[0].method} is used, but not announced in a `_meta` of the capabilities"
        notes.judge(rules.extension, announced, "its extensions are announced", bad, [own[0].evidence])


def _announcements(record: ConnectionRecord) -> Any:
    """Where extensions are announced: an agent's capabilities, or all of a client's `initialize`."""
    if record.side == "agent":
        return at(record.initialize_result, "agentCapabilities")
    return [line.params for line in record.calls if line.method == "initialize"]


MAX_VIOLATIONS: Final = 100
"""The number of violations that are reported per message."""


class RuleLocation(NamedTuple):
    """Maps violations to a rule. `where`: a kind of update, a method, or `method=` for its result."""

    where: tuple[str, ...]
    pattern: str
    rule: Rule

    def matches(self, where: str, text: str) -> bool:
        """Whether a violation at this place belongs to the rule."""
        return where in self.where and re.search(self.pattern, text) is not None


class SentMessage(NamedTuple):
    """Params or a result with a type in the schema. `where` is as in `RuleLocation`."""

    line: WireLine
    where: str
    type: Any
    value: Any


def sent_messages(record: ConnectionRecord) -> Iterator[SentMessage]:
    """All params and results of the side under test that have a type in the schema."""
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find = request if line.is_request else notification
        entry = find(other, line.method)
        if entry is not None:
            params: Any = {} if line.params is None else line.params
            yield SentMessage(line, line.kind or line.method, entry.params, params)
    for call in record.received_requests:
        entry = request(record.side, call.request.method)
        for answer in call.answers[:1]:
            message = answer.message or {}
            if entry is not None and "result" in message:
                yield SentMessage(answer, f"{call.request.method}=", entry.result, message["result"])
