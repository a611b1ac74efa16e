"""Restarting an agent that exited, and reattaching its sessions; with real processes."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.client.raw_agent import EventCollector, connected, kinds

from accord.client import (
    AgentEnded,
    AgentRestarted,
    ClientOptions,
    RestartPolicy,
    SessionLost,
    SessionReattached,
    TimeLimits,
    connect,
)
from accord.errors import Crashed, HandshakeFailed, UsageError

SCRIPTED = str(Path(__file__).parent / "agents" / "scripted.py")
FAST = RestartPolicy(max_restarts=2, pause=0.01)


def connect_restarting(*arguments, capabilities=None, restart: RestartPolicy | None = FAST, env=None):
    environment = {"SCRIPTED_CAPABILITIES": json.dumps(capabilities or {}), **(env or {})}
    options = ClientOptions(restart=restart, limits=TimeLimits(startup=30))
    return connect(sys.executable, SCRIPTED, *arguments, env=environment, options=options)


async def exit_agent(session):
    with pytest.raises(Crashed) as caught:
        await session.ask("die")
    assert caught.value.exit_code == 3


async def until(events, kind):
    """Collect everything up to the first event of this type."""
    seen = []
    async for event in events:
        seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError(f"no {kind.__name__} in {seen}")


RESUME = {"sessionCapabilities": {"resume": {}}}


async def test_sessions_are_resumed_after_a_restart_if_the_agent_offers_it(tmp_path):
    async with connect_restarting(capabilities=RESUME | {"loadSession": True}) as agent:
        session = await agent.new_session(tmp_path)
        events, collector = agent.events(), EventCollector(session.events())
        listening = asyncio.create_task(until(events, SessionReattached))
        await session.ask("before")
        await exit_agent(session)
        answer = await session.ask("after")
        assert answer.text == "heard after; done"
        assert kinds(await listening) == ["AgentEnded", "AgentRestarted", "SessionReattached"]
        texts = [message.text for message in session.state.messages]
        assert texts == [
            "before",
            "heard before; done",
            "die",
            "heard die; ",
            "after",
            "heard after; done",
        ]
        restart_events = [
            event
            for event in collector.events
            if isinstance(event, AgentEnded | AgentRestarted | SessionReattached)
        ]
        assert kinds(restart_events) == ["AgentEnded", "AgentRestarted", "SessionReattached"]
        assert restart_events[2] == SessionReattached(session.id, "resume")
        await events.aclose()
        await collector.cancel()


async def test_sessions_are_loaded_after_a_restart_and_the_replay_adds_no_duplicates(tmp_path):
    async with connect_restarting(capabilities={"loadSession": True}) as agent:
        session = await agent.new_session(tmp_path)
        await session.ask("before")
        await exit_agent(session)
        await session.ask("after")
        texts = [message.text for message in session.state.messages]
        assert texts == ["question 0", "answer 0", "question 1", "answer 1", "after", "heard after; done"]


async def test_sessions_are_lost_after_a_restart_without_resume_and_load(tmp_path):
    async with connect_restarting() as agent:
        session = await agent.new_session(tmp_path)
        events = agent.events()
        listening = asyncio.create_task(until(events, SessionLost))
        await session.ask("before")
        await exit_agent(session)
        lost = (await listening)[-1]
        assert lost == SessionLost(session.id, "the agent offers neither session/resume nor session/load")
        with pytest.raises(UsageError, match="was lost"):
            await session.ask("after")
        assert session.state.messages[0].text == "before"
        again = await agent.new_session(tmp_path)
        assert (await again.ask("hi")).text == "heard hi; done"
        await events.aclose()


async def test_the_number_of_restarts_is_limited(tmp_path):
    async with connect_restarting(capabilities=RESUME) as agent:
        session = await agent.new_session(tmp_path)
        for _ in range(3):
            await exit_agent(session)
        with pytest.raises(Crashed):
            await session.ask("gone for good")


async def test_without_a_policy_the_agent_is_restarted_only_explicitly(tmp_path):
    async with connect_restarting(capabilities=RESUME, restart=None) as agent:
        session = await agent.new_session(tmp_path)
        await exit_agent(session)
        with pytest.raises(Crashed):
            await session.ask("hello?")
        await agent.restart()
        assert (await session.ask("back")).text == "heard back; done"


async def test_a_running_agent_can_be_restarted(tmp_path):
    log = tmp_path / "starts"
    async with connect_restarting(capabilities=RESUME, env={"SCRIPTED_LOG": str(log)}) as agent:
        session = await agent.new_session(tmp_path)
        await agent.restart()
        assert len(log.read_text().splitlines()) == 2
        assert (await session.ask("back")).text == "heard back; done"
    assert len(log.read_text().splitlines()) == 2


async def test_calls_wait_during_a_restart(tmp_path):
    async with connect_restarting(capabilities=RESUME) as agent:
        session = await agent.new_session(tmp_path)
        os.kill(int(session.id.removeprefix("s")), signal.SIGKILL)
        events = agent.events()
        await until(events, AgentEnded)
        assert (await session.ask("still there?")).text == "heard still there?; done"
        await events.aclose()


async def test_a_program_that_cannot_be_restarted_raises_its_last_error(tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(Path(SCRIPTED).read_text())
    options = ClientOptions(restart=RestartPolicy(max_restarts=2, pause=0.01))
    async with connect(sys.executable, str(script), options=options) as agent:
        session = await agent.new_session(tmp_path)
        events = agent.events()
        restart_events: list[AgentEnded] = []

        async def listen():
            async for event in events:
                if isinstance(event, AgentEnded):
                    restart_events.append(event)
                    if len(restart_events) == 3:
                        return

        listening = asyncio.create_task(listen())
        script.write_text("import sys; sys.exit('licence expired')")
        await exit_agent(session)
        await listening
        assert [type(event.error).__name__ for event in restart_events] == [
            "Crashed",
            "HandshakeFailed",
            "HandshakeFailed",
        ]
        assert "licence expired" in restart_events[-1].stderr
        with pytest.raises(HandshakeFailed, match="licence expired"):
            await session.ask("hello?")
        script.write_text(Path(SCRIPTED).read_text())
        await agent.restart()
        assert (await (await agent.new_session(tmp_path)).ask("hi")).text == "heard hi; done"
        await events.aclose()


async def test_an_agent_connected_by_transport_cannot_be_restarted():
    async with connected() as (agent, _):
        with pytest.raises(UsageError, match="cannot be restarted"):
            await agent.restart()
