"""Tool calls: announced before they change, ids not used again, absolute paths, begun, ended; terminals shown in time."""

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from accord.check.agent.watch.record import AgentRecord, TurnSpan
from accord.check.ledger import Ledger
from accord.check.lines import Line, key
from accord.trace.exchange import at, listed


def is_absolute(path: Any) -> bool:
    """Whether a path is absolute, on whichever system."""
    return isinstance(path, str) and (
        PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
    )


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge the tool calls."""
    _Calls(record, ledger).look()
    for line in record.updates:
        if line.kind in ("tool_call", "tool_call_update"):
            _places(line, ledger)
    _terminals(record, ledger)


class _Call:
    def __init__(self, line: Line, turn: TurnSpan | None) -> None:
        self.line = line
        self.turn = turn
        self.ran = False
        self.status: Any = None


class _Calls:
    """The tool calls of a conversation by session and id."""

    def __init__(self, record: AgentRecord, ledger: Ledger) -> None:
        self.record = record
        self.ledger = ledger
        self.known: dict[tuple[str, str], _Call] = {}

    def look(self) -> None:
        for line in self.record.sent:
            if line.kind in ("tool_call", "tool_call_update"):
                self._update(line)
            elif line.method == "session/request_permission":
                self._asked(line)
        for call in self.known.values():
            self._over(call)

    def _update(self, line: Line) -> None:
        id, record = line.update.get("toolCallId"), self.record
        if not isinstance(id, str):
            return
        if record.replayed(line):
            self.known.setdefault((line.session, id), _Call(line, None))
            return
        call = self.known.get((line.session, id))
        turn = record.turn_at(line)
        if line.kind == "tool_call":
            if call is not None and call.turn is not None:
                other = "another turn" if call.turn != turn else "the same turn"
                shown = [call.line.shown, line.shown]
                self.ledger.broken(174, f"the tool call id {id} was used before, in {other}", shown)
            else:
                self.ledger.kept(174, "tool call ids are not used again")
            call = self.known[line.session, id] = _Call(line, turn)
        elif call is None:
            self.ledger.broken(181, f"a change of {id}, which was never announced", [line.shown])
            call = self.known[line.session, id] = _Call(line, turn)
        else:
            self.ledger.kept(181, "changes are of tool calls that were announced")
        status = line.update.get("status")
        if status is not None:
            call.status = status
            call.ran = call.ran or status == "in_progress"

    def _asked(self, line: Line) -> None:
        id = at(line.params, "toolCall", "toolCallId")
        if isinstance(id, str) and (line.session, id) not in self.known:
            # It may be the request itself that brings the call into being, when it says what the call is.
            if isinstance(at(line.params, "toolCall", "title"), str):
                self.known[line.session, id] = _Call(line, None)
            else:
                self.ledger.broken(181, f"permission for {id}, which was never announced", [line.shown])

    def _over(self, call: _Call) -> None:
        turn = call.turn
        if turn is None or turn.answer is None or turn.cancelled:
            return
        if at((turn.answer.message or {}).get("result"), "stopReason") != "end_turn":
            return
        shown = [call.line.shown, turn.answer.shown]
        done = call.status in ("completed", "failed")
        self.ledger.judge(
            183, done, "ended calls say so", f"a call is still {call.status!r} when its turn ends", shown
        )
        if call.status == "completed":
            self.ledger.judge(
                182, call.ran, "calls that run say so", "a call is completed and never was in progress", shown
            )


def _places(line: Line, ledger: Ledger) -> None:
    diffs = [one for one in listed(line.update, "content") if at(one, "type") == "diff"]
    places = listed(line.update, "locations")
    for place in [*diffs, *places]:
        path = at(place, "path")
        if isinstance(path, str):
            ledger.judge(178, is_absolute(path), "paths are absolute", f"the path {path!r}", [line.shown])
    for place in places:
        number = at(place, "line")
        if isinstance(number, int):
            ledger.judge(180, number >= 1, "lines count from 1", f"line {number}", [line.shown])


def _terminals(record: AgentRecord, ledger: Ledger) -> None:
    """A terminal is shown before it is released; one that was may be named again afterwards."""
    released: dict[str, Line] = {}
    shown: set[str] = set()
    for line in record.sent:
        if line.method == "terminal/release":
            released.setdefault(key(at(line.params, "terminalId")), line)
        elif line.kind in ("tool_call", "tool_call_update"):
            for one in listed(line.update, "content"):
                id = key(at(one, "terminalId"))
                if at(one, "type") != "terminal":
                    continue
                if id not in released:
                    shown.add(id)
                if record.replayed(line):
                    continue
                if id not in released:
                    ledger.kept(190, "a terminal is shown before it is released", [line.shown])
                elif id not in shown:
                    bad = f"{at(one, 'terminalId')} is shown only after its release"
                    ledger.broken(190, bad, [released[id].shown, line.shown])
