"""Cancelling a turn: by request, by leaving the iteration, and what arrives afterwards."""

import asyncio
from contextlib import aclosing

import pytest
from tests.client.raw_agent import YES_NO, EventCollector, in_session, kinds

from accord import TurnResult
from accord.client import ClientHandlers, ClientOptions, TimeLimits
from accord.errors import TurnSilent
from accord.schema import AgentMessageChunk
from accord.session import PermissionAsked, ToolCallChanged, TurnCancelling, TurnEnded, TurnStarted
from accord.testing.fake_clock import FakeClock, settle


def question(call_id="c1"):
    return {"sessionId": "s1", "toolCall": {"toolCallId": call_id, "title": "Delete"}, "options": YES_NO}


async def never(_request):
    await asyncio.Event().wait()


@pytest.mark.rule("cancel.notification", "cancel.late-updates-applied")
async def test_cancel_is_a_notification_and_the_turn_continues_until_its_response():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("count to a million"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "tool_call", toolCallId="c1", title="Count", status="in_progress")
        await turn.until(ToolCallChanged)
        session.cancel()
        cancel = await peer.next("session/cancel")
        assert "id" not in cancel
        assert cancel["params"] == {"sessionId": "s1"}
        session.cancel()  # a second cancel is not sent

        peer.say("stopping")
        peer.update("s1", "tool_call_update", toolCallId="c1", status="failed")
        peer.reply(prompt, {"stopReason": "cancelled"})
        events = await turn.end()
    assert kinds(events) == [
        "TurnStarted",
        "ToolCallChanged",
        "TurnCancelling",
        "AgentMessageChunk",
        "ToolCallChanged",
        "TurnEnded",
    ]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].stop_reason == "cancelled"
    assert [message.get("method") for message in peer.received].count("session/cancel") == 1


@pytest.mark.rule("cancel.open-tool-calls-marked")
async def test_open_tool_calls_are_marked_cancelled():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "tool_call", toolCallId="c1", title="Open", status="in_progress")
        peer.update("s1", "tool_call", toolCallId="c2", title="Done", status="completed")
        await settle()
        session.cancel()
        assert session.state.tool_calls["c1"].cancelled
        assert not session.state.tool_calls["c2"].cancelled
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()


@pytest.mark.rule("cancel.pending-permissions")
async def test_cancel_answers_every_pending_permission_request():
    async with in_session(handlers=ClientHandlers(permissions=never)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        first = peer.ask("session/request_permission", question("c1"), id=0)
        second = peer.ask("session/request_permission", question("c2"), id="perm_2")
        await settle()
        assert len(session.state.permissions) == 2
        session.cancel()
        await peer.next("session/cancel")
        cancelled = {"outcome": {"outcome": "cancelled"}}
        answers = {message["id"]: message["result"] for message in [await peer.next(), await peer.next()]}
        assert answers == {first: cancelled, second: cancelled}
        assert session.state.permissions == {}
        # A request that arrives after the cancel is not shown.
        assert await peer.result_of("session/request_permission", question("c3")) == cancelled
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()


@pytest.mark.rule("cancel.pending-permissions")
async def test_an_agent_that_withdraws_its_request_after_the_cancel_gets_the_answer_too():
    async with in_session(handlers=ClientHandlers(permissions=never)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        asked = peer.ask("session/request_permission", question())
        await turn.until(PermissionAsked)
        peer.notify("$/cancel_request", {"requestId": asked})
        session.cancel()
        assert (await peer.answer_to(asked))["result"] == {"outcome": {"outcome": "cancelled"}}
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()


async def test_a_permission_handler_that_does_not_return_does_not_delay_the_cancel():
    closing = asyncio.Event()

    async def stubborn(_request):
        try:
            await asyncio.Event().wait()
        finally:
            await closing.wait()

    async with in_session(handlers=ClientHandlers(permissions=stubborn)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        asked = peer.ask("session/request_permission", question())
        await turn.until(PermissionAsked)
        session.cancel()
        assert (await peer.answer_to(asked))["result"] == {"outcome": {"outcome": "cancelled"}}
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()
        closing.set()


@pytest.mark.parametrize("reason", ["end_turn", "refusal", "whatever"])
async def test_a_cancelled_turn_may_end_with_another_stop_reason(reason):
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        session.cancel()
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": reason})
        ended = (await turn.end())[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.raw_reason == reason
        assert session.state.turn == "idle"


async def test_leaving_the_loop_cancels_the_turn_and_later_updates_are_applied():
    async with in_session() as (session, peer):

        async def read_one():
            async with aclosing(session.prompt("go")) as events:
                async for event in events:
                    if isinstance(event, AgentMessageChunk):
                        return

        reading = asyncio.create_task(read_one())
        prompt = await peer.next("session/prompt")
        peer.say("enough")
        await reading
        await peer.next("session/cancel")
        peer.say(", more")
        peer.reply(prompt, {"stopReason": "cancelled"})
        await settle()
        assert session.state.messages[-1].text == "enough, more"
        assert session.state.turn == "idle"


async def test_breaking_out_of_the_loop_cancels_the_turn():
    async with in_session() as (session, peer):

        async def read_one():
            async for event in session.prompt("go"):
                if isinstance(event, TurnStarted):
                    break

        await read_one()
        prompt = await peer.next("session/prompt")
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        await settle()
        assert session.state.turn == "idle"


async def test_cancelling_the_iterating_task_cancels_the_turn():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        await turn.cancel()
        await peer.next("session/cancel")
        assert session.state.turn == "cancelling"
        peer.reply(prompt, {"stopReason": "cancelled"})
        await settle()
        assert session.state.turn == "idle"


async def test_cancelling_an_ask_cancels_its_turn():
    async with in_session() as (session, peer):
        pending = asyncio.create_task(session.ask("go"))
        prompt = await peer.next("session/prompt")
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})


@pytest.mark.rule("cancel.waits-before-next-prompt")
async def test_the_next_prompt_waits_for_the_response_to_the_cancelled_one():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("one"))
        first = await peer.next("session/prompt")
        session.cancel()
        again = EventCollector(session.prompt("two"))
        await peer.next("session/cancel")
        await settle()
        assert len(peer.received) == 4, "the second prompt was not sent yet"
        peer.reply(first, {"stopReason": "cancelled"})
        second = await peer.next("session/prompt")
        assert second["params"]["prompt"][0]["text"] == "two"
        peer.reply(second, {"stopReason": "end_turn"})
        assert kinds(await turn.end())[-1] == "TurnEnded"
        assert kinds(await again.end()) == ["TurnStarted", "TurnEnded"]


async def test_a_cancel_right_after_the_prompt_is_sent_after_it():
    async with in_session() as (session, peer), aclosing(session.prompt("go")) as events:
        assert isinstance(await anext(events), TurnStarted)
        session.cancel()
        prompt = await peer.next("session/prompt")
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        assert kinds([event async for event in events]) == ["TurnCancelling", "TurnEnded"]


async def test_a_cancel_before_the_prompt_is_written_is_sent_after_it():
    async with in_session() as (session, peer):
        started = asyncio.Event()

        async def ask() -> TurnResult:
            started.set()
            return await session.ask("go")

        pending = asyncio.create_task(ask())
        await started.wait()
        assert session.running
        session.cancel()
        prompt = await peer.next("session/prompt")
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        assert (await pending).stop_reason == "cancelled"
        assert [message.get("method") for message in peer.received].count("session/cancel") == 1


async def test_a_cancel_reaches_a_prompt_that_waits_for_the_end_of_another_turn():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("one"))
        first = await peer.next("session/prompt")
        session.cancel()
        waiting = asyncio.create_task(session.ask("two"))
        await peer.next("session/cancel")
        await settle()
        session.cancel()
        peer.reply(first, {"stopReason": "cancelled"})
        second = await peer.next("session/prompt")
        await peer.next("session/cancel")
        peer.reply(second, {"stopReason": "cancelled"})
        assert (await waiting).stop_reason == "cancelled"
        await turn.end()


async def test_cancel_without_a_turn_sends_nothing():
    async with in_session() as (session, peer):
        session.cancel()
        await settle()
        assert [message["method"] for message in peer.received] == ["initialize", "session/new"]


async def test_a_cancelled_turn_without_a_response_times_out():
    clock = FakeClock()
    options = ClientOptions(clock=clock, limits=TimeLimits(cancel=10))
    async with in_session(options=options) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        await peer.next("session/prompt")
        session.cancel()
        await turn.until(TurnCancelling)
        await clock.advance(8)
        peer.say("one moment")
        await clock.advance(9)
        assert "TurnEnded" not in kinds(turn.events)
        await clock.advance(3)
        with pytest.raises(TurnSilent, match="sent nothing for another 10 s"):
            await turn.end()
        assert kinds(turn.events)[-1] == "TurnEnded"

        again = EventCollector(session.prompt("again"))
        peer.reply(await peer.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert kinds(await again.end())[-1] == "TurnEnded"


@pytest.mark.rule("cancel.pending-permissions")
async def test_cancelling_a_session_answers_the_permission_requests_of_its_subagents():
    async with in_session(handlers=ClientHandlers(permissions=never)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="kid", state={"state": "running"})
        asked = peer.ask("session/request_permission", question() | {"sessionId": "kid"})
        await settle()
        (child,) = session.children
        assert len(child.state.permissions) == 1
        session.cancel()
        assert (await peer.answer_to(asked))["result"] == {"outcome": {"outcome": "cancelled"}}
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()


@pytest.mark.rule("cancel.pending-permissions")
async def test_cancelling_a_session_answers_the_permission_requests_of_subagents_of_subagents():
    async with in_session(handlers=ClientHandlers(permissions=never)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="kid", state={"state": "running"})
        peer.update("kid", "subagent_update", sessionId="grandkid", state={"state": "running"})
        asked = peer.ask("session/request_permission", question() | {"sessionId": "grandkid"})
        await settle()
        session.cancel()
        assert (await peer.answer_to(asked))["result"] == {"outcome": {"outcome": "cancelled"}}
        peer.reply(prompt, {"stopReason": "cancelled"})
        await turn.end()
