"""Cancelling a turn: the code hears it as cancellation, and the client gets `cancelled`, whatever the code does."""

import asyncio

import pytest
from tests.agent.scene import EVERYTHING, agent_that, talk

from accord.agent import AgentOptions, Turn
from accord.testing.clock import FakeClock


@pytest.mark.rule(161, 162, 163, 164, 170)
async def test_the_code_is_cancelled_and_its_last_words_precede_the_answer() -> None:
    heard: list[bool] = []

    async def works(turn: Turn) -> None:
        try:
            async with turn.tool_call("Sleep", kind="execute", start=True) as call:
                await call.text("sleeping")
                await asyncio.Event().wait()
        finally:
            heard.append(turn.cancelled)
            await turn.say("stopped")

    async with talk(agent_that(works)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("tool_call_update")
        client.cancel(session)
        updates, result = await client.turn_of(id)
        again = client.prompt(session)
        await client.update("tool_call")
        client.cancel(session)
        await client.turn_of(again)
    assert result == {"stopReason": "cancelled"}
    assert updates[0]["status"] == "failed"
    assert updates[-1]["content"]["text"] == "stopped"
    assert heard == [True, True]


@pytest.mark.rule(161, 162)
@pytest.mark.parametrize("way", ["raises", "returns", "swallows", "refuses"])
async def test_whatever_the_code_makes_of_it_the_answer_is_cancelled(way: str) -> None:
    async def works(turn: Turn) -> str | None:
        try:
            await turn.say("begun")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if way == "raises":
                raise ValueError("the model hung up") from None
            if way == "returns":
                return "end_turn"
            if way == "refuses":
                return "nonsense"
        return None

    async with talk(agent_that(works)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        client.cancel(session)
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule(161)
async def test_a_turn_cancelled_in_the_same_breath_never_begins() -> None:
    began: list[Turn] = []

    async def works(turn: Turn) -> None:
        began.append(turn)

    async with talk(agent_that(works)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        client.cancel(session)
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "cancelled"}
    assert began == []


@pytest.mark.rule(162, 163, 164)
async def test_code_that_will_not_stop_is_answered_for_and_no_longer_heard() -> None:
    clock = FakeClock()
    let_go = asyncio.Event()
    over = asyncio.Event()

    async def stubborn(turn: Turn) -> None:
        if turn.text == "again":
            return
        async with turn.tool_call("Dig") as call:
            while not let_go.is_set():
                try:
                    await turn.say("still here")
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            await call.text("dug")
            await turn.say("too late")
            assert not await call.ask_permission()
        over.set()

    options = AgentOptions(clock=clock, cancel_grace=5.0)
    async with talk(agent_that(stubborn), options=options) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.update("agent_message_chunk")
        await clock.advance(5.0)
        updates, result = await client.turn_of(id)
        let_go.set()
        await over.wait()
        assert await client.turn(session, "again") == ([], {"stopReason": "end_turn"})
    assert result == {"stopReason": "cancelled"}
    assert [update["status"] for update in updates] == ["failed"]
    assert "too late" not in str(client.raw.heard)


@pytest.mark.rule(168)
async def test_a_cancel_without_a_turn_is_harmless() -> None:
    async def speaks(turn: Turn) -> None:
        await turn.say("hi")

    async with talk(agent_that(speaks)) as client:
        session = await client.new_session()
        client.cancel(session)
        client.cancel("nope")
        updates, result = await client.turn(session)
        client.cancel(session)
        await client.turn(session)
    assert updates[0]["content"]["text"] == "hi"
    assert result == {"stopReason": "end_turn"}


@pytest.mark.rule(169)
@pytest.mark.dialect(29)
@pytest.mark.parametrize("way", ["outcome", "error", "silence"])
async def test_a_cancelled_permission_may_be_answered_in_any_way(way: str) -> None:
    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Delete", kind="delete") as call:
            await call.ask_permission()

    async with talk(agent_that(asks)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        asked = await client.asked("session/request_permission")
        client.cancel(session)
        if way == "outcome":
            client.raw.reply(asked, {"outcome": {"outcome": "cancelled"}})
        elif way == "error":
            client.raw.refuse(asked, -32800)
        updates, result = await client.turn_of(id)
    assert result == {"stopReason": "cancelled"}
    assert [update["status"] for update in updates] == ["failed"]


@pytest.mark.rule(161)
@pytest.mark.dialect(30, 206)
async def test_a_cancel_that_wants_an_answer_gets_one_and_its_old_name_works() -> None:
    async def waits(turn: Turn) -> None:
        await turn.say("begun")
        await asyncio.Event().wait()

    async with talk(agent_that(waits)) as client:
        session = await client.new_session()
        first = client.prompt(session)
        await client.update("agent_message_chunk")
        cancel = client.raw.ask("session/cancel", {"sessionId": session})
        answers = [await client.raw.next(), await client.raw.next()]
        second = client.prompt(session)
        await client.update("agent_message_chunk")
        client.raw.notify("session/cancelled", {"sessionId": session})
        _, result = await client.turn_of(second)
    assert {answer["id"]: answer["result"] for answer in answers} == {
        cancel: {},
        first: {"stopReason": "cancelled"},
    }
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule(157)
async def test_a_running_turn_does_not_keep_the_agent_from_serving() -> None:
    async def waits(turn: Turn) -> None:
        await turn.client.read_text_file("a.txt")

    async with talk(agent_that(waits), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        id = client.prompt(session)
        asked = await client.asked("fs/read_text_file")
        other = await client.new_session()
        await client.error("session/set_mode", {"sessionId": session, "modeId": "x"})
        await client.call("session/close", {"sessionId": other})
        client.raw.reply(asked, {"content": ""})
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "end_turn"}
