"""Plans, modes, config options, usage: what each update and result must carry."""

import re
from typing import Any, Final, cast

from accord.check.agent.watch.gates import options_told
from accord.check.agent.watch.record import AgentRecord
from accord.check.ledger import Ledger
from accord.check.lines import Line, key
from accord.trace.exchange import at, listed

_TRACE: Final = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(r"[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*"),
    "baggage": re.compile(r"[^=,\s]+=[^,]*(,.*)?", re.DOTALL),
}


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge the settings and plans."""
    _plans(record, ledger)
    _modes(record, ledger)
    _options(record, ledger)
    _login(record, ledger)
    for line in record.updates:
        if line.kind == "usage_update" and isinstance(line.update.get("size"), int):
            size = line.update["size"]
            ledger.judge(235, size > 0, "with a meaningful size", f"the size is {size}", [line.shown])
    for line in record.sent:
        for name, value in _traces(line.message):
            sound = isinstance(value, str) and _TRACE[name].fullmatch(value) is not None
            bad = f"{name} is {value!r}, which is no W3C trace context"
            ledger.judge(48, sound, "trace context as the W3C has it", bad, [line.shown])


def _plans(record: AgentRecord, ledger: Ledger) -> None:
    """An unfinished entry does not vanish while nothing new comes: that would be a change sent as if it were all."""
    last: dict[str, tuple[Line, dict[str, Any]]] = {}
    for line in record.updates:
        if line.kind != "plan" or record.replayed(line):
            continue
        entries = {str(at(one, "content")): at(one, "status") for one in listed(line.update, "entries")}
        before = last.get(line.session)
        last[line.session] = (line, entries)
        if before is None or not entries:
            continue
        lost = [text for text, status in before[1].items() if text not in entries and status != "completed"]
        partial = bool(lost) and all(text in before[1] for text in entries)
        bad = f"the entry {lost[0]!r} is gone" if lost else ""
        ledger.judge(203, not partial, "plans are sent whole", bad, [before[0].shown, line.shown])


def _modes(record: AgentRecord, ledger: Ledger) -> None:
    for line, result in record.results("session/new", "session/load", "session/resume", "session/fork"):
        modes = at(result, "modes")
        if isinstance(modes, dict):
            ids = [at(mode, "id") for mode in listed(modes, "availableModes")]
            current = at(modes, "currentModeId")
            bad = f"the current mode {current!r} is not among {ids}"
            ledger.judge(206, current in ids, "the current mode is one of them", bad, [line.shown])


def values_of(option: Any) -> list[Any]:
    """The values of a select, flat or in groups."""
    found: list[Any] = []
    for one in listed(option, "options"):
        if "options" in one:
            found += [at(inner, "value") for inner in listed(one, "options")]
        else:
            found.append(at(one, "value"))
    return found


def _options(record: AgentRecord, ledger: Ledger) -> None:
    known: dict[str, set[str]] = {}
    for line, options in options_told(record):
        for option in options:
            _option(line, option, ledger)
        ids = {key(at(option, "id")) for option in options}
        session = line.session or "new"
        before = known.get(session) or known.get("new") or set()
        if line.kind == "config_option_update" and len(before) > 1:
            bad = f"{len(ids)} of {len(before)} options"
            ledger.judge(216, not (len(ids) == 1 and ids < before), "the complete list", bad, [line.shown])
        known[session] = ids


def _option(line: Line, option: Any, ledger: Ledger) -> None:
    current = at(option, "currentValue")
    bad = f"{at(option, 'id')} has no current value"
    ledger.judge(212, current is not None, "every option has a current value", bad, [line.shown])
    if at(option, "type") != "select":
        return
    if current is not None:
        bad = f"{at(option, 'id')} is {current!r}, which is not among its values"
        ledger.judge(213, current in values_of(option), "current values are offered ones", bad, [line.shown])
    shapes = {"options" in one for one in listed(option, "options") if isinstance(one, dict)}
    bad = f"the options of {at(option, 'id')} are flat and grouped"
    ledger.judge(214, len(shapes) <= 1, "all flat or all grouped", bad, [line.shown])


def _login(record: AgentRecord, ledger: Ledger) -> None:
    for line, result in record.results("initialize"):
        ids = [at(one, "id") for one in listed(result, "authMethods")]
        if ids:
            whole = all(isinstance(id, str) and id for id in ids) and len(set(map(str, ids))) == len(ids)
            names = all(isinstance(at(one, "name"), str) for one in listed(result, "authMethods"))
            bad = "two auth methods have one id, or one lacks it"
            ledger.judge(76, whole and names, "auth methods have ids of their own", bad, [line.shown])


def _traces(value: Any) -> list[tuple[str, Any]]:
    """Trace context in any `_meta`."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        meta = members.get("_meta")
        found += [(name, at(meta, name)) for name in _TRACE if at(meta, name) is not None]
        for inner in members.values():
            found += _traces(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            found += _traces(inner)
    return found
