"""What the newer parts of the protocol let one see: compactions, archives, sub-agents, MCP over ACP, auth status."""

from typing import Any

from accord.check.agent.watch.record import AgentRecord
from accord.check.agent.watch.toolcalls import is_absolute
from accord.check.ledger import Ledger
from accord.check.lines import Line, key
from accord.trace.exchange import at, listed


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge them."""
    _compactions(record, ledger)
    _archives(record, ledger)
    _children(record, ledger)
    _mcp(record, ledger)
    _auth(record, ledger)


def _compactions(record: AgentRecord, ledger: Ledger) -> None:
    ended: dict[str, Line] = {}
    for line in record.updates:
        if line.kind != "compaction_update" or record.replayed(line):
            continue
        id, status = line.update.get("compactionId"), line.update.get("status")
        if status in ("completed", "failed", "cancelled"):
            bad = f"the compaction {id} has ended before"
            ledger.judge(318, key(id) not in ended, "one end each", bad, [line.shown])
            ended[key(id)] = line
        elif status == "in_progress" and key(id) in ended:
            ledger.broken(
                318, f"the id of the compaction {id} is used again", [ended[key(id)].shown, line.shown]
            )


def _archives(record: AgentRecord, ledger: Ledger) -> None:
    sessions = at(record.initialized, "agentCapabilities", "sessionCapabilities")
    if not isinstance(at(sessions, "archive"), dict):
        return
    answers = [line.shown for line, _ in record.results("initialize")]
    listing = isinstance(at(sessions, "list"), dict)
    ledger.judge(
        331, listing, "it lists sessions too", "it archives sessions and does not list them", answers
    )
    for line, result in record.results("session/list"):
        for entry in listed(result, "sessions"):
            told = at(entry, "archived")
            bad = f"`archived` is {told!r} in an entry"
            ledger.judge(338, isinstance(told, bool), "every entry says whether", bad, [line.shown])


def _children(record: AgentRecord, ledger: Ledger) -> None:
    opened = {key(at(result, "sessionId")) for _, result in record.results("session/new", "session/fork")}
    opened |= {
        key(one.request.session)
        for one in record.asked
        if one.request.method in ("session/load", "session/resume")
    }
    announced: set[str] = set()
    for line in record.updates:
        if line.kind == "subagent_update":
            announced.add(key(line.update.get("sessionId")))
            paths = [line.update.get("cwd"), *listed(line.update, "additionalDirectories")]
            for path in paths:
                if path is not None:
                    ledger.judge(376, is_absolute(path), "absolute", f"the folder {path!r}", [line.shown])
        elif key(line.session) not in opened and record.offers("subagents"):
            bad = f"an update of {line.session}, which was never announced"
            if record.turns:
                ledger.judge(
                    375, key(line.session) in announced, "children are announced first", bad, [line.shown]
                )


def _mcp(record: AgentRecord, ledger: Ledger) -> None:
    declared = {
        key(at(server, "serverId"))
        for one in record.asked
        for server in listed(one.request.params, "mcpServers")
        if at(server, "type") == "acp"
    }
    active: dict[tuple[str, str], int] = {}
    ends = {one.request.number: one.answers[0].number for one in record.asked_by_agent if one.answers}
    for line in record.requests("mcp/message"):
        server, number = at(line.params, "serverId"), at(line.params, "requestId")
        place, known = (key(server), key(number)), key(server) in declared
        busy = active.get(place, 0) > line.number
        bad = f"{number!r} is in use there" if known else f"{server!r} was not declared"
        ledger.judge(364, known and not busy, "declared servers, fresh ids", bad, [line.shown])
        active[place] = ends.get(line.number, len(record.lines) + 1)


def _auth(record: AgentRecord, ledger: Ledger) -> None:
    offered = isinstance(at(record.initialized, "agentCapabilities", "auth", "status"), dict)
    begun = next((line.number for line, _ in record.results("initialize")), len(record.lines) + 1)
    last: Any = None
    for line in record.sent:
        if line.method != "auth/status_update":
            continue
        bad = "the agent does not offer `auth.status`" if not offered else "before the answer to initialize"
        ledger.judge(360, offered and line.number > begun, "offered, and in time", bad, [line.shown])
        ledger.judge(361, line.params != last, "only changes are told", "nothing changed", [line.shown])
        last = line.params
