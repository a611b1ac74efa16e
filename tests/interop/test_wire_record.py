"""The judges of the recorded wire find what is wrong, so that their silence means something."""

import json
from typing import Any

import pytest
from tests.interop.wire_record import WireRecord

PROMPT = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}


def update(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": members}}


def judged(message: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What both judges say about a message of the agent."""
    record = WireRecord([json.dumps(PROMPT).encode()], [json.dumps(message).encode()])
    return record.breaches("agent"), record.unofficial("agent")


def test_a_sound_message_passes() -> None:
    assert judged(update(sessionUpdate="current_mode_update", currentModeId="ask")) == ([], [])
    assert judged({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}) == ([], [])
    assert judged({"jsonrpc": "2.0", "id": 5, "method": "_vendor/thing", "params": {"any": 1}}) == ([], [])


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
def test_a_fault_is_found_by_both_judges(message: dict[str, Any]) -> None:
    breaches, unofficial = judged(message)
    assert breaches
    assert unofficial


def test_an_unknown_member_is_found_by_the_strict_walk() -> None:
    """The official schema takes any further member."""
    breaches, _ = judged(update(sessionUpdate="current_mode_update", currentModeId="ask", zzz=1))
    assert breaches


def test_an_unknown_method_is_found_by_both_judges() -> None:
    message = {"jsonrpc": "2.0", "id": 9, "method": "session/dance", "params": {}}
    breaches, unofficial = judged(message)
    assert breaches
    assert unofficial
