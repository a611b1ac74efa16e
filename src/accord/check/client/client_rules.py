"""Passive rules for every message of a client: schema, envelope, calls, capabilities."""

import os.path
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import WireLine
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.check.wire_rules import MOST_TOLD, ConnectionRecord, RuleLocation, SentMessage, sent
from accord.schema.validation import violations
from accord.trace.trace_steps import at, listed

if TYPE_CHECKING:
    from accord.check.client.client_under_test import ClientUnderTest


# MERGED check.client.watch.record: A conversation with a client that is over.


class ClientRecord(ConnectionRecord):
    """One conversation, as the agent had it."""

    def __init__(self, part: "ClientUnderTest") -> None:
        super().__init__(part, part.offered, part.initialized)
        self.blamed = part.desk.blamed
        """The rule that is broken by whatever is used without being advertised; None: the one that is closest."""


# MERGED check.client.watch.calls: What the client's calls and answers say, taken one by one.


def check_calls(record: ClientRecord, ledger: RuleNotes) -> None:
    """Judge them."""
    _beginning(record, ledger)
    _folders(record, ledger)
    _servers(record, ledger)
    _choices(record, ledger)
    _permissions(record, ledger)


def _beginning(record: ClientRecord, ledger: RuleNotes) -> None:
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


def _folders(record: ClientRecord, ledger: RuleNotes) -> None:
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


def _servers(record: ClientRecord, ledger: RuleNotes) -> None:
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


def _choices(record: ClientRecord, ledger: RuleNotes) -> None:
    modes = [
        at(mode, "id")
        for _, result in record.results("session/new", "session/load", "session/resume")
        for mode in listed(at(result, "modes"), "availableModes")
    ]
    for line in record.calls:
        if line.method == "session/set_mode":
            mode = at(line.params, "modeId")
            ledger.judge(207, mode in modes, "a listed one", f"the mode {mode!r} is not listed", [line.shown])


def _permissions(record: ClientRecord, ledger: RuleNotes) -> None:
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


# MERGED check.client.watch.gates: What a client may only do where the agent advertises it.


class AgentCapabilityRule(NamedTuple):
    """A method, the capability it needs, and the rule that says so."""

    method: str
    capability: str
    rule: int


GATES: Final = (
    AgentCapabilityRule("logout", "auth.logout", 86),
    AgentCapabilityRule("session/load", "loadSession", 103),
    AgentCapabilityRule("session/resume", "sessionCapabilities.resume", 109),
    AgentCapabilityRule("session/close", "sessionCapabilities.close", 113),
    AgentCapabilityRule("session/list", "sessionCapabilities.list", 116),
    AgentCapabilityRule("session/delete", "sessionCapabilities.delete", 126),
    AgentCapabilityRule("session/fork", "sessionCapabilities.fork", 282),
    AgentCapabilityRule("providers/list", "providers", 295),
    AgentCapabilityRule("providers/set", "providers", 295),
    AgentCapabilityRule("providers/disable", "providers", 295),
    AgentCapabilityRule("session/archive", "sessionCapabilities.archive", 330),
    AgentCapabilityRule("session/unarchive", "sessionCapabilities.archive", 330),
    AgentCapabilityRule("session/status", "sessionCapabilities.status", 341),
    AgentCapabilityRule("session/set_title", "sessionCapabilities.title", 346),
    AgentCapabilityRule("auth/status", "auth.status", 357),
)
_BLOCKS: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_SERVERS: Final = {"http": 98, "sse": 99, "acp": 301}


def check_capabilities(record: ClientRecord, ledger: RuleNotes) -> None:
    """Judge every call that needs something of the agent."""
    for line in record.calls:
        for rule, capability, what in _needs(line):
            offered = record.advertises(capability)
            bad = f"{what} is used, and the agent does not advertise {capability}"
            blamed = rule if offered or record.blamed is None else record.blamed
            ledger.judge(blamed, offered, f"{what} is advertised", bad, [line.shown])


def _needs(line: WireLine) -> Iterator[tuple[int, str, str]]:
    for gate in GATES:
        if gate.method == line.method:
            yield gate.rule, gate.capability, line.method
    if listed(line.params, "additionalDirectories"):
        yield 129, "sessionCapabilities.additionalDirectories", "additionalDirectories"
    for server in listed(line.params, "mcpServers"):
        kind = at(server, "type")
        if isinstance(kind, str) and kind in _SERVERS:
            yield _SERVERS[kind], f"mcpCapabilities.{kind}", f"an MCP server over {kind}"
    for block in listed(line.params, "prompt"):
        kind = at(block, "type")
        if isinstance(kind, str) and kind in _BLOCKS:
            yield 141, f"promptCapabilities.{_BLOCKS[kind]}", f"a block of type {kind}"
    if line.method == "session/list" and at(line.params, "archived") is not None:
        yield 330, "sessionCapabilities.archive", "the filter `archived`"
    prompt: Any = at(line.params, "systemPrompt")
    if isinstance(prompt, dict):
        yield 351, "sessionCapabilities.systemPrompt", "systemPrompt"
        if cast("dict[str, Any]", prompt).get("mode") == "override":
            yield 351, "sessionCapabilities.systemPrompt.mode.override", "the mode override"


# MERGED check.client.watch.lines: The client's lines: the envelopes, and what it answers where nobody asked.

_UNREADABLE: Final = (-32700, -32600)


def check_messages(record: ClientRecord, ledger: RuleNotes) -> None:
    """Judge them."""
    wire_rules.look(record, ledger, wire_rules.OF_CLIENTS)
    for line in record.sent:
        if line.method == "session/cancel":
            ledger.judge(160, not line.is_request, "without an id", "it is a request", [line.shown])
        unasked = line.is_answer and line.id is None
        if unasked and at(line.message, "error", "code") not in _UNREADABLE:
            ledger.broken(14, "an answer without an id, to something that was no request", [line.shown])


# MERGED check.client.watch.schema: The strict walk over everything the client sends.

_SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
_VOID: Final = ("fs/write_text_file=", "terminal/kill=", "terminal/release=")

DOORS: Final = (
    RuleLocation(("initialize",), r"protocolVersion", 59),
    RuleLocation(("initialize",), r"^\$\.capabilities: unknown member", 61),
    RuleLocation(("initialize",), r"clientInfo", 60),
    RuleLocation(_SETUP, r"mcpServers\[\d+\].*headers|mcpServers\[\d+\].*url", 101),
    RuleLocation(_SETUP, r"mcpServers\[", 100),
    RuleLocation(("session/new",), r"cwd|mcpServers", 90),
    RuleLocation(("session/set_config_option",), r"", 218),
    RuleLocation(("session/request_permission=",), r"", 197),
    RuleLocation(_VOID, r"^\$: expected object", 35),
    RuleLocation(("fs/read_text_file=",), r"", 239),
    RuleLocation(("terminal/output=",), r"", 250),
    RuleLocation(("terminal/wait_for_exit=",), r"", 252),
    RuleLocation(("elicitation/create=",), r"", 271),
    RuleLocation(("mcp/message=",), r"", 365),
)
_SHOWN_BY: Final[dict[str, Rule]] = {
    **dict.fromkeys(_VOID, 35),
    "initialize": 59,
    "session/new": 90,
    "fs/read_text_file=": 239,
    "elicitation/create=": 271,
    "session/set_config_option": 218,
}
"""The rule that a sound message of this kind shows to be kept."""


def check_schema(record: ClientRecord, ledger: RuleNotes) -> None:
    """Walk over every message of the client."""
    for one in sent(record):
        _judge(one, ledger)


def _judge(one: SentMessage, ledger: RuleNotes) -> None:
    line, where = one.line, one.where
    blamed: set[Rule] = set()
    for violation in violations(one.type, one.value)[:MOST_TOLD]:
        doors: list[Rule] = [door.rule for door in DOORS if door.takes(where, str(violation))]
        unknown = violation.reason == "unknown member" and (not doors or doors[0] != 61)
        rule: Rule = 43 if unknown else doors[0] if doors else SCHEMA
        blamed.add(rule)
        ledger.broken(rule, f"{where.rstrip('=')}: {violation}", [line.shown], walked=True)
    if 43 not in blamed:
        ledger.kept(43, "no message has members of its own")
    if SCHEMA not in blamed:
        ledger.kept(SCHEMA, "every message fits")
    if where == "initialize" and 61 not in blamed:
        ledger.kept(61, "capabilities are where they belong", [line.shown])
    shown = _SHOWN_BY.get(where)
    if shown is not None and shown not in blamed:
        ledger.kept(shown, "as the schema has it", [line.shown])
