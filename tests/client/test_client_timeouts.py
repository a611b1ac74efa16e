"""Time limits: stalled calls end, working ones continue. The tests advance a fake clock."""

import asyncio

import pytest
from tests.client.raw_agent import YES_NO, EventCollector, RawAgent, connected, in_session, kinds

from accord.client import ClientHandlers, ClientOptions, TimeLimits, connect_transport, local_workspace
from accord.errors import HandshakeFailed, RequestTimeout, TurnSilent
from accord.session import PermissionAsked, TurnCancelling, TurnEnded
from accord.testing.fake_clock import FakeClock, settle
from accord.wire.calls import ConnectionLimits
from accord.wire.memory_transport import memory_pair


async def test_a_request_without_a_response_times_out():
    clock = FakeClock()
    async with in_session(options=ClientOptions(clock=clock)) as (session, peer):
        closing = asyncio.create_task(session.close())
        asked = await peer.next("session/close")
        await clock.advance(59)
        assert not closing.done()
        peer.say("chatter does not answer it")
        await clock.advance(7)
        with pytest.raises(RequestTimeout, match="session/close was not answered within 60 s"):
            await closing
        cancelled = await peer.next("$/cancel_request")
        assert cancelled["params"] == {"requestId": asked["id"]}
        peer.reply(asked, {})  # too late; ignored
        await settle()


async def test_the_time_limit_of_a_request_stops_while_the_agent_waits_for_the_user():
    clock = FakeClock()
    deciding = asyncio.Event()

    async def slow(_form):
        await deciding.wait()
        return {}

    options = ClientOptions(clock=clock)
    async with connected(options=options, handlers=ClientHandlers(forms=slow)) as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        asked = await peer.next("session/new")
        form = {
            "mode": "form",
            "message": "Trust it?",
            "requestId": asked["id"],
            "requestedSchema": {"type": "object"},
        }
        question = peer.ask("elicitation/create", form)
        await clock.advance(1000)
        assert not opening.done()
        deciding.set()
        await peer.answer_to(question)
        await clock.advance(50)
        peer.reply(asked, {"sessionId": "s1"})
        assert (await opening).id == "s1"


async def test_authenticate_has_no_time_limit():
    clock = FakeClock()
    methods = [{"id": "browser", "name": "Browser"}]
    async with connected(options=ClientOptions(clock=clock), authMethods=methods) as (agent, peer):
        signing_in = asyncio.create_task(agent.authenticate("browser"))
        asked = await peer.next("authenticate")
        await clock.advance(24 * 3600)
        assert not signing_in.done()
        peer.reply(asked, {})
        await signing_in


@pytest.mark.rule("prompt.patient")
async def test_a_prompt_has_no_time_limit_while_updates_arrive():
    clock = FakeClock()
    async with in_session(options=ClientOptions(clock=clock)) as (session, peer):
        turn = EventCollector(session.prompt("build it all"))
        prompt = await peer.next("session/prompt")
        for hour in range(10):
            await clock.advance(500)
            peer.say(f"{hour}")
            await settle()
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert kinds(await turn.end())[-1] == "TurnEnded"


async def test_a_silent_turn_is_cancelled_and_ends_with_its_response():
    clock = FakeClock()
    async with in_session(options=ClientOptions(clock=clock)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.say("thinking")
        await clock.advance(599)
        assert not any(isinstance(event, TurnCancelling) for event in turn.events)
        await clock.advance(15)
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        with pytest.raises(TurnSilent, match="the agent sent nothing for 600 s"):
            await turn.end()
        ended = turn.events[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.stop_reason == "cancelled"


async def test_a_silent_turn_fails_when_the_cancel_gets_no_response():
    clock = FakeClock()
    async with in_session(options=ClientOptions(clock=clock)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        await clock.advance(600)
        await peer.next("session/cancel")
        await clock.advance(11)
        with pytest.raises(TurnSilent, match="but the agent did not respond within 10 s"):
            await turn.end()
        assert kinds(turn.events) == ["TurnStarted", "TurnCancelling", "TurnEnded"]
        peer.reply(prompt, {"stopReason": "end_turn"})  # too late; ignored
        await settle()
        assert session.state.turn == "idle"


async def test_silence_does_not_count_while_a_permission_request_is_pending():
    clock = FakeClock()
    decided = asyncio.Event()

    async def think(request):
        await decided.wait()
        return request.option("allow_once")

    options = ClientOptions(clock=clock)
    async with in_session(options=options, handlers=ClientHandlers(permissions=think)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        question = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": YES_NO}
        asked = peer.ask("session/request_permission", question)
        await turn.until(PermissionAsked)
        await clock.advance(5 * 3600)
        decided.set()
        await peer.answer_to(asked)
        await clock.advance(500)
        assert "TurnCancelling" not in kinds(turn.events)
        await clock.advance(200)
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        with pytest.raises(TurnSilent):
            await turn.end()


async def test_silence_does_not_count_while_the_agent_waits_for_a_terminal(tmp_path):
    clock = FakeClock()
    handlers = ClientHandlers(workspace=local_workspace)
    async with in_session(options=ClientOptions(clock=clock), handlers=handlers, cwd=tmp_path) as (
        session,
        peer,
    ):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        made = await peer.result_of(
            "terminal/create", {"sessionId": "s1", "command": "cat /dev/zero > /dev/null"}
        )
        named = {"sessionId": "s1", **made}
        waiting = peer.ask("terminal/wait_for_exit", named)
        await clock.advance(3600)
        assert "TurnCancelling" not in kinds(turn.events)
        await peer.result_of("terminal/release", named)
        await peer.answer_to(waiting)
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()


async def test_silence_does_not_count_while_a_tool_call_is_in_progress():
    clock = FakeClock()
    async with in_session(options=ClientOptions(clock=clock)) as (session, peer):
        turn = EventCollector(session.prompt("run the long test suite"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "tool_call", toolCallId="c1", title="pytest", status="in_progress")
        await clock.advance(2 * 3600)
        assert "TurnCancelling" not in kinds(turn.events)
        peer.update("s1", "tool_call_update", toolCallId="c1", status="completed")
        await clock.advance(700)
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        with pytest.raises(TurnSilent):
            await turn.end()


async def test_silence_does_not_count_while_reading_is_paused():
    clock = FakeClock()
    options = ClientOptions(clock=clock, buffers=ConnectionLimits(inbound=10_000))
    async with in_session(options=options) as (session, peer):
        events = session.prompt("flood me")
        await anext(events)
        prompt = await peer.next("session/prompt")
        for _ in range(200):
            peer.say("x" * 1000)
        await clock.advance(3600)
        assert all(message.get("method") != "session/cancel" for message in peer.received)
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert kinds([event async for event in events]) == ["AgentMessageChunk"] * 200 + ["TurnEnded"]


async def test_a_long_replay_does_not_time_out_and_a_silent_load_does():
    clock = FakeClock()
    async with connected(options=ClientOptions(clock=clock)) as (agent, peer):
        loading = asyncio.create_task(agent.load_session("old", "/project"))
        asked = await peer.next("session/load")
        for _ in range(10):
            await clock.advance(50)
            peer.say("history", "old")
        await settle()
        peer.reply(asked, {})
        session = await loading
        assert session.state.messages[0].text == "history" * 10

        loading = asyncio.create_task(agent.load_session("dead", "/project"))
        await peer.next("session/load")
        await clock.advance(66)
        with pytest.raises(RequestTimeout, match="session/load: the agent was silent for 60 s"):
            await loading
        assert [session.id for session in agent.sessions] == ["old"]


async def test_initialize_without_a_response_times_out():
    clock = FakeClock()
    ours, theirs = memory_pair()
    peer = RawAgent(theirs)
    connecting = asyncio.create_task(connect_transport(ours, options=ClientOptions(clock=clock)).__aenter__())
    await peer.next("initialize")
    await clock.advance(119)
    assert not connecting.done()
    await clock.advance(1)
    with pytest.raises(RequestTimeout, match="initialize was not answered within 120 s"):
        await connecting
    await peer.wait_end()


async def test_initialize_times_out_with_the_printed_text_of_the_agent():
    clock = FakeClock()
    ours, theirs = memory_pair()
    peer = RawAgent(theirs)
    options = ClientOptions(clock=clock, limits=TimeLimits(startup=5))
    connecting = asyncio.create_task(connect_transport(ours, options=options).__aenter__())
    await peer.next("initialize")
    peer.send("kimi is no longer maintained, please use kimi-code")
    await clock.advance(5)
    with pytest.raises(HandshakeFailed, match=r"(?s)^the agent: .*no longer maintained"):
        await connecting


async def test_time_limits_can_be_disabled():
    clock = FakeClock()
    limits = TimeLimits(request=None, startup=None, silence=None)
    async with in_session(options=ClientOptions(clock=clock, limits=limits)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        closing = asyncio.create_task(session.close())
        asked = await peer.next("session/close")
        await clock.advance(10**6)
        peer.reply(prompt, {"stopReason": "cancelled"})
        peer.reply(asked, {})
        await closing
        await turn.end()
