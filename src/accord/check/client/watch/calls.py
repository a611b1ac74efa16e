"""What the client's calls and answers say, taken one by one."""

import os.path
from typing import Any

from accord.check.client.watch.record import ClientRecord
from accord.check.ledger import Ledger
from accord.trace.exchange import at, listed


def look(record: ClientRecord, ledger: Ledger) -> None:
    """Judge them."""
    _beginning(record, ledger)
    _folders(record, ledger)
    _servers(record, ledger)
    _choices(record, ledger)
    _permissions(record, ledger)


def _beginning(record: ClientRecord, ledger: Ledger) -> None:
    if record.calls:
        first = record.calls[0]
        bad = f"{first.method} came first"
        ledger.judge(58, first.method == "initialize", "initialize is the first", bad, [first.shown])
    for line in record.calls:
        if line.method == "initialize":
            info = at(line.params, "clientInfo")
            told = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
            ledger.judge(
                60, told, "it says who it is", "no `clientInfo` with a name and a version", [line.shown]
            )


def _folders(record: ClientRecord, ledger: Ledger) -> None:
    for line in record.calls:
        cwd = at(line.params, "cwd")
        if isinstance(cwd, str) and line.method in (
            "session/new",
            "session/load",
            "session/resume",
            "session/fork",
        ):
            ledger.judge(91, os.path.isabs(cwd), "absolute", f"the folder {cwd!r} is relative", [line.shown])
        for root in listed(line.params, "additionalDirectories"):
            kept = isinstance(root, str) and os.path.isabs(root)
            ledger.judge(130, kept, "absolute", f"the folder {root!r} is relative", [line.shown])


def _servers(record: ClientRecord, ledger: Ledger) -> None:
    for line in record.calls:
        names: list[Any] = []
        for server in listed(line.params, "mcpServers"):
            kind = at(server, "type")
            if kind is None:
                sound = isinstance(at(server, "env"), list) and isinstance(at(server, "args"), list)
                ledger.judge(100, sound, "complete", "`args` or `env` is not there", [line.shown])
            elif kind in ("http", "sse"):
                sound = isinstance(at(server, "headers"), list)
                ledger.judge(101, sound, "complete", "`headers` is not there", [line.shown])
            elif kind == "acp":
                names.append(at(server, "serverId"))
        if len(set(map(str, names))) < len(names):
            ledger.broken(301, "two servers have the same `serverId`", [line.shown])


def _choices(record: ClientRecord, ledger: Ledger) -> None:
    modes = [
        at(mode, "id")
        for _, result in record.results("session/new", "session/load", "session/resume")
        for mode in listed(at(result, "modes"), "availableModes")
    ]
    for line in record.calls:
        if line.method == "session/set_mode":
            mode = at(line.params, "modeId")
            ledger.judge(207, mode in modes, "a listed one", f"the mode {mode!r} is not listed", [line.shown])


def _permissions(record: ClientRecord, ledger: Ledger) -> None:
    for exchange in record.asked_by_agent:
        if exchange.request.method != "session/request_permission":
            continue
        offered = [at(option, "optionId") for option in listed(exchange.request.params, "options")]
        for answer in exchange.answers:
            outcome = at(answer.message, "result", "outcome")
            if at(outcome, "outcome") == "selected":
                chosen = at(outcome, "optionId")
                shown = [exchange.request.shown, answer.shown]
                bad = f"the option {chosen!r} was not offered"
                ledger.judge(197, chosen in offered, "an offered option", bad, shown)
            if at(answer.message, "error", "code") == -32601:
                ledger.broken(196, "it does not know session/request_permission", [answer.shown])
