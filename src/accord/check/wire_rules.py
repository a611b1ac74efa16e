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
    WireLine,
    has_capability,
    pair_calls,
)
from accord.check.findings import SCHEMA, RuleId, RuleNotes
from accord.schema.codec import NotJson, is_utf8, parse_json
from accord.schema.methods import notification, request
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.wire.envelope import Message, id_key


class ConnectionRecord:
    """The lines of one closed connection, with queries for the rules."""

    def __init__(
        self, connection: CheckedConnection, client_capabilities: Any, initialize_result: Message
    ) -> None:
        self.name: str = connection.name
        self.lines: list[WireLine] = connection.lines
        self.side: Side = connection.peer_side
        """The side under test."""
        self.flood: str = connection.flood
        self.client_capabilities: Any = client_capabilities
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
        return pair_calls(self.lines, "client")

    @cached_property
    def agent_requests(self) -> list[CallRecord]:
        """The agent's requests with the client's answers."""
        return pair_calls(self.lines, "agent")

    @cached_property
    def batch_ids(self) -> set[str]:
        """The ids of the requests that the side under test received in batches."""
        return {
            id_key(item["id"])
            for line in self.lines
            if line.sender != self.side
            for item in line.batch
            if "id" in item
        }

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

    def client_advertises(self, path: str) -> bool:
        """Whether the client advertised a capability (dotted path)."""
        return has_capability(self.client_capabilities, path)

    def agent_advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability (dotted path)."""
        return has_capability(at(self.initialize_result, "agentCapabilities"), path)


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


_EVERY_LINE: Final = "in every line"


class EnvelopeRules(NamedTuple):
    """The numbers of the envelope rules for one side."""

    only_messages: int
    no_newline_in_message: int
    utf8: int
    jsonrpc_version: int
    answer_id: int
    one_answer: int
    error_members: int
    no_batch: int
    known_method: int
    announced_extension: int


AGENT_ENVELOPE_RULES: Final = EnvelopeRules(
    only_messages=1,
    no_newline_in_message=3,
    utf8=5,
    jsonrpc_version=7,
    answer_id=9,
    one_answer=11,
    error_members=27,
    no_batch=29,
    known_method=44,
    announced_extension=46,
)
CLIENT_ENVELOPE_RULES: Final = EnvelopeRules(
    only_messages=2,
    no_newline_in_message=4,
    utf8=6,
    jsonrpc_version=8,
    answer_id=10,
    one_answer=12,
    error_members=28,
    no_batch=30,
    known_method=45,
    announced_extension=47,
)


def check_envelopes(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    """Check lines and envelopes: JSON, UTF-8, `jsonrpc`, ids, one answer each, errors, methods."""
    messages = [line for line in record.sent if line.message is not None]
    _check_invalid_lines(record, notes, rules)
    for line in messages:
        has_version = (line.message or {}).get("jsonrpc") == "2.0"
        frames = [] if has_version else [line.evidence]
        notes.judge(rules.jsonrpc_version, has_version, _EVERY_LINE, 'no `jsonrpc: "2.0"`', frames)
    if messages:
        for rule in (rules.only_messages, rules.no_batch):
            notes.add_pass(rule, _EVERY_LINE)
    _check_answers(record, notes, rules)
    _check_errors(messages, notes, rules)
    _check_methods(record, notes, rules)


def _check_invalid_lines(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    """Check each group of consecutive lines that are not messages."""
    group: list[WireLine] = []
    for line in [*record.sent, None]:
        if line is not None and line.message is None and not line.skip_reason and line.data.strip():
            group.append(line)
            continue
        if group:
            _check_line_group(group, record.batch_ids, notes, rules)
            group = []


def _check_line_group(
    lines: list[WireLine], batch_ids: set[str], notes: RuleNotes, rules: EnvelopeRules
) -> None:
    if len(lines) > 1 and _is_json_object("\n".join(line.data.decode("utf-8", "replace") for line in lines)):
        notes.add_fail(
            rules.no_newline_in_message,
            "a message is spread over several lines",
            [line.evidence for line in lines],
        )
        return
    for line in lines:
        if not is_utf8(line.data):
            notes.add_fail(rules.utf8, "a line is not UTF-8", [line.evidence])
        elif _answers_a_batch(line, batch_ids):
            notes.add_pass(rules.no_batch, "an array only answers a batch", [line.evidence])
        elif line.data.lstrip()[:1] == b"[" and _is_json(line.data):
            notes.add_fail(rules.no_batch, "an array of messages", [line.evidence])
        else:
            notes.add_fail(rules.only_messages, "a line is not a message", [line.evidence])


def _answers_a_batch(line: WireLine, batch_ids: set[str]) -> bool:
    """Whether the line is an array of answers to requests of a batch, as JSON-RPC wants them."""
    items = line.batch
    return bool(batch_ids and items) and all(
        "method" not in item
        and ("result" in item) != ("error" in item)
        and (id_key(item.get("id")) in batch_ids or ("error" in item and item.get("id") is None))
        for item in items
    )


def _is_json(data: bytes) -> bool:
    try:
        parse_json(data)
    except NotJson:
        return False
    return True


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _check_answers(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    request_ids = {id_key(call.request.id) for call in record.received_requests} | record.batch_ids
    for line in record.sent:
        if line.is_answer and line.id is not None and id_key(line.id) not in request_ids:
            failure = f"an answer to the id {line.id!r}, which no request has"
            notes.add_fail(rules.answer_id, failure, [line.evidence])
        elif line.message and "method" not in line.message and not line.is_answer:
            notes.add_fail(SCHEMA, "neither a call nor an answer", [line.evidence])
    for call in record.received_requests:
        for answer in call.answers:
            message = answer.message or {}
            if "result" in message and "error" in message:
                notes.add_fail(rules.one_answer, "an answer with a result and an error", [answer.evidence])
        if len(call.answers) > 1:
            frames = [call.request.evidence, *(answer.evidence for answer in call.answers)]
            notes.add_fail(rules.one_answer, f"{len(call.answers)} answers to one request", frames)
        elif call.answers:
            notes.add_pass(rules.one_answer, "every request has one answer")


def _check_errors(lines: list[WireLine], notes: RuleNotes, rules: EnvelopeRules) -> None:
    for line in lines:
        message = line.message or {}
        if "error" not in message or "method" in message:
            continue
        code, text = at(message, "error", "code"), at(message, "error", "message")
        valid = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
        pass_reason, failure = "errors have a code and a message", "an error without a code and a message"
        notes.judge(rules.error_members, valid, pass_reason, failure, [line.evidence])


def _check_methods(record: ConnectionRecord, notes: RuleNotes, rules: EnvelopeRules) -> None:
    receiver: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find_method = request if line.is_request else notification
        known = find_method(receiver, line.method) is not None or line.method.startswith(("_", "$/"))
        pass_reason = "its methods are in the protocol, or start with `_`"
        failure = f"{line.method} is not a {'request' if line.is_request else 'notification'} of the protocol"
        if line.method != "session/cancel":  # another rule is about it
            notes.judge(rules.known_method, known, pass_reason, failure, [line.evidence])
    extensions = [line for line in record.calls if line.method.startswith("_")]
    if extensions:
        announced = '"_meta"' in json.dumps(_extension_announcements(record))
        failure = f"{extensions[0].method} is used, but not announced in a `_meta` of the capabilities"
        notes.judge(
            rules.announced_extension,
            announced,
            "its extensions are announced",
            failure,
            [extensions[0].evidence],
        )


def _extension_announcements(record: ConnectionRecord) -> Any:
    """The values that may announce extensions: an agent's capabilities, or a client's `initialize` params."""
    if record.side == "agent":
        return at(record.initialize_result, "agentCapabilities")
    return [line.params for line in record.calls if line.method == "initialize"]


MAX_VIOLATIONS: Final = 100
"""The number of violations that are reported per message."""


class ViolationRule(NamedTuple):
    """Maps schema violations to the rule they break.

    A message kind is a kind of session update, a method, or `method=` for the result of a method.
    """

    message_kinds: tuple[str, ...]
    pattern: str
    """A regular expression for the text of the violation."""
    rule: RuleId

    def matches(self, message_kind: str, violation: str) -> bool:
        """Whether a violation in such a message breaks the rule."""
        return message_kind in self.message_kinds and re.search(self.pattern, violation) is not None


def find_violated_rule(rules: Sequence[ViolationRule], message_kind: str, violation: str) -> RuleId:
    """The first rule that a violation in such a message breaks, or `schema`."""
    for rule in rules:
        if rule.matches(message_kind, violation):
            return rule.rule
    return SCHEMA


class SentMessage(NamedTuple):
    """Params or a result with a type in the schema. `message_kind` is as in `ViolationRule`."""

    line: WireLine
    message_kind: str
    type: Any
    value: Any


def sent_messages(record: ConnectionRecord) -> Iterator[SentMessage]:
    """All params and results of the side under test that have a type in the schema."""
    receiver: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find_method = request if line.is_request else notification
        entry = find_method(receiver, line.method)
        if entry is not None:
            params: Any = {} if line.params is None else line.params
            yield SentMessage(line, line.kind or line.method, entry.params, params)
    for call in record.received_requests:
        entry = request(record.side, call.request.method)
        for answer in call.answers[:1]:
            message = answer.message or {}
            if entry is not None and "result" in message:
                yield SentMessage(answer, f"{call.request.method}=", entry.result, message["result"])
