"""Cancelling a turn: the handler gets `CancelledError`, the client gets `cancelled`."""

import asyncio

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent

from accord.agent import AgentOptions, AgentSession, Turn
from accord.schema import (
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from accord.testing.fake_clock import FakeClock


@pytest.mark.rule(
    "cancel.stop-reason",
    "cancel.no-error",
    "cancel.soon",
    "cancel.updates-before-response",
    "cancel.session-continues",
)
async def test_a_cancelled_handler_may_send_updates_before_the_response() -> None:
    cancelled_flags: list[bool] = []

    async def works(turn: Turn) -> None:
        try:
            async with turn.tool_call("Sleep", kind="execute", start=True) as call:
                await call.text("sleeping")
                await asyncio.Event().wait()
        finally:
            cancelled_flags.append(turn.cancelled)
            await turn.say("stopped")

    async with connected_client(make_agent(works)) as client:
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
    assert cancelled_flags == [True, True]


@pytest.mark.rule("cancel.stop-reason", "cancel.no-error")
@pytest.mark.parametrize("way", ["raises", "returns", "swallows", "refuses"])
async def test_the_stop_reason_is_cancelled_however_the_handler_ends(way: str) -> None:
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

    async with connected_client(make_agent(works)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        client.cancel(session)
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule("cancel.stop-reason")
async def test_a_turn_cancelled_right_after_its_prompt_never_starts() -> None:
    started: list[Turn] = []

    async def works(turn: Turn) -> None:
        started.append(turn)

    async with connected_client(make_agent(works)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        client.cancel(session)
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "cancelled"}
    assert started == []


@pytest.mark.rule("cancel.updates-before-response")
async def test_a_handler_that_ignores_cancellation_changes_no_mode_or_option() -> None:
    """A turn that was answered for it may belong to the past: the user may have chosen another mode since."""
    clock, released, over = FakeClock(), asyncio.Event(), asyncio.Event()

    async def stubborn(turn: Turn) -> None:
        await turn.say("begun")
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        await turn.set_mode("code")
        await turn.set_option("llm", "m2")
        over.set()

    agent = make_agent(stubborn)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.modes = SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])
        choices = [SessionConfigSelectOption("m1", "M1"), SessionConfigSelectOption("m2", "M2")]
        session.config_options = [SessionConfigSelect("llm", "Model", "m1", choices, category="model")]

    async with connected_client(agent, options=AgentOptions(clock=clock, cancel_grace=5.0)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        await clock.advance(5.0)
        assert await client.turn_of(id) == ([], {"stopReason": "cancelled"})
        released.set()
        await over.wait()
        answer = await client.call(
            "session/set_config_option", {"sessionId": session, "configId": "llm", "value": "m1"}
        )
    current = {option["id"]: option["currentValue"] for option in answer["configOptions"]}
    assert current == {"mode": "ask", "llm": "m1"}
    assert "current_mode_update" not in str(client.raw.received)


@pytest.mark.rule("cancel.no-error", "cancel.soon", "cancel.updates-before-response")
async def test_a_handler_that_ignores_cancellation_is_answered_for_and_its_output_dropped() -> None:
    clock = FakeClock()
    released = asyncio.Event()
    over = asyncio.Event()

    async def stubborn(turn: Turn) -> None:
        if turn.text == "again":
            return
        async with turn.tool_call("Dig") as call:
            while not released.is_set():
                try:
                    await turn.say("still here")
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            await call.text("dug")
            await turn.say("too late")
            assert not await call.ask_permission()
        over.set()

    options = AgentOptions(clock=clock, cancel_grace=5.0)
    async with connected_client(make_agent(stubborn), options=options) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.update("agent_message_chunk")
        await clock.advance(5.0)
        updates, result = await client.turn_of(id)
        released.set()
        await over.wait()
        assert await client.turn(session, "again") == ([], {"stopReason": "end_turn"})
    assert result == {"stopReason": "cancelled"}
    assert [update["status"] for update in updates] == ["failed"]
    assert "too late" not in str(client.raw.received)


@pytest.mark.rule("cancel.without-turn")
async def test_a_cancel_without_a_turn_has_no_effect() -> None:
    async def speaks(turn: Turn) -> None:
        await turn.say("hi")

    async with connected_client(make_agent(speaks)) as client:
        session = await client.new_session()
        client.cancel(session)
        client.cancel("nope")
        updates, result = await client.turn(session)
        client.cancel(session)
        await client.turn(session)
    assert updates[0]["content"]["text"] == "hi"
    assert result == {"stopReason": "end_turn"}


@pytest.mark.rule("cancel.permission-outcome")
@pytest.mark.dialect(29)
@pytest.mark.parametrize("way", ["outcome", "error", "silence"])
async def test_a_turn_is_cancelled_however_its_permission_request_is_answered(way: str) -> None:
    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Delete", kind="delete") as call:
            await call.ask_permission()

    async with connected_client(make_agent(asks)) as client:
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


@pytest.mark.rule("cancel.stop-reason")
@pytest.mark.dialect(30, 206)
async def test_a_cancel_request_is_answered_and_the_old_method_name_works() -> None:
    async def waits(turn: Turn) -> None:
        await turn.say("begun")
        await asyncio.Event().wait()

    async with connected_client(make_agent(waits)) as client:
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


@pytest.mark.rule("prompt.requests-during-turn")
async def test_other_requests_are_served_during_a_turn() -> None:
    async def waits(turn: Turn) -> None:
        await turn.client.read_text_file("a.txt")

    async with connected_client(make_agent(waits), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        id = client.prompt(session)
        asked = await client.asked("fs/read_text_file")
        other = await client.new_session()
        await client.error("session/set_mode", {"sessionId": session, "modeId": "x"})
        await client.call("session/close", {"sessionId": other})
        client.raw.reply(asked, {"content": ""})
        _, result = await client.turn_of(id)
    assert result == {"stopReason": "end_turn"}
