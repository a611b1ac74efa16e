"""An agent that produces output without an end still sees a cancel, a signal and the end of its client."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.agent.test_agent_program import INITIALIZE, LOAD, prompt

from accord.agent import Turn
from accord.errors import ConnectionClosed, UsageError
from accord.schema import AgentMessageChunk, TextContent

AGENT = Path(__file__).parent / "programs" / "streaming_agent.py"
CLIENT = Path(__file__).parent / "programs" / "plain_client.py"
CANCEL = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
LONG = 120.0
"""Seconds after which a program counts as one that never ends, even on a busy machine."""
EVERY_OUTPUT = (
    "say",
    "think",
    "plan",
    "tool_call",
    "permission",
    "usage",
    "hidden_subagent",
    "stubborn",
    "say_now",
)


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def ended(process: asyncio.subprocess.Process) -> str:
    """Wait until no program holds the stderr of this one any more; return what was written to it."""
    assert process.stderr
    return (await asyncio.wait_for(process.stderr.read(), LONG)).decode()


@pytest.mark.rule("framing.exits-at-end-of-input")
@pytest.mark.parametrize("output", EVERY_OUTPUT)
async def test_an_agent_ends_by_itself_when_its_client_is_killed(output: str) -> None:
    pipe = asyncio.subprocess.PIPE
    for _ in range(3):
        client = await asyncio.create_subprocess_exec(
            sys.executable, str(CLIENT), sys.executable, str(AGENT), stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert client.stdin
        assert client.stdout
        client.stdin.write(lines(INITIALIZE, LOAD, prompt(output)))
        client.stdin.close()
        agent_pid = int(await client.stdout.readline())
        client.kill()
        try:
            stderr_text = await ended(client)
        except TimeoutError:
            os.kill(agent_pid, signal.SIGKILL)
            await client.communicate()
            pytest.fail("the agent still runs")
        await client.wait()
        assert stderr_text.splitlines()[-1] in ("CancelledError", "ConnectionClosed")
        assert "Traceback" not in stderr_text


async def test_output_after_the_turn_lets_the_event_loop_run() -> None:
    """A task that the handler left behind tries again and again, and the next prompt is still answered."""
    tasks: list[asyncio.Task[None]] = []

    async def careless(output: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await output()
            except UsageError:
                continue

    async def leave_tasks(turn: Turn) -> None:
        async def call_tool() -> None:
            async with turn.tool_call("Run"):
                pass

        outputs = (lambda: turn.say("x"), lambda: turn.think("x"), lambda: turn.plan(["x"]), call_tool)
        tasks.extend(asyncio.ensure_future(careless(output)) for output in outputs)

    async with connected_client(make_agent(leave_tasks)) as client:
        session = await client.new_session()
        for _ in range(2):
            _, result = await client.turn(session)
            assert result == {"stopReason": "end_turn"}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            tasks.clear()


@pytest.mark.parametrize("output", [name for name in EVERY_OUTPUT if name not in ("stubborn", "say_now")])
@pytest.mark.parametrize("how", ["cancel", "SIGTERM"])
async def test_an_agent_whose_output_never_blocks_sees_a_cancel_and_a_signal(output: str, how: str) -> None:
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(AGENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert agent.stdin
    assert agent.stderr
    try:
        agent.stdin.write(lines(INITIALIZE, LOAD, prompt(output)))
        assert await agent.stderr.readline() == b"started\n"
        if how == "cancel":
            agent.stdin.write(lines(CANCEL))
            assert await asyncio.wait_for(agent.stderr.readline(), LONG) == b"CancelledError\n"
            agent.stdin.close()
            assert await ended(agent) == ""
        else:
            agent.send_signal(signal.SIGTERM)
            assert await ended(agent) == "CancelledError\n"
        assert await agent.wait() == 0
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.communicate()


async def test_calls_raise_once_the_connection_has_ended() -> None:
    """The calls that wait and those that do not; a cleanup that sends something is not disturbed."""
    raised: dict[str, str] = {}
    done = asyncio.Event()

    async def goes_on(turn: Turn) -> None:
        async with turn.tool_call("Run") as call:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for name, output in {
                    "say": lambda: turn.say("x"),
                    "think": lambda: turn.think("x"),
                    "plan": lambda: turn.plan(["x"]),
                    "content": lambda: call.text("x"),
                    "title": lambda: turn.title("x"),
                    "update": lambda: turn.session.usage(1, 2),
                    "drain": turn.drain,
                    "request": lambda: turn.client.request("_vendor/x"),
                    "say_now": lambda: turn.say_now("x"),
                    "think_now": lambda: turn.think_now("x"),
                    "push": lambda: turn.push(AgentMessageChunk(TextContent("x"))),
                    "session push": lambda: turn.session.push(AgentMessageChunk(TextContent("x"))),
                    "notify": lambda: turn.client.notify("_vendor/x"),
                }.items():
                    try:
                        result = output()
                        if result is not None:
                            await result
                    except ConnectionClosed as error:
                        raised[name] = str(error)
                    else:
                        raised[name] = "nothing"
        assert call.status == "completed"
        done.set()

    async with connected_client(make_agent(goes_on)) as client:
        client.prompt(await client.new_session())
        await client.update("tool_call")
        await client.raw.aclose()
        await done.wait()
    assert {
        name: text for name, text in raised.items() if "the other side closed the connection" not in text
    } == {}
