"""The checks of recorded messages find faults, so that their silence is meaningful."""

import json
from typing import Any

import pytest
from tests.interop.wire_record import WireRecord

PROMPT = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}


def update(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": members}}


def faults_of(message: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What both schemas report about a message of the agent."""
    record = WireRecord([json.dumps(PROMPT).encode()], [json.dumps(message).encode()])
    return record.breaches("agent"), record.unofficial("agent")


def test_a_valid_message_passes() -> None:
    assert faults_of(update(sessionUpdate="current_mode_update", currentModeId="ask")) == ([], [])
    assert faults_of({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}) == ([], [])
    assert faults_of({"jsonrpc": "2.0", "id": 5, "method": "_vendor/thing", "params": {"any": 1}}) == ([], [])


@pytest.mark.parametrize(
    "message",
    [
        update(sessionUpdate="agent_message_chunk"),
        update(sessionUpdate="agent_message_chunk", content="text"),
        update(sessionUpdate="tool_call", toolCallId="c"),
        update(sessionUpdate="zzz"),
        {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "bored"}},
        {"jsonrpc": "2.0", "id": 1, "result": None},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "y"}},
        {"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": {"sessionId": "s"}},
    ],
    ids=lambda message: json.dumps(message)[17:90],
)
def test_a_fault_is_found_by_both_schemas(message: dict[str, Any]) -> None:
    breaches, unofficial = faults_of(message)
    assert breaches
    assert unofficial


def test_an_unknown_member_is_found_by_accords_schema() -> None:
    """The official schema accepts any additional member."""
    breaches, _ = faults_of(update(sessionUpdate="current_mode_update", currentModeId="ask", zzz=1))
    assert breaches


def test_an_unknown_method_is_found_by_both_schemas() -> None:
    message = {"jsonrpc": "2.0", "id": 9, "method": "session/dance", "params": {}}
    breaches, unofficial = faults_of(message)
    assert breaches
    assert unofficial
