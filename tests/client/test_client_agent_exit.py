"""Agents that exit, as real processes: the error of each phase, the end of open calls, the stderr tail."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.client.raw_agent import EventCollector, kinds

from accord.client import AgentEnded, ClientHandlers, ClientOptions, connect
from accord.errors import ConnectionClosed, Crashed, HandshakeFailed, Killed, NeverStarted
from accord.session import PermissionAsked, TurnEnded

SCRIPTED = str(Path(__file__).parent / "agents" / "scripted.py")
CLOSE = {"SCRIPTED_CAPABILITIES": json.dumps({"sessionCapabilities": {"close": {}}})}


def connect_agent(*arguments: str, handlers=None, options=None):
    return connect(sys.executable, SCRIPTED, *arguments, env=CLOSE, handlers=handlers, options=options)


def assert_exit_error(error, how):
    if how == "exit":
        assert isinstance(error, Crashed)
        assert (error.exit_code, error.signal) == (7, None)
        assert "the disk is full" in error.stderr
        assert "the disk is full" in str(error)
    else:
        assert isinstance(error, Killed)
        assert (error.exit_code, error.signal) == (None, "SIGKILL")
        assert "about to be killed" in error.stderr


async def test_a_program_that_does_not_exist_raises_never_started():
    with pytest.raises(NeverStarted, match="no-such-agent"):
        async with connect("no-such-agent", "--acp"):
            pass


async def test_a_working_folder_that_does_not_exist_raises_never_started(tmp_path):
    with pytest.raises(NeverStarted):
        async with connect(sys.executable, SCRIPTED, cwd=tmp_path / "nowhere"):
            pass


@pytest.mark.rule("framing.agent-dies")
@pytest.mark.parametrize("phase", ["start", "initialize"])
async def test_an_exit_before_or_during_initialize_raises_handshake_failed(phase):
    with pytest.raises(HandshakeFailed, match="exited with code 7 before initialize was answered") as caught:
        async with connect_agent(f"exit:{phase}"):
            pass
    assert caught.value.exit_code == 7
    assert "the disk is full" in caught.value.stderr
    with pytest.raises(HandshakeFailed) as caught:
        async with connect_agent(f"kill:{phase}"):
            pass
    assert caught.value.signal == "SIGKILL"


async def test_a_program_that_is_not_an_agent_raises_handshake_failed_with_its_output():
    script = "print('usage: frobnicate [options]'); import sys; sys.exit(2)"
    with pytest.raises(HandshakeFailed, match="usage: frobnicate") as caught:
        async with connect(sys.executable, "-c", script):
            pass
    assert caught.value.exit_code == 2


@pytest.mark.rule("framing.agent-dies")
@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_an_exit_during_session_new_raises(how, tmp_path):
    async with connect_agent(f"{how}:new") as agent:
        with pytest.raises((Crashed, Killed)) as caught:
            await agent.new_session(tmp_path)
        assert_exit_error(caught.value, how)


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_an_exit_between_turns_is_an_event_and_fails_the_next_prompt(how, tmp_path):
    async with connect_agent(f"{how}:between") as agent:
        session = await agent.new_session(tmp_path)
        events = [event async for event in _until_end(session.events())]
        assert_exit_error(events[-1].error, how)
        with pytest.raises((Crashed, Killed)) as caught:
            await session.ask("hello?")
        assert_exit_error(caught.value, how)


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_notifying_without_an_end_stops_when_the_agent_exits(how, tmp_path):
    """`await agent.notify(...)` lets the event loop see the exit, and raises then."""
    async with connect_agent(f"{how}:between") as agent:
        await agent.new_session(tmp_path)
        with pytest.raises(ConnectionClosed):
            await _notify_forever(agent)


async def _notify_forever(agent):
    while True:
        await agent.notify("_vendor/event")


async def _until_end(events):
    async for event in events:
        yield event
        if isinstance(event, AgentEnded):
            await events.aclose()
            return


@pytest.mark.rule("framing.agent-dies")
@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_an_exit_during_a_turn_ends_the_turn_and_raises(how, tmp_path):
    async with connect_agent(f"{how}:turn") as agent:
        session = await agent.new_session(tmp_path)
        turn = EventCollector(session.prompt("hi"))
        with pytest.raises((Crashed, Killed)) as caught:
            await turn.end()
        assert_exit_error(caught.value, how)
        assert kinds(turn.events) == ["TurnStarted", "AgentMessageChunk", "AgentEnded", "TurnEnded"]
        ended = turn.events[-2]
        assert isinstance(ended, AgentEnded)
        assert_exit_error(ended.error, how)
        assert isinstance(turn.events[-1], TurnEnded)
        assert turn.events[-1].error is not None
        assert session.state.turn == "idle"


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_an_exit_during_a_permission_request_cancels_the_handler(how, tmp_path):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def think(_request):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with connect_agent(f"{how}:permission", handlers=ClientHandlers(permissions=think)) as agent:
        session = await agent.new_session(tmp_path)
        turn = EventCollector(session.prompt("permission"))
        await turn.until(PermissionAsked)
        with pytest.raises((Crashed, Killed)) as caught:
            await turn.end()
        assert_exit_error(caught.value, how)
        if started.is_set():  # the user is not asked for an agent that is gone already
            await cancelled.wait()
        assert session.state.permissions == {}


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_an_exit_during_session_close_raises(how, tmp_path):
    async with connect_agent(f"{how}:close") as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises((Crashed, Killed)) as caught:
            await session.close()
        assert_exit_error(caught.value, how)


async def test_a_signal_from_outside_while_idle_is_an_event(tmp_path):
    async with connect_agent() as agent:
        session = await agent.new_session(tmp_path)
        events = agent.events()
        waiting = asyncio.create_task(anext(events))
        os.kill(int(session.id.removeprefix("s")), signal.SIGTERM)
        ended = await waiting
        assert isinstance(ended, AgentEnded)
        assert (ended.exit_code, ended.signal) == (None, "SIGTERM")
        await events.aclose()


async def test_leaving_the_block_gives_no_agent_ended_event(tmp_path):
    async with connect_agent() as agent:
        session = await agent.new_session(tmp_path)
        watching = EventCollector(session.events())
    assert await watching.end() == []


async def test_an_exception_in_the_block_closes_the_agent(tmp_path):
    async def fail():
        async with connect_agent() as agent:
            await agent.new_session(tmp_path)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_stderr_lines_of_the_agent_are_passed_to_on_stderr(tmp_path):
    lines: list[str] = []
    with pytest.raises(HandshakeFailed):
        async with connect_agent("exit:start", options=ClientOptions(on_stderr=lines.append)):
            pass
    assert [line.strip() for line in lines] == ["the disk is full"]


@pytest.mark.rule("framing.client-only-messages", "framing.client-one-line", "framing.client-no-batch")
async def test_only_json_messages_are_written_to_the_agents_stdin(tmp_path):
    record = tmp_path / "stdin"
    env = CLOSE | {"SCRIPTED_STDIN": str(record)}
    async with connect(sys.executable, SCRIPTED, env=env) as agent:
        session = await agent.new_session(tmp_path)
        await session.ask("several\nlines\r\nand 日本語")
        await session.close()
    lines = record.read_bytes().split(b"\n")
    assert lines.pop() == b""
    messages = [json.loads(line) for line in lines]
    assert [message["method"] for message in messages] == [
        "initialize",
        "session/new",
        "session/prompt",
        "session/close",
    ]
    assert all(message["jsonrpc"] == "2.0" for message in messages)


async def test_an_agent_that_ignores_the_end_of_its_stdin_is_terminated(tmp_path):
    async with connect_agent("ignore-eof") as agent:
        session = await agent.new_session(tmp_path)
        pid = int(session.id.removeprefix("s"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_message_over_the_size_limit_is_reported_and_the_turn_continues(tmp_path):
    reports: list[str] = []
    options = ClientOptions(largest_message=5000, observer=lambda report: reports.append(report.kind))
    async with connect_agent("big", options=options) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("hi")).text == "heard hi; done"
    assert reports == ["oversized"]


async def test_a_failing_observer_does_not_affect_the_turn(tmp_path):
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["message"]))

    def observer(_report):
        raise RuntimeError("full")

    async with connect_agent("big", options=ClientOptions(largest_message=5000, observer=observer)) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("hi")).text == "heard hi; done"
    assert failures == ["an observer of an Accord client failed"]
