"""Prompts that arrive during a turn of the coding agent, over the wire, in all four provider formats."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.session import TurnStarted
from accord.store import open_store
from accord.testing.model_script import ModelAnswer, StreamPause
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)


def prompts_logged(session: str) -> int:
    """How many turns the log of a session has."""
    store = open_store(None)
    try:
        return sum(isinstance(event, TurnStarted) for event in store.events(session))
    finally:
        store.close()


async def test_held_prompts_are_answered_in_order(harness: AgentHarness, kind: Kind) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause, "."), ModelAnswer("Two."), ModelAnswer("Three.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        ids = [client.prompt(session, text) for text in ("first?", "second?", "third?")]
        await pause.reached()
        pause.release()
        turns = [await client.turn_of(id) for id in ids]
        bodies = [json.dumps(request.body) for request in server.requests]
    assert [_text(updates) for updates, _ in turns] == ["One.", "Two.", "Three."]
    assert all(result["stopReason"] == "end_turn" for _, result in turns)
    assert "second?" not in bodies[0]
    assert all(word in bodies[2] for word in ("first?", "One.", "second?", "Two.", "third?"))


async def test_a_cancel_ends_held_prompts_that_the_model_never_sees(
    harness: AgentHarness, kind: Kind
) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause, "."), ModelAnswer("Next.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        ids = [client.prompt(session, text) for text in ("first?", "second?", "third?")]
        await pause.reached()
        client.cancel(session)
        turns = [await client.turn_of(id) for id in ids]
        assert [result["stopReason"] for _, result in turns] == ["cancelled"] * 3
        await client.turn(session, "and now?")
        body = json.dumps(server.requests[-1].body)
    assert "first?" in body
    assert "second?" not in body
    assert prompts_logged(session) == 2


def _text(updates: Sequence[Any]) -> str:
    return "".join(
        update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
    )
