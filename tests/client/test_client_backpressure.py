"""Back-pressure: a slow reader pauses the agent, memory stays bounded, nothing is lost or reordered."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.client.raw_agent import EventCollector, in_session, kinds

from accord.client import ClientOptions, connect
from accord.session import TurnEnded, text_of
from accord.testing.fake_clock import settle
from accord.wire.calls import ConnectionLimits

FLOOD = str(Path(__file__).parent / "agents" / "flood.py")
BOUND = 256 * 1024


class Flood:
    """Sends numbered updates while the other side reads."""

    def __init__(self, peer, count):
        self.sent = 0
        self._peer = peer
        self.task = asyncio.create_task(self._run(count))

    async def _run(self, count):
        for number in range(count):
            self._peer.say(f"{number};")
            self.sent += 1
            if self.sent % 100 == 0:
                await self._peer.drain()


async def test_a_stalled_reader_pauses_the_agent_and_then_gets_everything_in_order():
    async with in_session(options=ClientOptions(buffers=ConnectionLimits(inbound=BOUND))) as (session, peer):
        events = session.prompt("flood me")
        await anext(events)
        prompt = await peer.next("session/prompt")
        flood = Flood(peer, 100_000)
        await settle(2000)
        stalled = flood.sent
        assert 0 < stalled < 10_000, "the unread updates are bounded on both sides"
        await settle(500)
        assert flood.sent == stalled
        numbers = []
        async for event in events:
            numbers += text_of(event).split(";")[:-1]
            if len(numbers) == 50_000:
                assert flood.sent < 70_000
                break
        async for event in events:
            numbers += text_of(event).split(";")[:-1]
            if flood.task.done() and len(numbers) == 100_000:
                peer.reply(prompt, {"stopReason": "end_turn"})
        assert numbers == [str(number) for number in range(100_000)]
        await flood.task


async def test_below_the_bound_responses_and_cancels_pass_a_slow_reader():
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    async with in_session(modes=modes) as (session, peer):
        events = session.prompt("go")
        await anext(events)
        prompt = await peer.next("session/prompt")
        for number in range(5_000):
            peer.say(f"{number}")
        setting = asyncio.create_task(session.set_mode("b"))
        peer.reply(await peer.next("session/set_mode"), {})
        await setting
        session.cancel()
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        await settle()
        assert session.state.turn == "idle", "the state is ahead of the reader"
        rest = [event async for event in events]
        assert len(rest) == 5_000 + 3
        assert isinstance(rest[-1], TurnEnded)


async def test_a_closed_event_stream_releases_its_back_pressure():
    async with in_session(options=ClientOptions(buffers=ConnectionLimits(inbound=BOUND))) as (session, peer):
        listening = session.events()
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        first = asyncio.create_task(anext(listening))
        flood = Flood(peer, 20_000)
        await first
        await settle(2000)
        assert not flood.task.done(), "the second listener reads nothing"
        await listening.aclose()
        await flood.task
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert len(await turn.end()) == 20_002


@pytest.mark.parametrize("count", [100_000])
async def test_a_slow_reader_gets_all_updates_of_a_real_process(count, tmp_path):
    options = ClientOptions(buffers=ConnectionLimits(inbound=BOUND))
    async with connect(sys.executable, FLOOD, options=options) as agent:
        session = await agent.new_session(tmp_path)
        seen, paused = list[str](), 0
        async for event in session.prompt(str(count)):
            seen.append(type(event).__name__)
            if len(seen) % 1000 == 0:
                await settle(5)
                paused += session.agent.reading_paused
        assert seen == ["TurnStarted", *["AgentThoughtChunk"] * count, "TurnEnded"]
        assert paused > 0, "reading was paused while the reader was slow"
        assert session.state.messages[-1].text == "x" * 100 * count


async def test_many_sessions_can_receive_floods_at_once():
    from tests.client.raw_agent import both, connected

    async with connected(options=ClientOptions(buffers=ConnectionLimits(inbound=BOUND))) as (agent, peer):
        sessions = [(await both(agent.new_session("/"), peer.open(f"s{i}")))[0] for i in range(20)]
        turns = [EventCollector(session.prompt("go")) for session in sessions]
        prompts = [await peer.next("session/prompt") for _ in turns]
        for number in range(200):
            for session in sessions:
                peer.say(f"{number};", session.id)
            await peer.drain()
        for prompt in prompts:
            peer.reply(prompt, {"stopReason": "end_turn"})
        for session, turn in zip(sessions, turns, strict=True):
            events = await turn.end()
            assert kinds(events)[-1] == "TurnEnded"
            assert session.state.messages[-1].text == "".join(f"{n};" for n in range(200))
