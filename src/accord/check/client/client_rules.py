"""Rules for the calls of a client: params, capabilities, permission answers."""

import os.path
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from accord.check.findings import RuleId, RuleNotes
from accord.check.wire_rules import ConnectionRecord
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

if TYPE_CHECKING:
    from accord.check.client.client_under_test import ClientUnderTest


class ClientRecord(ConnectionRecord):
    """The record of one connection with a client."""

    def __init__(self, client: "ClientUnderTest") -> None:
        super().__init__(client, client.client_capabilities, client.initialize_result)
        self.unadvertised_rule: RuleId | None = client.responder.unadvertised_rule
        """The rule that the use of an unadvertised feature breaks; None: the rule of the feature."""


_OPENING_METHODS: Final = ("session/new", "session/load", "session/resume", "session/fork")


def check_calls(record: ClientRecord, notes: RuleNotes) -> None:
    """Check the params of calls, and the answers to permission requests."""
    modes = [
        at(mode, "id")
        for _, result in record.results(*_OPENING_METHODS[:3])
        for mode in listed(at(result, "modes"), "availableModes")
    ]
    for line in record.calls:
        if line.method == "initialize":
            info = at(line.params, "clientInfo")
            complete = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
            failure = "no `clientInfo` with a name and a version"
            notes.judge("initialize.client-info", complete, "`clientInfo` is complete", failure, line)
        cwd = at(line.params, "cwd")
        if isinstance(cwd, str) and line.method in _OPENING_METHODS:
            _check_folder("session.absolute-cwd", cwd, line, notes)
        for root in listed(line.params, "additionalDirectories"):
            _check_folder("session.roots-absolute", root, line, notes)
        _check_mcp_servers(line, notes)
        if line.method == "session/set_mode":
            mode = at(line.params, "modeId")
            failure = f"the mode {mode!r} is not listed"
            notes.judge("mode.only-listed", mode in modes, "the mode is listed", failure, line)
    for call in record.agent_requests:
        for answer in call.answers if call.request.method == "session/request_permission" else ():
            if at(answer.message, "error", "code") == -32601:
                notes.add_fail("permission.served", "session/request_permission is unknown to it", answer)


def _check_folder(rule: RuleId, folder: Any, line: WireLine, notes: RuleNotes) -> None:
    absolute = isinstance(folder, str) and os.path.isabs(folder)
    notes.judge(rule, absolute, "the folder is absolute", f"the folder {folder!r} is relative", line)


def _check_mcp_servers(line: WireLine, notes: RuleNotes) -> None:
    server_ids: list[Any] = []
    for server in listed(line.params, "mcpServers"):
        kind = at(server, "type")
        if kind is None:
            complete = isinstance(at(server, "env"), list) and isinstance(at(server, "args"), list)
            notes.judge("session.stdio-mcp-members", complete, "complete", "`args` or `env` is missing", line)
        elif kind in ("http", "sse"):
            complete = isinstance(at(server, "headers"), list)
            notes.judge("session.http-mcp-members", complete, "complete", "`headers` is missing", line)
        elif kind == "acp":
            server_ids.append(at(server, "serverId"))
    if len(set(map(str, server_ids))) < len(server_ids):
        notes.add_fail("mcp.needs-capability", "two servers have the same `serverId`", line)


_METHOD_RULES: Final[dict[str, tuple[RuleId, str]]] = {
    "logout": ("auth.logout-needs-capability", "auth.logout"),
    "session/load": ("session.load-needs-capability", "loadSession"),
    "session/resume": ("session.resume-needs-capability", "sessionCapabilities.resume"),
    "session/close": ("session.close-needs-capability", "sessionCapabilities.close"),
    "session/list": ("session.list-needs-capability", "sessionCapabilities.list"),
    "session/delete": ("session.delete-needs-capability", "sessionCapabilities.delete"),
    "session/fork": ("fork.needs-capability", "sessionCapabilities.fork"),
    "providers/list": ("provider.needs-capability", "providers"),
    "providers/set": ("provider.needs-capability", "providers"),
    "providers/disable": ("provider.needs-capability", "providers"),
    "session/archive": ("archive.needs-capability", "sessionCapabilities.archive"),
    "session/unarchive": ("archive.needs-capability", "sessionCapabilities.archive"),
    "session/status": ("status.needs-capability", "sessionCapabilities.status"),
    "session/set_title": ("title.needs-capability", "sessionCapabilities.title"),
    "auth/status": ("auth-status.needs-capability", "auth.status"),
}
"""The rule about each method that needs a capability, and the capability."""
_BLOCK_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_SERVER_RULES: Final[dict[str, RuleId]] = {
    "http": "session.http-mcp-needs-capability",
    "sse": "session.sse-mcp-needs-capability",
    "acp": "mcp.needs-capability",
}


def check_capabilities(record: ClientRecord, notes: RuleNotes) -> None:
    """Check that calls use only what the agent advertises."""
    for line in record.calls:
        for rule, capability, feature in _needed_capabilities(line):
            advertised = record.agent_advertises(capability)
            failure = f"{feature} is used, but the agent does not advertise {capability}"
            broken_rule = rule if advertised or record.unadvertised_rule is None else record.unadvertised_rule
            notes.judge(broken_rule, advertised, f"{feature} is advertised", failure, line)


def _needed_capabilities(line: WireLine) -> Iterator[tuple[RuleId, str, str]]:
    if line.method in _METHOD_RULES:
        yield *_METHOD_RULES[line.method], line.method
    if listed(line.params, "additionalDirectories"):
        capability = "sessionCapabilities.additionalDirectories"
        yield "session.roots-need-capability", capability, "additionalDirectories"
    for server in listed(line.params, "mcpServers"):
        kind = at(server, "type")
        if isinstance(kind, str) and kind in _SERVER_RULES:
            yield _SERVER_RULES[kind], f"mcpCapabilities.{kind}", f"an MCP server over {kind}"
    for block in listed(line.params, "prompt"):
        kind = at(block, "type")
        if isinstance(kind, str) and kind in _BLOCK_CAPABILITIES:
            capability = f"promptCapabilities.{_BLOCK_CAPABILITIES[kind]}"
            yield "prompt.blocks-need-capability", capability, f"a block of type {kind}"
    if line.method == "session/list" and at(line.params, "archived") is not None:
        yield "archive.needs-capability", "sessionCapabilities.archive", "the filter `archived`"
    prompt: Any = at(line.params, "systemPrompt")
    if isinstance(prompt, dict):
        rule, capability = "system-prompt.needs-capability", "sessionCapabilities.systemPrompt"
        yield rule, capability, "systemPrompt"
        if cast("dict[str, Any]", prompt).get("mode") == "override":
            yield rule, f"{capability}.mode.override", "the mode override"
