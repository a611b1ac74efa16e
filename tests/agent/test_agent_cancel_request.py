"""`$/cancel_request`: a cancelled request is still answered exactly once."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent, silent

from accord.agent import AgentSession, ClientRequest, Turn


async def forever(turn: Turn) -> None:
    await turn.say("begun")
    await asyncio.Event().wait()


@pytest.mark.rule("cancel-request.agent-still-answered")
async def test_a_prompt_cancelled_by_its_request_id_ends_as_cancelled() -> None:
    async with connected_client(make_agent(forever)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.raw.notify("$/cancel_request", {"requestId": id})
        _, result = await client.turn_of(id)
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        assert (await client.turn_of(id))[1] == {"stopReason": "cancelled"}
    assert result == {"stopReason": "cancelled"}
    assert len([message for message in client.raw.received if message.get("id") == id]) == 1


@pytest.mark.rule("cancel-request.agent-still-answered")
async def test_a_prompt_cancelled_right_after_it_was_sent_is_answered_as_cancelled() -> None:
    async with connected_client(make_agent(forever)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        client.raw.notify("$/cancel_request", {"requestId": id})
        answer = await client.raw.answer_to(id)
        again = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.turn_of(again)
    assert answer.get("result") == {"stopReason": "cancelled"} or answer["error"]["code"] == -32800


@pytest.mark.rule("cancel-request.agent-still-answered", "cancel-request.agent-own-abort")
async def test_any_cancelled_request_is_answered_with_request_cancelled() -> None:
    agent = make_agent(silent)
    stopped: list[str] = []

    @agent.new_session
    async def slow(session: AgentSession) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(session.cwd)

    @agent.on("_vendor/cancels_itself")
    async def cancels_itself(params: Any, call: ClientRequest) -> None:
        raise asyncio.CancelledError

    async with connected_client(agent) as client:
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id=5)
        own = await client.error("_vendor/cancels_itself")
        client.raw.notify("$/cancel_request", {"requestId": 5})
        answer = await client.raw.answer_to(5)
    assert answer["error"]["code"] == -32800
    assert own["code"] == -32800
    assert stopped == ["/a"]


@pytest.mark.rule("cancel-request.agent-unknown-id", "cancel-request.agent-other-notification")
@pytest.mark.parametrize("params", [{"requestId": 9999}, {"requestId": "done"}, {}, None, {"requestId": {}}])
async def test_cancelling_an_unknown_or_finished_request_has_no_effect(params: Any) -> None:
    async with connected_client(make_agent(silent)) as client:
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id="done")
        await client.raw.answer_to("done")
        client.raw.notify("$/cancel_request", params)
        await client.new_session()
    assert len(client.raw.received) == 3


@pytest.mark.rule("cancel-request.agent-still-answered")
async def test_a_cancelled_turn_cancels_its_pending_client_request() -> None:
    async def reads(turn: Turn) -> None:
        await turn.client.read_text_file("big.log")

    async with connected_client(make_agent(reads), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        id = client.prompt(session)
        asked = await client.asked("fs/read_text_file")
        client.cancel(session)
        cancel = await client.raw.next("$/cancel_request")
        client.raw.refuse(asked, -32800)
        _, result = await client.turn_of(id)
    assert cancel["params"] == {"requestId": asked["id"]}
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule("cancel-request.agent-still-answered")
async def test_a_custom_method_cancelled_right_after_it_was_sent_never_starts() -> None:
    started: list[Any] = []
    agent = make_agent(silent)

    @agent.on("_vendor/slow")
    async def slow(params: Any, call: ClientRequest) -> None:
        started.append(params)

    async with connected_client(agent) as client:
        client.raw.ask("_vendor/slow", id=1)
        client.raw.notify("$/cancel_request", {"requestId": 1})
        answer = await client.raw.answer_to(1)
    assert answer["error"]["code"] == -32800
    assert started == []
