"""What the agent asks the client for: permissions, files, terminals, elicitations."""

import re
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from accord.check.agent.watch.record import AgentRecord
from accord.check.agent.watch.toolcalls import is_absolute
from accord.check.ledger import Ledger
from accord.check.lines import Line, key
from accord.trace.exchange import at, listed

_SECRET: Final = re.compile(
    r"pass(word|phrase|code)|secret|token|api[-_ ]?key|credential|\bpin\b", re.IGNORECASE
)
_FLAT: Final = ("string", "number", "integer", "boolean", "array")


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge what is asked."""
    for line in record.requests("session/request_permission"):
        ids = [at(one, "optionId") for one in listed(line.params, "options")]
        ledger.judge(
            195, bool(ids) and len(set(map(str, ids))) == len(ids), "options with ids of their own",
            "no option" if not ids else "two options have one id", [line.shown],
        )  # fmt: skip
    for line in record.requests("fs/read_text_file", "fs/write_text_file"):
        path = at(line.params, "path")
        ledger.judge(238, is_absolute(path), "paths are absolute", f"the path {path!r}", [line.shown])
    _terminals(record, ledger)
    _elicitations(record, ledger)


def _terminals(record: AgentRecord, ledger: Ledger) -> None:
    for line in record.requests("terminal/create"):
        cwd = at(line.params, "cwd")
        if cwd is not None:
            ledger.judge(258, is_absolute(cwd), "`cwd` is absolute", f"`cwd` is {cwd!r}", [line.shown])
    released = {key(at(line.params, "terminalId")) for line in record.requests("terminal/release")}
    for exchange in record.asked_by_agent:
        if exchange.request.method != "terminal/create" or not exchange.answers:
            continue
        id = at((exchange.answers[0].message or {}).get("result"), "terminalId")
        turn = record.turn_at(exchange.request)
        if id is None or turn is None or turn.answer is None:
            continue
        ledger.judge(
            257,
            key(id) in released,
            "every terminal is released",
            f"{id} is never released",
            [exchange.request.shown],
        )


def _elicitations(record: AgentRecord, ledger: Ledger) -> None:
    issued: set[str] = set()
    waiting: dict[str, Line] = {}
    for line in record.sent:
        if line.method == "elicitation/complete":
            id = at(line.params, "elicitationId")
            ledger.judge(
                269,
                key(id) in issued,
                "only what it began is completed",
                f"{id!r} was never begun",
                [line.shown],
            )
            waiting.pop(key(id), None)
        elif line.method == "elicitation/create" and line.is_request:
            _elicitation(line, ledger)
            id = at(line.params, "elicitationId")
            if isinstance(id, str):
                bad = f"the elicitation id {id!r} is in use already"
                ledger.judge(267, key(id) not in waiting, "ids of their own", bad, [line.shown])
                issued.add(key(id))
                waiting[key(id)] = line


def _elicitation(line: Line, ledger: Ledger) -> None:
    params: Any = line.params
    scopes = [name for name in ("sessionId", "requestId") if at(params, name) is not None]
    extra = at(params, "toolCallId") is not None and "sessionId" not in scopes
    bad = f"its scope is {' and '.join(scopes) or 'missing'}"
    ledger.judge(263, len(scopes) == 1 and not extra, "one scope", bad, [line.shown])
    if at(params, "mode") == "url":
        _url(line, at(params, "url"), ledger)
        return
    fields: Any = at(params, "requestedSchema", "properties")
    if not isinstance(fields, dict):
        return
    for name, field in cast(dict[str, Any], fields).items():
        kind = at(field, "type")
        bad = f"the field {name} is {kind!r}"
        ledger.judge(264, kind in _FLAT, "flat fields", bad, [line.shown])
        words = " ".join(str(word) for word in (name, at(field, "title"), at(field, "description")) if word)
        ledger.judge(
            265,
            not _SECRET.search(words),
            "no secret is asked for",
            f"the field {name} is a secret",
            [line.shown],
        )


def _url(line: Line, url: Any, ledger: Ledger) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        ledger.broken(268, f"{url!r} is no URL", [line.shown])
        return
    secret = parts.password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query))
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    sound = not secret and (parts.scheme == "https" or local)
    bad = "the URL carries a secret" if secret else f"the URL is {parts.scheme or 'none'}, not https"
    ledger.judge(268, sound, "an https URL without secrets", bad, [line.shown])
