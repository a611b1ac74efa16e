"""Lines and envelopes: one JSON object a line, UTF-8, `jsonrpc`, ids, one answer each, sound errors, known methods."""

import json

from accord.check.agent.lines import Line, key
from accord.check.agent.watch.record import Record
from accord.check.ledger import Ledger
from accord.check.verdict import Evidence
from accord.schema.jsontext import is_utf8
from accord.schema.methods import notification, request
from accord.trace.exchange import at


def look(record: Record, ledger: Ledger) -> None:
    """Judge the envelopes."""
    sound = [line for line in record.from_agent if line.message is not None]
    _noise(record, ledger)
    for line in sound:
        ledger.judge(7, (line.message or {}).get("jsonrpc") == "2.0", _ALL, 'no `jsonrpc: "2.0"`', _bad(line))
    if sound:
        for rule in (1, 29):
            ledger.kept(rule, _ALL)
    for line in sound:
        if b"\\n" in line.data:
            ledger.kept(3, "text of several lines came in one line", [line.shown])
            break
    for line in sound:
        if not line.data.isascii() or b"\\u" in line.data:
            ledger.kept(5, "what is not ASCII came as UTF-8 or escaped", [line.shown])
            break
    _answers(record, ledger)
    _errors(sound, ledger)
    _methods(sound, ledger)
    _extensions(record, ledger)


_ALL = "in every line"


def _bad(line: Line) -> list[Evidence]:
    return [line.shown] if (line.message or {}).get("jsonrpc") != "2.0" else []


def _noise(record: Record, ledger: Ledger) -> None:
    """Lines that are no message: not UTF-8, an array, a message in pieces, or something else."""
    pieces: list[Line] = []
    for line in [*record.from_agent, None]:
        if line is not None and line.message is None and line.data.strip():
            pieces.append(line)
            continue
        if pieces:
            _noisy(pieces, ledger)
            pieces = []


def _noisy(pieces: list[Line], ledger: Ledger) -> None:
    shown = [line.shown for line in pieces]
    if len(pieces) > 1 and _is_message("\n".join(line.data.decode("utf-8", "replace") for line in pieces)):
        ledger.broken(3, "a message is spread over several lines", shown)
        return
    for line in pieces:
        if not is_utf8(line.data):
            ledger.broken(5, "a line is not UTF-8", [line.shown])
        elif line.data.lstrip()[:1] == b"[" and _parses(line.data.decode()):
            ledger.broken(29, "an array of messages", [line.shown])
        else:
            ledger.broken(1, "a line that is no message", [line.shown])


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_message(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except ValueError:
        return False


def _answers(record: Record, ledger: Ledger) -> None:
    known = {key(one.request.id) for one in record.asked}
    for line in record.from_agent:
        if line.is_answer and line.id is not None and key(line.id) not in known:
            ledger.broken(9, f"an answer to the id {line.id!r}, which nobody asked under", [line.shown])
    for exchange in record.asked:
        for answer in exchange.answers:
            message = answer.message or {}
            if "result" in message and "error" in message:
                ledger.broken(11, "an answer with a result and an error", [answer.shown])
        if len(exchange.answers) > 1:
            shown = [exchange.request.shown, *(answer.shown for answer in exchange.answers)]
            ledger.broken(11, f"{len(exchange.answers)} answers to one request", shown)
        elif exchange.answers:
            ledger.kept(11, "every request has one answer")
    for line in record.from_agent:
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
        ledger.judge(
            27,
            sound,
            "errors have a code and a message",
            "an error without a code and a message",
            [line.shown],
        )


def _methods(lines: list[Line], ledger: Ledger) -> None:
    for line in lines:
        if not line.method:
            continue
        find = request if line.is_request else notification
        known = find("client", line.method) is not None or line.method.startswith(("_", "$/"))
        ledger.judge(
            44,
            known,
            "its methods are those of the protocol, or begin with `_`",
            f"{line.method} is no {'request' if line.is_request else 'notification'} of the protocol",
            [line.shown],
        )


def _extensions(record: Record, ledger: Ledger) -> None:
    own = [line for line in record.from_agent if line.method.startswith("_")]
    if own:
        told = at(record.initialized, "agentCapabilities")
        ledger.judge(
            46,
            '"_meta"' in json.dumps(told),
            "its extensions are announced",
            f"{own[0].method} is used, and no `_meta` in the capabilities says so",
            [own[0].shown],
        )
