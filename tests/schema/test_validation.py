"""Strict validation finds each kind of violation and its path, and accepts valid values."""

import math
from typing import Any

import pytest

from accord.schema import (
    AuthMethod,
    CreateElicitationRequest,
    InitializeRequest,
    McpError,
    McpServer,
    NewSessionRequest,
    Notice,
    PromptResponse,
    SessionConfigSelectOptions,
    SessionNotification,
    SetSessionConfigOptionRequest,
    StateUpdate,
    Terminal,
    TextContent,
    ToolCall,
    UsageUpdate,
)
from accord.schema.validation import Violation, violations

STDIO = {"name": "db", "command": "/bin/db", "args": [], "env": []}
CALL = {"toolCallId": "c", "title": "t"}


def found(cls: Any, value: Any) -> list[str]:
    return [str(violation) for violation in violations(cls, value)]


@pytest.mark.parametrize(
    ("cls", "value", "expected"),
    [
        # Unknown members, at any depth.
        (NewSessionRequest, {"cwd": "/", "mcpServers": [], "zzz": 1}, "$.zzz: unknown member"),
        (
            NewSessionRequest,
            {"cwd": "/", "mcpServers": [{**STDIO, "x": 1}]},
            "$.mcpServers[0].x: unknown member",
        ),
        (McpServer, {**STDIO, "type": "stdio"}, "$.type: unknown member"),
        (AuthMethod, {"id": "a", "name": "A", "type": "agent"}, "$.type: unknown member"),
        # Wrong types.
        (TextContent, {"text": 5}, "$.text: expected string, got number"),
        (TextContent, [], "$: expected object, got array"),
        (ToolCall, {**CALL, "content": {}}, "$.content: expected array, got object"),
        (InitializeRequest, {"protocolVersion": True}, "$.protocolVersion: expected number, got boolean"),
        (InitializeRequest, {"protocolVersion": "1"}, "$.protocolVersion: expected number, got string"),
        (InitializeRequest, {"protocolVersion": 1.5}, "$.protocolVersion: expected whole number, got 1.5"),
        (TextContent, {"text": "", "_meta": []}, "$._meta: expected object, got array"),
        # Null where it is not allowed.
        (TextContent, {"text": None}, "$.text: expected string, got null"),
        (NewSessionRequest, {"cwd": "/", "mcpServers": None}, "$.mcpServers: expected array, got null"),
        (ToolCall, {**CALL, "kind": None}, "$.kind: expected string, got null"),
        # Missing members.
        (Terminal, {}, "$: terminalId is missing"),
        (SessionNotification, {"sessionId": "s", "update": {}}, "$.update: sessionUpdate is missing"),
        # Closed sets.
        (PromptResponse, {"stopReason": "tool_use"}, "$.stopReason: expected one of end_turn"),
        (ToolCall, {**CALL, "kind": "file"}, "$.kind: expected one of read"),
        (
            SessionNotification,
            {"sessionId": "s", "update": {"sessionUpdate": "zzz"}},
            "$.update.sessionUpdate: unknown variant 'zzz'",
        ),
        (TextContent, {"type": "image", "text": ""}, "$.type: expected 'text', got 'image'"),
        # Bounds.
        (InitializeRequest, {"protocolVersion": 65536}, "$.protocolVersion: out of range for uint16"),
        (UsageUpdate, {"used": -1, "size": 2**64 - 1}, "$.used: out of range for uint64"),
        (UsageUpdate, {"used": 1, "size": 2**64}, "$.size: out of range for uint64"),
        (Notice, {"severity": "info", "title": ""}, "$.title: must not be empty"),
        (
            UsageUpdate,
            {"used": 1, "size": 1, "cost": {"amount": math.nan, "currency": "EUR"}},
            "$.cost.amount: nan is no JSON number",
        ),
        # Members that need each other.
        (
            SetSessionConfigOptionRequest,
            {"sessionId": "s", "configId": "c", "value": True},
            "$: a true or false value needs type 'boolean'",
        ),
        (
            CreateElicitationRequest,
            {"mode": "form", "message": "m", "requestedSchema": {}},
            "$: an elicitation needs sessionId or requestId",
        ),
        # The violation is reported for the variant that fits best.
        (SessionConfigSelectOptions, [{"value": "a"}], "$[0]: name is missing"),
        (SessionConfigSelectOptions, [{"group": "g", "name": "G"}], "$[0]: options is missing"),
        (McpServer, {"type": "http", "name": "n", "url": "u"}, "$: headers is missing"),
    ],
)
def test_a_violation_is_found_with_its_path(cls: Any, value: Any, expected: str) -> None:
    [violation] = found(cls, value)
    assert violation.startswith(expected)


def test_all_violations_are_found_at_once() -> None:
    update = {"sessionUpdate": "tool_call", "title": 5, "kind": "file", "zzz": 1}
    assert violations(SessionNotification, {"update": update, "sessionId": None}) == [
        Violation("$.update.title", "expected string, got number"),
        Violation(
            "$.update.kind",
            "expected one of read, edit, delete, move, search, execute, think, fetch, switch_mode, other, "
            "got 'file'",
        ),
        Violation("$.update.zzz", "unknown member"),
        Violation("$.update", "toolCallId is missing"),
        Violation("$.sessionId", "expected string, got null"),
    ]


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (Notice, {"severity": "_odd", "title": "t"}),
        (StateUpdate, {"state": "_odd", "anything": [1]}),
        (CreateElicitationRequest, {"mode": "_odd", "message": "m", "requestId": None, "more": 1}),
        (McpError, {"code": 1, "message": "m", "vendor": True}),
        (ToolCall, {**CALL, "rawInput": None, "_meta": {"free": {"zzz": 1}}}),
        (UsageUpdate, {"used": 2**63, "size": 3.0, "cost": {"amount": 10**400, "currency": "credits"}}),
        (SessionConfigSelectOptions, []),
    ],
)
def test_open_and_free_values_are_no_violation(cls: Any, value: Any) -> None:
    assert found(cls, value) == []
