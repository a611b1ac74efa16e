"""What the user sees when a provider fails or refuses, over the wire, in all four provider formats."""

import json
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.testing import FakeClock
from accord.testing.model_script import DroppedConnection, ModelAnswer, ModelFault, Refusal, Thought
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)


def texts(updates: list[Any]) -> dict[str, str]:
    """The agent's messages by id."""
    messages: dict[str, str] = {}
    for update in updates:
        if update["sessionUpdate"] == "agent_message_chunk":
            messages[update["messageId"]] = messages.get(update["messageId"], "") + update["content"]["text"]
    return messages


async def test_the_text_of_a_refusal_is_a_message_of_its_own(harness: AgentHarness, kind: Kind) -> None:
    answer = ModelAnswer("I begin.", Refusal("This is not allowed."))
    async with ModelServer([answer]) as server, provider_client(harness, server, kind) as client:
        updates, result = await client.turn(await client.new_session(harness.cwd), "go")
    assert result["stopReason"] == "refusal"
    answer_text, refusal = texts(updates).values()
    assert answer_text.startswith("I begin.")
    if kind.startswith("openai"):  # the others name only the reason
        assert (answer_text, refusal.strip()) == ("I begin.", "This is not allowed.")


async def test_an_answer_that_broke_off_is_asked_for_again(harness: AgentHarness, kind: Kind) -> None:
    broken = ModelAnswer(Thought("Hm."), "Half an ans", DroppedConnection())
    script = [broken, ModelAnswer("A whole answer."), ModelAnswer("Next.")]
    clock = FakeClock()
    async with ModelServer(script) as server, provider_client(harness, server, kind, clock=clock) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "go")
        await client.raw.until(lambda message: "Trying again" in json.dumps(message))
        await clock.advance(10)
        updates, result = await client.turn_of(turn)
        await client.turn(session, "and now?")
        history = json.dumps(server.requests[-1].body)
    assert result["stopReason"] == "end_turn"
    assert list(texts(updates).values())[-1] == "A whole answer."
    assert "A whole answer." in history
    assert "Half an ans" not in history


async def test_a_denied_access_is_not_called_a_bad_key(harness: AgentHarness, kind: Kind) -> None:
    fault = ModelFault(403, "Your country is not supported", retry_after=7)
    async with ModelServer([fault]) as server, provider_client(harness, server, kind) as client:
        turn = client.prompt(await client.new_session(harness.cwd), "go")
        error = (await client.raw.answer_to(turn))["error"]
    assert error["code"] == -32603
    assert "access was denied (403): Your country is not supported" in error["message"]
    assert error["message"].endswith("the provider asks to wait 7 s")
