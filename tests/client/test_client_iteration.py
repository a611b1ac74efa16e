"""Leaving an iteration over events takes effect at once, and dropped streams cause no back-pressure."""

import asyncio
import sys
from contextlib import aclosing

import pytest
from tests.client.raw_agent import in_session

import accord
from accord.schema import SessionInfoUpdate
from accord.session import TurnStarted


async def test_a_prompt_after_leaving_the_loop_waits_for_the_old_turn() -> None:
    async with in_session() as (session, peer):

        async def application() -> accord.TurnResult:
            async for event in session.prompt("go"):
                if isinstance(event, TurnStarted):
                    break
            return await session.ask("again")

        running = asyncio.create_task(application())
        prompt = await peer.next("session/prompt")
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})
        prompt = await peer.next("session/prompt")
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert (await running).stop_reason == "end_turn"


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_closing_or_dropping_the_iterator_cancels_the_turn(how: str) -> None:
    async with in_session() as (session, peer):
        events = session.prompt("go")
        await anext(events)
        prompt = await peer.next("session/prompt")
        if how == "close":
            async with aclosing(events):
                pass
        del events
        await peer.next("session/cancel")
        peer.reply(prompt, {"stopReason": "cancelled"})


async def test_a_prompt_that_is_never_iterated_sends_nothing() -> None:
    async with in_session() as (session, peer):
        session.prompt("go")
        pending = asyncio.create_task(session.ask("really"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "really"}]
        peer.reply(prompt, {"stopReason": "end_turn"})
        await pending


async def test_an_event_stream_starts_when_it_is_created() -> None:
    async with in_session() as (session, peer):
        events = session.events()
        peer.notify(
            "session/update",
            {"sessionId": session.id, "update": {"sessionUpdate": "session_info_update", "title": "T"}},
        )
        event = await anext(events)
        assert isinstance(event, SessionInfoUpdate)
        await events.aclose()


async def test_closing_an_event_stream_ends_a_loop_that_waits_for_an_event() -> None:
    async with in_session() as (session, _):
        events = session.events()

        async def read_all() -> list[object]:
            return [event async for event in events]

        reading = asyncio.create_task(read_all())
        await asyncio.sleep(0)
        await events.aclose()
        assert await asyncio.wait_for(reading, 5) == []


async def test_a_dropped_event_stream_causes_no_back_pressure() -> None:
    async with in_session() as (session, peer):
        session.events()
        pending = asyncio.create_task(session.ask("go"))
        prompt = await peer.next("session/prompt")
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 100_000}}
        for _ in range(400):
            peer.notify("session/update", {"sessionId": session.id, "update": update})
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert len((await pending).text) == 40_000_000


async def test_the_events_of_an_exited_agent_start_with_agent_ended() -> None:
    async with accord.connect(sys.executable, "-c", EXITS_AFTER_INITIALIZE) as agent:
        events = agent.events()
        first = await anext(events)
        assert isinstance(first, accord.AgentEnded)
        late = await anext(agent.events())
        assert late == first


EXITS_AFTER_INITIALIZE = """
import sys
sys.stdin.readline()
print('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}', flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize("prompt", [5, None, {"type": "text"}, [5], [None], object()])
async def test_an_invalid_prompt_is_refused(prompt: object) -> None:
    async with in_session() as (session, _):
        with pytest.raises(accord.UsageError, match="prompt"):
            await session.ask(prompt)  # type: ignore[arg-type]
