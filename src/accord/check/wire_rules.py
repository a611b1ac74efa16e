"""Rules judged from the recorded lines of either side: envelopes, ids, message schema."""

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
    exchanges,
    key,
)
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.schema.codec import NotJson, is_utf8, parse_json
from accord.schema.methods import notification, request
from accord.trace.trace_steps import at

# MERGED check.watch.record: A conversation that is over, with what the watches over either side ask of it.


class ConnectionRecord:
    """One conversation."""

    def __init__(self, talk: CheckedConnection, offered: Any, initialized: Message) -> None:
        self.name = talk.name
        self.lines = talk.lines
        self.side: Side = talk.peer
        """Who is under test."""
        self.flood = talk.flood
        self.offered: Any = offered
        """The client capabilities as sent: anything at all, or the mark for none."""
        self.initialized = initialized
        """The result of `initialize`."""

    @cached_property
    def sent(self) -> list[WireLine]:
        """The lines of the side under test."""
        return [line for line in self.lines if line.sender == self.side]

    @cached_property
    def calls(self) -> list[WireLine]:
        """Its requests and notifications."""
        return [line for line in self.sent if line.method]

    @cached_property
    def asked(self) -> list[CallRecord]:
        """The client's requests with the agent's answers."""
        return list(exchanges(self.lines, "client"))

    @cached_property
    def asked_by_agent(self) -> list[CallRecord]:
        """The agent's requests with the client's answers."""
        return list(exchanges(self.lines, "agent"))

    @property
    def owed(self) -> list[CallRecord]:
        """The requests that the side under test had to answer."""
        return self.asked if self.side == "agent" else self.asked_by_agent

    def results(self, *methods: str) -> list[tuple[WireLine, Any]]:
        """The results of these methods of the agent, each with its line."""
        return [
            (answer, (answer.message or {}).get("result"))
            for exchange in self.asked
            if exchange.request.method in methods
            for answer in exchange.answers
            if "result" in (answer.message or {})
        ]

    def offers(self, path: str) -> bool:
        """Whether the client advertised a capability, by its path."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    def advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability, by its path."""
        found = at(self.initialized, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)


# MERGED check.watch: The watch: what every line of every conversation shows, whatever the scene was about. What holds for both sides alike.

RecordT = TypeVar("RecordT", bound=ConnectionRecord, contravariant=True)


class RecordRule(Protocol[RecordT]):
    """One part of a watch."""

    def __call__(self, record: RecordT, ledger: RuleNotes) -> None:
        """Judge a conversation."""
        ...


async def look_over(record: RecordT, ledger: RuleNotes, looks: "Sequence[RecordRule[RecordT]]") -> None:
    """Let each part look over a conversation that is over; between them others have their turn."""
    for line in record.sent:
        if line.unread:
            ledger.unjudged(SCHEMA, f"not judged: {line.unread}", [line.shown])
    if record.flood:
        ledger.unjudged(SCHEMA, f"only the beginning was judged of {record.flood}")
    for look in looks:
        await asyncio.sleep(0)
        try:
            look(record, ledger)
        except Exception as error:  # noqa: BLE001 - a message that nobody foresaw must not end the run
            ledger.broken(SCHEMA, f"a message that cannot be judged ({type(error).__name__})")


# MERGED check.watch.envelope: Lines and envelopes: one JSON object a line, UTF-8, `jsonrpc`, ids, one answer each, sound errors, known methods.

_ALL: Final = "in every line"


class EnvelopeRules(NamedTuple):
    """The rules that bind one side: those on its lines, on its answers, and on its calls."""

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


OF_AGENTS: Final = EnvelopeRules(1, 3, 5, 7, 9, 11, 27, 29, 44, 46)
OF_CLIENTS: Final = EnvelopeRules(2, 4, 6, 8, 10, 12, 28, 30, 45, 47)


def look(record: ConnectionRecord, ledger: RuleNotes, rules: EnvelopeRules) -> None:
    """Judge the envelopes."""
    sound = [line for line in record.sent if line.message is not None]
    _noise(record, ledger, rules)
    for line in sound:
        versioned = (line.message or {}).get("jsonrpc") == "2.0"
        shown = [] if versioned else [line.shown]
        ledger.judge(rules.version, versioned, _ALL, 'no `jsonrpc: "2.0"`', shown)
    if sound:
        for rule in (rules.line, rules.batch):
            ledger.kept(rule, _ALL)
    _answers(record, ledger, rules)
    _errors(sound, ledger, rules)
    _methods(record, ledger, rules)


def _noise(record: ConnectionRecord, ledger: RuleNotes, rules: EnvelopeRules) -> None:
    """Lines that are no message: not UTF-8, an array, a message in pieces, or something else."""
    pieces: list[WireLine] = []
    for line in [*record.sent, None]:
        if line is not None and line.message is None and not line.unread and line.data.strip():
            pieces.append(line)
            continue
        if pieces:
            _noisy(pieces, ledger, rules)
            pieces = []


def _noisy(pieces: list[WireLine], ledger: RuleNotes, rules: EnvelopeRules) -> None:
    if len(pieces) > 1 and _is_message("\n".join(line.data.decode("utf-8", "replace") for line in pieces)):
        ledger.broken(rules.whole, "a message is spread over several lines", [line.shown for line in pieces])
        return
    for line in pieces:
        if not is_utf8(line.data):
            ledger.broken(rules.utf8, "a line is not UTF-8", [line.shown])
        elif line.data.lstrip()[:1] == b"[" and _parses(line.data):
            ledger.broken(rules.batch, "an array of messages", [line.shown])
        else:
            ledger.broken(rules.line, "a line that is no message", [line.shown])


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


def _answers(record: ConnectionRecord, ledger: RuleNotes, rules: EnvelopeRules) -> None:
    known = {key(one.request.id) for one in record.owed}
    for line in record.sent:
        if line.is_answer and line.id is not None and key(line.id) not in known:
            bad = f"an answer to the id {line.id!r}, which nobody asked under"
            ledger.broken(rules.id, bad, [line.shown])
        elif line.message and "method" not in line.message and not line.is_answer:
            ledger.broken(SCHEMA, "neither a call nor an answer", [line.shown])
    for exchange in record.owed:
        for answer in exchange.answers:
            message = answer.message or {}
            if "result" in message and "error" in message:
                ledger.broken(rules.once, "an answer with a result and an error", [answer.shown])
        if len(exchange.answers) > 1:
            shown = [exchange.request.shown, *(answer.shown for answer in exchange.answers)]
            ledger.broken(rules.once, f"{len(exchange.answers)} answers to one request", shown)
        elif exchange.answers:
            ledger.kept(rules.once, "every request has one answer")


def _errors(lines: list[WireLine], ledger: RuleNotes, rules: EnvelopeRules) -> None:
    for line in lines:
        message = line.message or {}
        if "error" not in message or "method" in message:
            continue
        code, text = at(message, "error", "code"), at(message, "error", "message")
        sound = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
        good, bad = "errors have a code and a message", "an error without a code and a message"
        ledger.judge(rules.error, sound, good, bad, [line.shown])


def _methods(record: ConnectionRecord, ledger: RuleNotes, rules: EnvelopeRules) -> None:
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find = request if line.is_request else notification
        known = find(other, line.method) is not None or line.method.startswith(("_", "$/"))
        good = "its methods are those of the protocol, or begin with `_`"
        bad = f"{line.method} is no {'request' if line.is_request else 'notification'} of the protocol"
        if line.method != "session/cancel":  # a rule of its own says what that is
            ledger.judge(rules.method, known, good, bad, [line.shown])
    own = [line for line in record.calls if line.method.startswith("_")]
    if own:
        announced = '"_meta"' in json.dumps(_told(record))
        bad = f"{own[0].method} is used, and no `_meta` in the capabilities says so"
        ledger.judge(rules.extension, announced, "its extensions are announced", bad, [own[0].shown])


def _told(record: ConnectionRecord) -> Any:
    """How the side under test introduced itself: the agent by its capabilities, a client by all of `initialize`."""
    if record.side == "agent":
        return at(record.initialized, "agentCapabilities")
    return [line.params for line in record.calls if line.method == "initialize"]


# MERGED check.watch.messages: The strict walk over everything that one side sends: each violation is laid at the door of the rule that says it closest.

MOST_TOLD: Final = 100
"""The violations in one message that are told of; one with a thousand is no worse."""


class RuleLocation(NamedTuple):
    """Where a violation belongs: `where` is a kind of update, a method, or a method with `=` for its result."""

    where: tuple[str, ...]
    pattern: str
    rule: Rule

    def takes(self, where: str, text: str) -> bool:
        """Whether this is its place."""
        return where in self.where and re.search(self.pattern, text) is not None


class SentMessage(NamedTuple):
    """Params or a result that the schema knows: the line, where it belongs, the type, and the value."""

    line: WireLine
    where: str
    type: Any
    value: Any


def sent(record: ConnectionRecord) -> Iterator[SentMessage]:
    """All that the side under test sent and the schema has a type for."""
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find = request if line.is_request else notification
        entry = find(other, line.method)
        if entry is not None:
            params: Any = {} if line.params is None else line.params
            yield SentMessage(line, line.kind or line.method, entry.params, params)
    for exchange in record.owed:
        entry = request(record.side, exchange.request.method)
        for answer in exchange.answers[:1]:
            message = answer.message or {}
            if entry is not None and "result" in message:
                yield SentMessage(answer, f"{exchange.request.method}=", entry.result, message["result"])
