"""`$/cancel_request`: one request is given up, and still answered once."""

import asyncio
from typing import Any

import pytest
from tests.agent.scene import EVERYTHING, agent_that, silent, talk

from accord.agent import AgentSession, ClientRequest, Turn


async def forever(turn: Turn) -> None:
    await turn.say("begun")
    await asyncio.Event().wait()


@pytest.mark.rule(50)
async def test_a_prompt_given_up_by_its_id_ends_as_cancelled() -> None:
    async with talk(agent_that(forever)) as client:
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
    assert len([message for message in client.raw.heard if message.get("id") == id]) == 1


@pytest.mark.rule(50)
async def test_a_request_given_up_in_the_same_breath_is_answered_once() -> None:
    async with talk(agent_that(forever)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        client.raw.notify("$/cancel_request", {"requestId": id})
        answer = await client.raw.answer_to(id)
        again = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.turn_of(again)
    assert answer.get("result") == {"stopReason": "cancelled"} or answer["error"]["code"] == -32800


@pytest.mark.rule(50, 54)
async def test_another_request_given_up_is_answered_as_cancelled() -> None:
    agent = agent_that(silent)
    stopped: list[str] = []

    @agent.new_session
    async def slow(session: AgentSession) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(session.cwd)

    @agent.on("_scene/gives_up")
    async def gives_up(params: Any, call: ClientRequest) -> None:
        raise asyncio.CancelledError

    async with talk(agent) as client:
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id=5)
        own = await client.error("_scene/gives_up")
        client.raw.notify("$/cancel_request", {"requestId": 5})
        answer = await client.raw.answer_to(5)
    assert answer["error"]["code"] == -32800
    assert own["code"] == -32800
    assert stopped == ["/a"]


@pytest.mark.rule(52, 56)
@pytest.mark.parametrize("params", [{"requestId": 9999}, {"requestId": "done"}, {}, None, {"requestId": {}}])
async def test_giving_up_what_is_unknown_or_done_has_no_effect(params: Any) -> None:
    async with talk(agent_that(silent)) as client:
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id="done")
        await client.raw.answer_to("done")
        client.raw.notify("$/cancel_request", params)
        await client.new_session()
    assert len(client.raw.heard) == 3


@pytest.mark.rule(50)
async def test_what_a_cancelled_turn_waited_for_at_the_client_is_given_up_as_well() -> None:
    async def reads(turn: Turn) -> None:
        await turn.client.read_text_file("big.log")

    async with talk(agent_that(reads), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        id = client.prompt(session)
        asked = await client.asked("fs/read_text_file")
        client.cancel(session)
        given_up = await client.raw.next("$/cancel_request")
        client.raw.refuse(asked, -32800)
        _, result = await client.turn_of(id)
    assert given_up["params"] == {"requestId": asked["id"]}
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule(50)
async def test_a_method_of_ones_own_given_up_in_the_same_breath_never_begins() -> None:
    began: list[Any] = []
    agent = agent_that(silent)

    @agent.on("_scene/slow")
    async def slow(params: Any, call: ClientRequest) -> None:
        began.append(params)

    async with talk(agent) as client:
        client.raw.ask("_scene/slow", id=1)
        client.raw.notify("$/cancel_request", {"requestId": 1})
        answer = await client.raw.answer_to(1)
    assert answer["error"]["code"] == -32800
    assert began == []
