"""Leaving an iteration in any way takes effect at once; streams that are dropped hold nobody up."""

import asyncio
import sys
from contextlib import aclosing

import pytest
from tests.client.peer import in_session

import accord
from accord.session import TurnStarted


async def test_a_prompt_right_after_breaking_off_the_loop_waits_for_the_old_turn() -> None:
    async with in_session() as (session, peer):

        async def application() -> accord.Answer:
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
async def test_leaving_a_turn_cancels_it(how: str) -> None:
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
        answering = asyncio.create_task(session.ask("really"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "really"}]
        peer.reply(prompt, {"stopReason": "end_turn"})
        await answering


async def test_a_stream_of_events_hears_from_the_moment_it_is_made() -> None:
    async with in_session() as (session, peer):
        events = session.events()
        peer.notify(
            "session/update",
            {"sessionId": session.id, "update": {"sessionUpdate": "session_info_update", "title": "T"}},
        )
        event = await anext(events)
        assert isinstance(event, accord.SessionInfoUpdate)
        await events.aclose()


async def test_a_stream_of_events_that_nobody_reads_and_everybody_dropped_holds_nothing() -> None:
    async with in_session() as (session, peer):
        session.events()
        answering = asyncio.create_task(session.ask("go"))
        prompt = await peer.next("session/prompt")
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 100_000}}
        for _ in range(400):
            peer.notify("session/update", {"sessionId": session.id, "update": update})
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert len((await answering).text) == 40_000_000


async def test_the_events_of_a_dead_agent_begin_with_its_end() -> None:
    async with accord.connect(sys.executable, "-c", DIES_AFTER_THE_HANDSHAKE) as agent:
        heard = agent.events()
        first = await anext(heard)
        assert isinstance(first, accord.AgentEnded)
        late = await anext(agent.events())
        assert late == first


DIES_AFTER_THE_HANDSHAKE = """
import sys
sys.stdin.readline()
print('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}', flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize("prompt", [5, None, {"type": "text"}, [5], [None], object()])
async def test_what_is_no_prompt_is_refused_in_one_line(prompt: object) -> None:
    async with in_session() as (session, _):
        with pytest.raises(accord.UsageError, match="prompt"):
            await session.ask(prompt)  # type: ignore[arg-type]
