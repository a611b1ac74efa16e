"""The minimal test sequence of the community's quick reference, sent to an Accord agent in a real process."""

import asyncio
import json
from asyncio.subprocess import PIPE
from typing import Any

import pytest
from tests.interop.conversation import command_of


@pytest.mark.rule(
    "framing.agent-extra-members",
    "framing.exits-at-end-of-input",
    "initialize.version-returned",
    "initialize.minimal-client",
    "prompt.text-block",
    "prompt.stop-reason",
    "prompt.answered",
    "prompt.updates-before-response",
    "prompt.update-members",
    "permission.request-members",
    "permission.option-members",
)
async def test_the_minimal_sequence_of_the_quick_reference() -> None:
    agent = await asyncio.create_subprocess_exec(*command_of("agent", "accord"), stdin=PIPE, stdout=PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None

    def send(message: dict[str, Any]) -> None:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(message).encode() + b"\n")

    async def receive() -> dict[str, Any]:
        assert agent.stdout is not None
        message = json.loads(await agent.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    # 1. Initialize
    send(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": 1, "capabilities": {}},
        }
    )
    answer = await receive()
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == 1

    # 2. Create session
    send(
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": "/home/sprite", "mcpServers": []},
        }
    )
    answer = await receive()
    assert answer["id"] == 2
    session = answer["result"]["sessionId"]
    assert isinstance(session, str)
    assert session

    # 3. Send prompt
    prompt = [{"type": "text", "text": "say hello"}]
    send(
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": prompt},
        }
    )
    updates: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    while "id" not in (message := await receive()) or "method" in message:
        assert message["params"]["sessionId"] == session
        if message["method"] == "session/update":
            assert "id" not in message
            updates.append(message["params"]["update"])
        else:
            assert message["method"] == "session/request_permission"
            questions.append(message["params"])
            outcome = {"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}
            send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})
    assert message == {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}

    [question] = questions
    assert question["options"] == [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(update["content"]["text"] for update in chunks) == "Hello, friend!"

    agent.stdin.close()
    assert await agent.wait() == 0
