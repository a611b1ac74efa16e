"""Passive rules for every message of a client: schema, envelopes, calls, capabilities."""

import os.path
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import WireLine
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.check.wire_rules import MAX_VIOLATIONS, ConnectionRecord, RuleLocation, SentMessage, sent_messages
from accord.schema.validation import violations
from accord.trace.trace_steps import at, listed

if TYPE_CHECKING:
    from accord.check.client.client_under_test import ClientUnderTest


class ClientRecord(ConnectionRecord):
    """The record of one connection with a client."""

    def __init__(self, client: "ClientUnderTest") -> None:
        super().__init__(client, client.client_capabilities, client.initialize_result)
        self.unadvertised_rule: int | None = client.responder.unadvertised_rule
        """The rule that the use of an unadvertised feature breaks; None: the rule of the feature."""


def check_calls(record: ClientRecord, notes: RuleNotes) -> None:
    """Check the params of calls, and the answers to permission requests."""
    _check_first_call(record, notes)
    _check_folders(record, notes)
    _check_mcp_servers(record, notes)
    _check_modes(record, notes)
    _check_permissions(record, notes)


def _check_first_call(record: ClientRecord, notes: RuleNotes) -> None:
    if record.calls:
        first = record.calls[0]
        bad = f"the first call is {first.method}"
        notes.judge(58, first.method == "initialize", "initialize is the first", bad, [first.evidence])
    for line in record.calls:
        if line.method == "initialize":
            info = at(line.params, "clientInfo")
            told = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
            notes.judge(
                60,
                told,
                "`clientInfo` is complete",
                "no `clientInfo` with a name and a version",
                [line.evidence],
            )


def _check_folders(record: ClientRecord, notes: RuleNotes) -> None:
    for line in record.calls:
        cwd = at(line.params, "cwd")
        if isinstance(cwd, str) and line.method in (
            "session/new",
            "session/load",
            "session/resume",
            "session/fork",
        ):
            notes.judge(
                91, os.path.isabs(cwd), "absolute", f"the folder {cwd!r} is relative", [line.evidence]
            )
        for root in listed(line.params, "additionalDirectories"):
            passed = isinstance(root, str) and os.path.isabs(root)
            notes.judge(130, passed, "absolute", f"the folder {root!r} is relative", [line.evidence])


def _check_mcp_servers(record: ClientRecord, notes: RuleNotes) -> None:
    for line in record.calls:
        names: list[Any] = []
        for server in listed(line.params, "mcpServers"):
            kind = at(server, "type")
            if kind is None:
                sound = isinstance(at(server, "env"), list) and isinstance(at(server, "args"), list)
                notes.judge(100, sound, "complete", "`args` or `env` is not there", [line.evidence])
            elif kind in ("http", "sse"):
                sound = isinstance(at(server, "headers"), list)
                notes.judge(101, sound, "complete", "`headers` is not there", [line.evidence])
            elif kind == "acp":
                names.append(at(server, "serverId"))
        if len(set(map(str, names))) < len(names):
            notes.add_fail(301, "two servers have the same `serverId`", [line.evidence])


def _check_modes(record: ClientRecord, notes: RuleNotes) -> None:
    modes = [
        at(mode, "id")
        for _, result in record.results("session/new", "session/load", "session/resume")
        for mode in listed(at(result, "modes"), "availableModes")
    ]
    for line in record.calls:
        if line.method == "session/set_mode":
            mode = at(line.params, "modeId")
            notes.judge(
                207, mode in modes, "a listed one", f"the mode {mode!r} is not listed", [line.evidence]
            )


def _check_permissions(record: ClientRecord, notes: RuleNotes) -> None:
    for call in record.agent_requests:
        if call.request.method != "session/request_permission":
            continue
        offered = [at(option, "optionId") for option in listed(call.request.params, "options")]
        for answer in call.answers:
            outcome = at(answer.message, "result", "outcome")
            if at(outcome, "outcome") == "selected":
                chosen = at(outcome, "optionId")
                frames = [call.request.evidence, answer.evidence]
                bad = f"the option {chosen!r} was not offered"
                notes.judge(197, chosen in offered, "an offered option", bad, frames)
            if at(answer.message, "error", "code") == -32601:
                notes.add_fail(196, "session/request_permission is unknown to it", [answer.evidence])


class AgentCapabilityRule(NamedTuple):
    """A method, the capability it needs, and the rule about it."""

    method: str
    capability: str
    rule: int


CAPABILITY_RULES: Final = (
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


def check_capabilities(record: ClientRecord, notes: RuleNotes) -> None:
    """Check that calls use only what the agent advertises."""
    for line in record.calls:
        for rule, capability, what in _needed_capabilities(line):
            offered = record.advertises(capability)
            bad = f"{what} is used, but the agent does not advertise {capability}"
            broken_rule = rule if offered or record.unadvertised_rule is None else record.unadvertised_rule
            notes.judge(broken_rule, offered, f"{what} is advertised", bad, [line.evidence])


def _needed_capabilities(line: WireLine) -> Iterator[tuple[int, str, str]]:
    for entry in CAPABILITY_RULES:
        if entry.method == line.method:
            yield entry.rule, entry.capability, line.method
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


_UNREADABLE: Final = (-32700, -32600)


def check_messages(record: ClientRecord, notes: RuleNotes) -> None:
    """Check the envelopes, and answers that no request asked for."""
    wire_rules.check_envelopes(record, notes, wire_rules.CLIENT_ENVELOPE_RULES)
    for line in record.sent:
        if line.method == "session/cancel":
            notes.judge(160, not line.is_request, "without an id", "it is a request", [line.evidence])
        unasked = line.is_answer and line.id is None
        if unasked and at(line.message, "error", "code") not in _UNREADABLE:
            notes.add_fail(14, "an answer without an id", [line.evidence])


_SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
_VOID: Final = ("fs/write_text_file=", "terminal/kill=", "terminal/release=")

RULE_LOCATIONS: Final = (
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
_PASSED_BY_MESSAGE: Final[dict[str, Rule]] = {
    **dict.fromkeys(_VOID, 35),
    "initialize": 59,
    "session/new": 90,
    "fs/read_text_file=": 239,
    "elicitation/create=": 271,
    "session/set_config_option": 218,
}
"""The rule that a valid message of this kind passes."""


def check_schema(record: ClientRecord, notes: RuleNotes) -> None:
    """Validate every message of the client against the schema."""
    for one in sent_messages(record):
        _judge(one, notes)


def _judge(one: SentMessage, notes: RuleNotes) -> None:
    line, where = one.line, one.where
    violated: set[Rule] = set()
    for violation in violations(one.type, one.value)[:MAX_VIOLATIONS]:
        rules: list[Rule] = [
            location.rule for location in RULE_LOCATIONS if location.matches(where, str(violation))
        ]
        unknown = violation.reason == "unknown member" and (not rules or rules[0] != 61)
        rule: Rule = 43 if unknown else rules[0] if rules else SCHEMA
        violated.add(rule)
        notes.add_fail(rule, f"{where.rstrip('=')}: {violation}", [line.evidence], from_schema=True)
    if 43 not in violated:
        notes.add_pass(43, "no message has unknown members")
    if SCHEMA not in violated:
        notes.add_pass(SCHEMA, "every message matches")
    if where == "initialize" and 61 not in violated:
        notes.add_pass(61, "capabilities are where they belong", [line.evidence])
    frames = _PASSED_BY_MESSAGE.get(where)
    if frames is not None and frames not in violated:
        notes.add_pass(frames, "matches the schema", [line.evidence])
