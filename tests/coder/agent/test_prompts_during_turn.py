"""Prompts that arrive during a turn of the coding agent, over the wire, in all four provider formats."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.session import TurnStarted
from accord.store import open_store
from accord.testing.model_script import ModelAnswer, ModelFault, ModelToolCall, StreamPause
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


def steer(client: Client, session: str, text: str, **more: Any) -> Any:
    """Send a message to the running turn; return the id of the request."""
    prompt = [{"type": "text", "text": text}]
    return client.raw.ask("_session/steering", {"sessionId": session, "prompt": prompt, **more})


PROMPT_REQUIRED = {"_meta": {"steering": {"idleBehavior": "promptRequired"}}}


async def test_a_message_reaches_the_model_behind_the_results_of_its_tools(
    harness: AgentHarness, kind: Kind
) -> None:
    (harness.project / "a.txt").write_text("alpha")
    pause = StreamPause()
    script = [
        ModelAnswer("I look.", pause, ModelToolCall("read_file", {"path": "a.txt"})),
        ModelAnswer("Two."),
    ]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        assert client.initialized["_meta"]["steering"] == {"supported": True}
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "first?")
        await pause.reached()
        steered = await client.raw.answer_to(steer(client, session, "use tabs", **PROMPT_REQUIRED))
        pause.release()
        _, result = await client.turn_of(turn)
        bodies = [json.dumps(request.body) for request in server.requests]
        assert (steered["result"], result["stopReason"]) == ({"outcome": "injected"}, "end_turn")
        assert "use tabs" not in bodies[0]
        assert bodies[1].index("alpha") < bodies[1].index("use tabs")
        assert not client.updates_of("user_message_chunk"), "the client shows what it sent itself"
        await client.call("session/close", {"sessionId": session})
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        replayed = [update["content"]["text"] for update in client.updates_of("user_message_chunk")]
    assert replayed == ["first?", "use tabs"]


async def test_a_message_during_the_last_answer_continues_the_turn(harness: AgentHarness, kind: Kind) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause, "."), ModelAnswer("Two.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "first?")
        await pause.reached()
        ids = [steer(client, session, text) for text in ("second", "third")]
        assert [(await client.raw.answer_to(id))["result"] for id in ids] == [{"outcome": "injected"}] * 2
        pause.release()
        updates, result = await client.turn_of(turn)
        body = json.dumps(server.requests[1].body)
    assert _text(updates).endswith("Two.")
    assert result["stopReason"] == "end_turn"
    assert body.index("One.") < body.index("second") < body.index("third")


async def test_a_message_right_behind_the_prompt_joins_its_turn(harness: AgentHarness, kind: Kind) -> None:
    script = [ModelAnswer("One."), ModelAnswer("Two.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        turn, message = client.prompt(session, "first?"), steer(client, session, "use tabs")
        assert (await client.raw.answer_to(message))["result"] == {"outcome": "injected"}
        assert (await client.turn_of(turn))[1]["stopReason"] == "end_turn"
        body = json.dumps(server.requests[-1].body)
    assert body.index("first?") < body.index("use tabs")


async def test_a_message_without_a_turn_is_returned_or_starts_one(harness: AgentHarness, kind: Kind) -> None:
    async with ModelServer([ModelAnswer("Own.")]) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        returned = await client.raw.answer_to(steer(client, session, "now?", **PROMPT_REQUIRED))
        assert returned["result"] == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        started = await client.raw.answer_to(steer(client, session, "now!"))
        assert started["result"] == {"outcome": "startedNewTurn"}
        assert (await client.update("agent_message_chunk"))["content"]["text"] == "Own."
        body = json.dumps(server.requests[0].body)
    assert "now!" in body
    assert "now?" not in body


async def test_a_cancel_drops_messages_that_have_not_landed(harness: AgentHarness, kind: Kind) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause), ModelAnswer("Next.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "first?")
        await pause.reached()
        await client.raw.answer_to(steer(client, session, "dropped"))
        client.cancel(session)
        assert (await client.turn_of(turn))[1]["stopReason"] == "cancelled"
        await client.turn(session, "and now?")
        body = json.dumps(server.requests[-1].body)
    assert "dropped" not in body


async def test_a_message_that_a_failed_turn_did_not_read_is_kept(harness: AgentHarness, kind: Kind) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause, ModelFault(401, kind="auth")), ModelAnswer("Next.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "first?")
        await pause.reached()
        await client.raw.answer_to(steer(client, session, "kept"))
        pause.release()
        assert "error" in await client.raw.answer_to(turn)
        await client.turn(session, "and now?")
        body = json.dumps(server.requests[-1].body)
    assert body.index("kept") < body.index("and now?")


@pytest.mark.parametrize(
    "params",
    [
        {"prompt": "x"},
        {"prompt": []},
        {"sessionId": ""},
        {"_meta": {"steering": {"idleBehavior": "other"}}},
    ],
)
async def test_invalid_steering_is_refused(harness: AgentHarness, kind: Kind, params: dict[str, Any]) -> None:
    async with ModelServer() as server, provider_client(harness, server, kind, strict=True) as client:
        session = await client.new_session(harness.cwd)
        valid = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        assert (await client.error("_session/steering", {**valid, **params}))["code"] == -32602
        assert (await client.error("_session/steering", {**valid, "sessionId": "nope"}))["code"] == -32002


def _text(updates: Sequence[Any]) -> str:
    return "".join(
        update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
    )
