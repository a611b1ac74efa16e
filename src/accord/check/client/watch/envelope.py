"""Lines and envelopes: one JSON object a line, UTF-8, `jsonrpc`, ids, one answer each, sound errors, known methods."""

import json
from typing import Final

from accord.check.agent.lines import Line, key
from accord.check.client.watch.record import ClientRecord
from accord.check.ledger import Ledger
from accord.schema.jsontext import is_utf8
from accord.schema.methods import notification, request
from accord.trace.exchange import at

_ALL: Final = "in every line"
_UNREADABLE: Final = (-32700, -32600)


def look(record: ClientRecord, ledger: Ledger) -> None:
    """Judge the envelopes."""
    sound = [line for line in record.from_client if line.message is not None]
    _noise(record, ledger)
    for line in sound:
        versioned = (line.message or {}).get("jsonrpc") == "2.0"
        ledger.judge(8, versioned, _ALL, 'no `jsonrpc: "2.0"`', [] if versioned else [line.shown])
    if sound:
        for rule in (2, 30):
            ledger.kept(rule, _ALL)
    _answers(record, ledger)
    _errors(sound, ledger)
    _methods(record, ledger)


def _noise(record: ClientRecord, ledger: Ledger) -> None:
    """Lines that are no message: not UTF-8, an array, a message in pieces, or something else."""
    pieces: list[Line] = []
    for line in [*record.from_client, None]:
        if line is not None and line.message is None and line.data.strip():
            pieces.append(line)
            continue
        if pieces:
            _noisy(pieces, ledger)
            pieces = []


def _noisy(pieces: list[Line], ledger: Ledger) -> None:
    shown = [line.shown for line in pieces]
    if len(pieces) > 1 and _is_message("\n".join(line.data.decode("utf-8", "replace") for line in pieces)):
        ledger.broken(4, "a message is spread over several lines", shown)
        return
    for line in pieces:
        if not is_utf8(line.data):
            ledger.broken(6, "a line is not UTF-8", [line.shown])
        elif line.data.lstrip()[:1] == b"[" and _parses(line.data):
            ledger.broken(30, "an array of messages", [line.shown])
        else:
            ledger.broken(2, "a line that is no message", [line.shown])


def _parses(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _is_message(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except ValueError:
        return False


def _answers(record: ClientRecord, ledger: Ledger) -> None:
    known = {key(one.request.id) for one in record.asked_by_agent}
    for line in record.from_client:
        if not line.is_answer:
            continue
        if line.id is None and at(line.message, "error", "code") not in _UNREADABLE:
            ledger.broken(14, "an answer without an id, to something that was no request", [line.shown])
        elif line.id is not None and key(line.id) not in known:
            ledger.broken(10, f"an answer to the id {line.id!r}, which nobody asked under", [line.shown])
    for exchange in record.asked_by_agent:
        for answer in exchange.answers:
            message = answer.message or {}
            if "result" in message and "error" in message:
                ledger.broken(12, "an answer with a result and an error", [answer.shown])
        if len(exchange.answers) > 1:
            shown = [exchange.request.shown, *(answer.shown for answer in exchange.answers)]
            ledger.broken(12, f"{len(exchange.answers)} answers to one request", shown)
        elif exchange.answers:
            ledger.kept(12, "every request has one answer")
    for line in record.from_client:
        message = line.message or {}
        if message and "method" not in message and not line.is_answer:
            ledger.broken("schema", "neither a call nor an answer", [line.shown])


def _errors(lines: list[Line], ledger: Ledger) -> None:
    for line in lines:
        message = line.message or {}
        if "error" not in message or "method" in message:
            continue
        code, text = at(message, "error", "code"), at(message, "error", "message")
        sound = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
        good, bad = "errors have a code and a message", "an error without a code and a message"
        ledger.judge(28, sound, good, bad, [line.shown])


def _methods(record: ClientRecord, ledger: Ledger) -> None:
    for line in record.calls:
        find = request if line.is_request else notification
        known = find("agent", line.method) is not None or line.method.startswith(("_", "$/"))
        if line.method == "session/cancel":
            ledger.judge(160, not line.is_request, "without an id", "it is a request", [line.shown])
            continue
        ledger.judge(
            45,
            known,
            "its methods are those of the protocol, or begin with `_`",
            f"{line.method} is no {'request' if line.is_request else 'notification'} of the protocol",
            [line.shown],
        )
    own = [line for line in record.calls if line.method.startswith("_")]
    if own:
        announced = any(
            '"_meta"' in json.dumps(line.params) for line in record.calls if line.method == "initialize"
        )
        bad = f"{own[0].method} is used, and no `_meta` in the capabilities says so"
        ledger.judge(47, announced, "its extensions are announced", bad, [own[0].shown])
