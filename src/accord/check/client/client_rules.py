"""Rules for every message of a client: schema, envelopes, calls, capabilities."""

import os.path
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import WireLine
from accord.check.findings import SCHEMA, RuleId, RuleNotes
from accord.check.wire_rules import (
    MAX_VIOLATIONS,
    ConnectionRecord,
    SentMessage,
    ViolationRule,
    find_violated_rule,
    sent_messages,
)
from accord.schema.former_members import former_member
from accord.schema.validation import UNKNOWN_MEMBER, violations
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
        failure = f"the first call is {first.method}"
        notes.judge(
            58, first.method == "initialize", "initialize is the first call", failure, [first.evidence]
        )
    for line in record.calls:
        if line.method == "initialize":
            info = at(line.params, "clientInfo")
            complete = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
            notes.judge(
                60,
                complete,
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
                91,
                os.path.isabs(cwd),
                "the folder is absolute",
                f"the folder {cwd!r} is relative",
                [line.evidence],
            )
        for root in listed(line.params, "additionalDirectories"):
            passed = isinstance(root, str) and os.path.isabs(root)
            notes.judge(
                130, passed, "the folder is absolute", f"the folder {root!r} is relative", [line.evidence]
            )


def _check_mcp_servers(record: ClientRecord, notes: RuleNotes) -> None:
    for line in record.calls:
        server_ids: list[Any] = []
        for server in listed(line.params, "mcpServers"):
            kind = at(server, "type")
            if kind is None:
                complete = isinstance(at(server, "env"), list) and isinstance(at(server, "args"), list)
                notes.judge(100, complete, "complete", "`args` or `env` is missing", [line.evidence])
            elif kind in ("http", "sse"):
                complete = isinstance(at(server, "headers"), list)
                notes.judge(101, complete, "complete", "`headers` is missing", [line.evidence])
            elif kind == "acp":
                server_ids.append(at(server, "serverId"))
        if len(set(map(str, server_ids))) < len(server_ids):
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
                207, mode in modes, "the mode is listed", f"the mode {mode!r} is not listed", [line.evidence]
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
                failure = f"the option {chosen!r} was not offered"
                notes.judge(197, chosen in offered, "the option was offered", failure, frames)
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
_BLOCK_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_SERVER_RULES: Final = {"http": 98, "sse": 99, "acp": 301}


def check_capabilities(record: ClientRecord, notes: RuleNotes) -> None:
    """Check that calls use only what the agent advertises."""
    for line in record.calls:
        for rule, capability, feature in _needed_capabilities(line):
            advertised = record.agent_advertises(capability)
            failure = f"{feature} is used, but the agent does not advertise {capability}"
            broken_rule = rule if advertised or record.unadvertised_rule is None else record.unadvertised_rule
            notes.judge(broken_rule, advertised, f"{feature} is advertised", failure, [line.evidence])


def _needed_capabilities(line: WireLine) -> Iterator[tuple[int, str, str]]:
    for entry in CAPABILITY_RULES:
        if entry.method == line.method:
            yield entry.rule, entry.capability, line.method
    if listed(line.params, "additionalDirectories"):
        yield 129, "sessionCapabilities.additionalDirectories", "additionalDirectories"
    for server in listed(line.params, "mcpServers"):
        kind = at(server, "type")
        if isinstance(kind, str) and kind in _SERVER_RULES:
            yield _SERVER_RULES[kind], f"mcpCapabilities.{kind}", f"an MCP server over {kind}"
    for block in listed(line.params, "prompt"):
        kind = at(block, "type")
        if isinstance(kind, str) and kind in _BLOCK_CAPABILITIES:
            yield 141, f"promptCapabilities.{_BLOCK_CAPABILITIES[kind]}", f"a block of type {kind}"
    if line.method == "session/list" and at(line.params, "archived") is not None:
        yield 330, "sessionCapabilities.archive", "the filter `archived`"
    prompt: Any = at(line.params, "systemPrompt")
    if isinstance(prompt, dict):
        yield 351, "sessionCapabilities.systemPrompt", "systemPrompt"
        if cast("dict[str, Any]", prompt).get("mode") == "override":
            yield 351, "sessionCapabilities.systemPrompt.mode.override", "the mode override"


_INVALID_MESSAGE_CODES: Final = (-32700, -32600)


def check_messages(record: ClientRecord, notes: RuleNotes) -> None:
    """Check the envelopes, cancels and answers without an id."""
    wire_rules.check_envelopes(record, notes, wire_rules.CLIENT_ENVELOPE_RULES)
    for line in record.sent:
        if line.method == "session/cancel":
            notes.judge(
                160,
                not line.is_request,
                "session/cancel has no id",
                "session/cancel is a request",
                [line.evidence],
            )
        without_id = line.is_answer and line.id is None
        if without_id and at(line.message, "error", "code") not in _INVALID_MESSAGE_CODES:
            notes.add_fail(14, "an answer without an id", [line.evidence])


_SESSION_METHODS: Final = ("session/new", "session/load", "session/resume", "session/fork")
_EMPTY_RESULTS: Final = ("fs/write_text_file=", "terminal/kill=", "terminal/release=")

VIOLATION_RULES: Final = (
    ViolationRule(("initialize",), r"protocolVersion", 59),
    ViolationRule(("initialize",), r"^\$\.capabilities: unknown member", 61),
    ViolationRule(("initialize",), r"clientInfo", 60),
    ViolationRule(_SESSION_METHODS, r"mcpServers\[\d+\].*headers|mcpServers\[\d+\].*url", 101),
    ViolationRule(_SESSION_METHODS, r"mcpServers\[", 100),
    ViolationRule(("session/new",), r"cwd|mcpServers", 90),
    ViolationRule(("session/set_config_option",), r"", 218),
    ViolationRule(("session/request_permission=",), r"", 197),
    ViolationRule(_EMPTY_RESULTS, r"^\$: expected object", 35),
    ViolationRule(("fs/read_text_file=",), r"", 239),
    ViolationRule(("terminal/output=",), r"", 250),
    ViolationRule(("terminal/wait_for_exit=",), r"", 252),
    ViolationRule(("elicitation/create=",), r"", 271),
    ViolationRule(("mcp/message=",), r"", 365),
)
_PASSED_BY_MESSAGE: Final[dict[str, RuleId]] = {
    **dict.fromkeys(_EMPTY_RESULTS, 35),
    "initialize": 59,
    "session/new": 90,
    "fs/read_text_file=": 239,
    "elicitation/create=": 271,
    "session/set_config_option": 218,
}
"""The rule that a valid message of this kind passes."""


def check_schema(record: ClientRecord, notes: RuleNotes) -> None:
    """Validate every message of the client against the schema."""
    for message in sent_messages(record):
        _judge_message(message, notes)


def _judge_message(message: SentMessage, notes: RuleNotes) -> None:
    line, message_kind = message.line, message.message_kind
    broken_rules: set[RuleId] = set()
    for violation in violations(message.type, message.value)[:MAX_VIOLATIONS]:
        if former := former_member(message.type, message.value, violation):
            reason = f"{violation.path} was official in releases {former.releases} of the TypeScript SDK"
            notes.add_pass(43, reason, [line.evidence])
            continue
        rule = find_violated_rule(VIOLATION_RULES, message_kind, str(violation))
        if violation.reason == UNKNOWN_MEMBER and rule != 61:
            rule = 43
        broken_rules.add(rule)
        notes.add_fail(rule, f"{message_kind.rstrip('=')}: {violation}", [line.evidence], from_schema=True)
    if 43 not in broken_rules:
        notes.add_pass(43, "no message has custom members")
    if SCHEMA not in broken_rules:
        notes.add_pass(SCHEMA, "every message matches")
    if message_kind == "initialize" and 61 not in broken_rules:
        notes.add_pass(61, "capabilities are where they belong", [line.evidence])
    tested_rule = _PASSED_BY_MESSAGE.get(message_kind)
    if tested_rule is not None and tested_rule not in broken_rules:
        notes.add_pass(tested_rule, "matches the schema", [line.evidence])
