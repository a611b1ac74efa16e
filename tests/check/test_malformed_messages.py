"""Malformed messages of the other side can always be judged: no odd value breaks a check."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.check.silent_peers import receive, silent_agent, silent_client

from accord.check.agent.agent_fixture import ALL_CAPABILITIES, check_agent_record
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.client.client_fixture import check_client_record
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import RuleNotes

ODD_VALUES: tuple[Any, ...] = (
    [1],
    {"a": 1},
    5,
    "x",
    None,
    True,
    1.5,
    "http://[bad",
    "https://x:99999999/?token=1",
)
UPDATES: dict[str, tuple[str, ...]] = {
    "agent_message_chunk": ("content", "messageId"),
    "tool_call": ("toolCallId", "status", "title", "kind", "content", "locations"),
    "tool_call_update": ("toolCallId", "status", "content", "locations"),
    "plan": ("entries",),
    "plan_update": ("id", "entries", "plan", "planId"),
    "plan_removed": ("id", "planId"),
    "current_mode_update": ("currentModeId",),
    "config_option_update": ("configOptions",),
    "available_commands_update": ("availableCommands",),
    "usage_update": ("used", "size", "cost"),
    "session_info_update": ("title", "updatedAt"),
    "compaction_update": ("compactionId", "status"),
    "subagent_update": ("sessionId", "cwd", "additionalDirectories", "status", "parentSessionId"),
    "notice": ("severity", "message", "id"),
    "session_message": ("sessionId", "messageId"),
}
REQUESTS: dict[str, tuple[str, ...]] = {
    "session/request_permission": ("sessionId", "toolCall", "options"),
    "fs/read_text_file": ("path", "sessionId", "line", "limit"),
    "fs/write_text_file": ("path", "content"),
    "terminal/create": ("command", "args", "env", "cwd", "sessionId"),
    "terminal/release": ("terminalId",),
    "terminal/output": ("terminalId",),
    "terminal/wait_for_exit": ("terminalId",),
    "elicitation/create": (
        *(
            "mode",
            "url",
            "elicitationId",
            "sessionId",
            "requestId",
            "toolCallId",
            "requestedSchema",
            "message",
        ),
    ),
    "elicitation/complete": ("elicitationId",),
    "mcp/message": ("serverId", "requestId", "message", "method"),
    "mcp/connect": ("serverId",),
    "auth/status_update": ("status", "state"),
    "$/cancel_request": ("requestId", "id"),
}
RESULTS = (
    *("modes", "configOptions", "sessions", "sessionId", "nextCursor", "authMethods", "agentCapabilities"),
    *(
        "agentInfo",
        "protocolVersion",
        "models",
        "providers",
        "outcome",
        "content",
        "terminalId",
        "stopReason",
    ),
)
AGENT_METHODS = (
    *("initialize", "session/new", "session/load", "session/list", "session/fork", "session/set_mode"),
    *("session/set_config_option", "providers/list", "auth/status", "session/resume", "session/prompt"),
)
CLIENT_METHODS: dict[str, tuple[str, ...]] = {
    "initialize": ("protocolVersion", "clientCapabilities", "clientInfo"),
    "session/new": ("cwd", "mcpServers", "additionalDirectories", "systemPrompt"),
    "session/load": ("sessionId", "cwd", "mcpServers"),
    "session/list": ("cursor", "cwd", "archived"),
    "session/set_mode": ("sessionId", "modeId"),
    "session/set_config_option": ("sessionId", "configId", "value", "type"),
    "session/prompt": ("sessionId", "prompt"),
    "session/cancel": ("sessionId",),
    "authenticate": ("methodId",),
}


def malformed_values(odd: Any) -> Iterator[Any]:
    """The value by itself, in a list, and under every member name that a check may read."""
    names = (
        "id",
        "name",
        "type",
        "path",
        "line",
        "terminalId",
        "options",
        "value",
        "status",
        "content",
        "serverId",
    )
    named = dict.fromkeys((*names, "optionId", "kind", "cwd", "sessionId", "archived", "currentValue"), odd)
    yield odd
    yield [odd]
    yield [named]
    yield {"properties": {"a": {"type": odd, "title": odd}}}
    yield {"toolCallId": odd, "title": odd, "currentModeId": odd, "availableModes": [named], "_meta": odd}
    yield {"_meta": {"traceparent": odd, "baggage": odd}}


def open_turn(agent: AgentUnderTest) -> None:
    """Open a session and start a turn."""
    agent.initialize_result = {
        "agentCapabilities": {"sessionCapabilities": {"list": {}, "archive": {}}, "auth": {"status": {}}}
    }
    agent.client_capabilities = ALL_CAPABILITIES
    agent.send_request("initialize", {"protocolVersion": 1, "clientCapabilities": ALL_CAPABILITIES})
    receive(agent, {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, **agent.initialize_result}})
    agent.send_request("session/new", {"cwd": "/x", "mcpServers": []})
    receive(agent, {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}})
    agent.prompt("s1", "hi")


async def failed_checks(agent: AgentUnderTest | ClientUnderTest) -> list[str]:
    """The reasons of the checks that gave up, once the turn is over."""
    notes = RuleNotes("case")
    if isinstance(agent, AgentUnderTest):
        receive(agent, {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}})
        await check_agent_record(agent, notes)
        await agent.close()
    else:
        await check_client_record(agent, notes)
    assert notes.entries
    return [note.reason for note in notes.entries if "cannot be judged" in note.reason]


@pytest.mark.parametrize("kind", UPDATES)
async def test_malformed_updates_of_an_agent_are_judged(kind: str, tmp_path: Path) -> None:
    agent = silent_agent(tmp_path)
    open_turn(agent)
    for name in UPDATES[kind]:
        for value in (value for odd in ODD_VALUES for value in malformed_values(odd)):
            update = {"toolCallId": "t", "compactionId": "c", "status": "completed", name: value}
            params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **update}}
            receive(agent, {"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert await failed_checks(agent) == []


@pytest.mark.parametrize("method", REQUESTS)
async def test_malformed_requests_of_an_agent_are_judged(method: str, tmp_path: Path) -> None:
    agent = silent_agent(tmp_path)
    open_turn(agent)
    number = 0
    for name in REQUESTS[method]:
        for value in (value for odd in ODD_VALUES for value in malformed_values(odd)):
            number += 1
            mode = "url" if name == "url" else "form"
            params = {"sessionId": "s1", "path": str(tmp_path / "x"), "mode": mode, name: value}
            receive(agent, {"jsonrpc": "2.0", "method": method, "params": params})
            receive(agent, {"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": params})
    assert await failed_checks(agent) == []


@pytest.mark.parametrize("method", AGENT_METHODS)
async def test_malformed_results_of_an_agent_are_judged(method: str, tmp_path: Path) -> None:
    agent = silent_agent(tmp_path)
    open_turn(agent)
    for name in RESULTS:
        for value in (value for odd in ODD_VALUES for value in malformed_values(odd)):
            request = agent.send_request(method, {"sessionId": "s1", "cwd": "/x", "mcpServers": []})
            receive(agent, {"jsonrpc": "2.0", "id": request.id, "result": {name: value}})
    assert await failed_checks(agent) == []


def envelopes(odd: Any) -> Iterator[Any]:
    """Messages that are malformed themselves."""
    yield odd
    yield {"jsonrpc": odd, "id": 3, "result": odd}
    yield {"jsonrpc": "2.0", "id": odd, "result": {}}
    yield {"jsonrpc": "2.0", "id": odd, "method": "fs/read_text_file", "params": {}}
    yield {"jsonrpc": "2.0", "id": 3, "error": odd}
    yield {"jsonrpc": "2.0", "id": 3, "error": {"code": odd, "message": odd}}
    yield {"jsonrpc": "2.0", "method": odd, "params": {}}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": odd}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": odd}}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": odd, "update": {"a": odd}}}
    yield {"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": odd}
    yield {"jsonrpc": "2.0", "id": 9, "method": "terminal/create", "params": odd}


MALFORMED_LINES = (
    "[" * 90_000,
    "[" * 90_000 + "]" * 90_000,
    '{"a":' * 500 + "1" + "}" * 500,
    "[1,\n2]",
    "\xff",
    "{",
)


async def test_malformed_envelopes_of_an_agent_are_judged(tmp_path: Path) -> None:
    agent = silent_agent(tmp_path)
    open_turn(agent)
    for odd in ODD_VALUES:
        receive(agent, *envelopes(odd))
    for text in MALFORMED_LINES:
        agent.frames([line.encode("latin-1") for line in text.splitlines()])
    assert await failed_checks(agent) == []


async def test_malformed_envelopes_of_a_client_are_judged() -> None:
    client = silent_client()
    for odd in ODD_VALUES:
        receive(client, *envelopes(odd))
    for text in MALFORMED_LINES:
        client.frames([line.encode("latin-1") for line in text.splitlines()])
    assert await failed_checks(client) == []


@pytest.mark.parametrize("method", CLIENT_METHODS)
async def test_malformed_requests_of_a_client_are_judged(method: str) -> None:
    client = silent_client()
    number = 0
    for name in CLIENT_METHODS[method]:
        for value in (value for odd in ODD_VALUES for value in malformed_values(odd)):
            number += 1
            params = {"sessionId": "check-1", "cwd": "/x", "mcpServers": [], name: value}
            receive(client, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert await failed_checks(client) == []


async def test_malformed_answers_of_a_client_are_judged() -> None:
    client = silent_client()
    for method in REQUESTS:
        for name in RESULTS:
            for value in (value for odd in ODD_VALUES[:3] for value in malformed_values(odd)):
                request = client.send_request(method, {"options": [{"optionId": "a"}]})
                receive(client, {"jsonrpc": "2.0", "id": request.id, "result": {name: value}})
    assert await failed_checks(client) == []
