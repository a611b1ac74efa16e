"""Lines and envelopes: one JSON object a line, UTF-8, `jsonrpc`, ids, one answer each, sound errors, known methods."""

import json
from typing import Any, Final, NamedTuple

from accord.check.ledger import Ledger
from accord.check.lines import Line, Side, key
from accord.check.verdict import SCHEMA
from accord.check.watch.record import Record
from accord.schema.jsontext import NotJson, is_utf8, parse_json
from accord.schema.methods import notification, request
from accord.trace.exchange import at

_ALL: Final = "in every line"


class Envelopes(NamedTuple):
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


OF_AGENTS: Final = Envelopes(1, 3, 5, 7, 9, 11, 27, 29, 44, 46)
OF_CLIENTS: Final = Envelopes(2, 4, 6, 8, 10, 12, 28, 30, 45, 47)


def look(record: Record, ledger: Ledger, rules: Envelopes) -> None:
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


def _noise(record: Record, ledger: Ledger, rules: Envelopes) -> None:
    """Lines that are no message: not UTF-8, an array, a message in pieces, or something else."""
    pieces: list[Line] = []
    for line in [*record.sent, None]:
        if line is not None and line.message is None and not line.unread and line.data.strip():
            pieces.append(line)
            continue
        if pieces:
            _noisy(pieces, ledger, rules)
            pieces = []


def _noisy(pieces: list[Line], ledger: Ledger, rules: Envelopes) -> None:
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


def _answers(record: Record, ledger: Ledger, rules: Envelopes) -> None:
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


def _errors(lines: list[Line], ledger: Ledger, rules: Envelopes) -> None:
    for line in lines:
        message = line.message or {}
        if "error" not in message or "method" in message:
            continue
        code, text = at(message, "error", "code"), at(message, "error", "message")
        sound = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
        good, bad = "errors have a code and a message", "an error without a code and a message"
        ledger.judge(rules.error, sound, good, bad, [line.shown])


def _methods(record: Record, ledger: Ledger, rules: Envelopes) -> None:
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


def _told(record: Record) -> Any:
    """How the side under test introduced itself: the agent by its capabilities, a client by all of `initialize`."""
    if record.side == "agent":
        return at(record.initialized, "agentCapabilities")
    return [line.params for line in record.calls if line.method == "initialize"]
