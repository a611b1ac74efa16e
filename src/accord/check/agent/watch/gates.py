"""Gates: what an agent may send only to a client that advertised it."""

from typing import Any, Final, NamedTuple

from accord.check.agent.watch.record import AgentRecord
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line
from accord.trace.exchange import at, listed


class Gate(NamedTuple):
    """Methods or kinds of update behind one capability of the client, and the rule that says so."""

    rule: Rule
    capability: str
    names: tuple[str, ...]


GATES: Final = (
    Gate(236, "fs.readTextFile", ("fs/read_text_file",)),
    Gate(237, "fs.writeTextFile", ("fs/write_text_file",)),
    Gate(
        247,
        "terminal",
        (
            *("terminal/create", "terminal/output", "terminal/wait_for_exit"),
            *("terminal/kill", "terminal/release"),
        ),
    ),
    Gate(284, "plan", ("plan_update", "plan_removed")),
    Gate(291, "session.compaction", ("compaction_update", "compaction_summary_chunk", "compaction_chunk")),
    Gate(312, "session.notices", ("notice",)),
    Gate(374, "subagents", ("subagent_update", "session_message", "session_message_chunk")),
)
_ASKED_FOR: Final = ("fs/", "terminal/", "elicitation/")


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Hold what was sent against what the client said it can do."""
    if not record.began:
        return
    if record.nothing_offered:
        for line in record.sent:
            if line.is_request and line.method.startswith(_ASKED_FOR):
                ledger.broken(68, f"{line.method}, and the client told of no capability", [line.shown])
        if record.turns:
            ledger.kept(68, "a client without capabilities is asked for nothing")
    for gate in GATES:
        sent = [line for line in record.sent if (line.kind or line.method) in gate.names]
        if record.offers(gate.capability):
            if sent:
                ledger.kept(
                    gate.rule, f"{sent[0].kind or sent[0].method} is sent where the client has the gate"
                )
        elif not record.nothing_offered or not gate.names[0].startswith(_ASKED_FOR):
            for line in sent:
                name = line.kind or line.method
                ledger.broken(
                    gate.rule, f"{name}, and the client does not offer {gate.capability}", [line.shown]
                )
    _elicitations(record, ledger)
    _terminal_logins(record, ledger)
    _booleans(record, ledger)


def _elicitations(record: AgentRecord, ledger: Ledger) -> None:
    if record.nothing_offered:
        return
    for line in record.requests("elicitation/create"):
        mode = at(line.params, "mode")
        ledger.judge(
            260,
            isinstance(mode, str) and record.offers(f"elicitation.{mode}"),
            f"asks by {mode}, which the client has",
            f"asks by {mode!r}, which the client does not have",
            [line.shown],
        )


def _terminal_logins(record: AgentRecord, ledger: Ledger) -> None:
    methods = [one for one in listed(record.initialized, "authMethods") if at(one, "type") == "terminal"]
    answers = [line for line, _ in record.results("initialize")]
    if record.offers("auth.terminal"):
        if methods:
            ledger.kept(77, "terminal logins are offered to a client that has terminals for it")
    elif methods:
        shown = [line.shown for line in answers[:1]]
        ledger.broken(77, "a terminal login, and the client cannot do that", shown)


def _booleans(record: AgentRecord, ledger: Ledger) -> None:
    for line, options in options_told(record):
        if any(at(option, "type") == "boolean" for option in options):
            ledger.judge(
                217,
                record.offers("session.configOptions.boolean"),
                "boolean options go to a client that knows them",
                "a boolean option, and the client does not know such",
                [line.shown],
            )


def options_told(record: AgentRecord) -> list[tuple[Line, list[Any]]]:
    """Every list of config options that the agent sent, in order."""
    told = [
        (line, listed(result, "configOptions"))
        for line, result in record.results(
            *("session/new", "session/load", "session/resume", "session/fork", "session/set_config_option")
        )
        if at(result, "configOptions") is not None
    ]
    told += [
        (line, listed(line.update, "configOptions"))
        for line in record.updates
        if line.kind == "config_option_update"
    ]
    return sorted(told, key=lambda pair: pair[0].number)
