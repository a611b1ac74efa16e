"""Turns: what comes before their answer and what must not come after, message ids, replays."""

from typing import Final

from accord.check.agent.watch.record import AgentRecord
from accord.check.ledger import Ledger
from accord.check.lines import Line

_OF_A_TURN: Final = (
    *("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"),
)
_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge the order of things in turns."""
    _late(record, ledger)
    _message_ids(record, ledger)
    _replays(record, ledger)
    _resumes(record, ledger)


def _late(record: AgentRecord, ledger: Ledger) -> None:
    """Updates of a turn come before its answer."""
    for line in record.updates:
        if line.kind not in _OF_A_TURN or record.replayed(line) or record.turn_at(line) is not None:
            continue
        over = [turn for turn in record.turns if turn.session == line.session and turn.end < line.number]
        if over and over[-1].answer is not None:
            last = over[-1]
            shown = [over[-1].answer.shown, line.shown]
            ledger.broken(164 if last.cancelled else 144, f"{line.kind} after the answer of its turn", shown)
    for turn in record.turns:
        if turn.answer is not None and "result" in (turn.answer.message or {}):
            ledger.kept(164 if turn.cancelled else 144, "nothing of a turn comes after its answer")


def _message_ids(record: AgentRecord, ledger: Ledger) -> None:
    """One id belongs to one message: of one kind, in one turn."""
    owners: dict[tuple[str, str], tuple[str, int, Line]] = {}
    chunks: dict[tuple[str, int, str], list[str]] = {}
    for line in record.updates:
        id = line.update.get("messageId")
        if line.kind not in _CHUNKS or not isinstance(id, str) or record.replayed(line):
            continue
        turn = record.turn_at(line)
        begin = turn.begin if turn else 0
        known = owners.setdefault((line.session, id), (line.kind, begin, line))
        if known[:2] != (line.kind, begin):
            shown = [known[2].shown, line.shown]
            ledger.broken(147, f"the message id {id} is used for two messages", shown)
        else:
            ledger.kept(147, "message ids belong to one message each")
        chunks.setdefault((line.session, begin, line.kind), []).append(id)
    for (_, _, kind), ids in chunks.items():
        if len(ids) > 3 and len(set(ids)) == len(ids):
            ledger.broken(147, f"every {kind} of a turn has a message id of its own")


def _replays(record: AgentRecord, ledger: Ledger) -> None:
    for exchange in record.asked:
        if exchange.request.method != "session/load" or not exchange.answers:
            continue
        answer = exchange.answers[0]
        if "result" not in (answer.message or {}):
            continue
        session = exchange.request.session
        until = next(
            (turn.begin for turn in record.turns if turn.begin > answer.number), len(record.lines) + 1
        )
        late = [
            line
            for line in record.updates
            if line.session == session and line.kind in _CHUNKS and answer.number < line.number < until
        ]
        early = any(
            line.session == session and exchange.request.number < line.number < answer.number
            for line in record.updates
            if line.kind in _CHUNKS
        )
        if late:
            ledger.broken(105, "the replay goes on after the answer", [answer.shown, late[0].shown])
        elif early:
            ledger.kept(105, "the answer comes after the replay", [answer.shown])


def _resumes(record: AgentRecord, ledger: Ledger) -> None:
    for exchange in record.asked:
        if exchange.request.method != "session/resume" or not exchange.answers:
            continue
        begin, end = exchange.request.number, exchange.answers[0].number
        if "result" not in (exchange.answers[0].message or {}):
            continue
        told = [line for line in record.updates if line.kind in _CHUNKS and begin < line.number < end]
        ledger.judge(
            110,
            not told,
            "no history before the answer",
            f"{len(told)} message chunks before the answer",
            [exchange.request.shown, *(line.shown for line in told[:2])],
        )
