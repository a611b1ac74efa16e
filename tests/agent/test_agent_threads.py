"""Handlers in threads: `say_now` from any thread, and plain functions as prompt handlers."""

import asyncio
import contextvars
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.agent.test_agent_program import INITIALIZE, LOAD, prompt, running

from accord.agent import Turn
from accord.errors import ConnectionClosed, UsageError
from accord.schema import AgentMessageChunk, TextContent

COLOR: contextvars.ContextVar[str] = contextvars.ContextVar("COLOR", default="none")


async def test_say_now_from_another_thread_is_handed_to_the_event_loop() -> None:
    """In the order of the calls, and before what the handler says afterwards."""

    def work(turn: Turn) -> None:
        for number in range(100):
            turn.say_now(f"{number} ")
        turn.think_now("done")
        turn.push(AgentMessageChunk(TextContent("pushed"), "m"))
        turn.session.push(AgentMessageChunk(TextContent("too"), "m"))
        turn.client.notify("_vendor/event", {"a": 1})

    async def reply(turn: Turn) -> None:
        await asyncio.to_thread(work, turn)
        await turn.say("end")

    async with connected_client(make_agent(reply)) as client:
        updates, result = await client.turn(await client.new_session())
        assert "_vendor/event" in client.methods()
    texts = [update["content"]["text"] for update in updates]
    assert texts == [*(f"{number} " for number in range(100)), "done", "pushed", "too", "end"]
    assert result == {"stopReason": "end_turn"}


async def test_wrong_content_from_another_thread_raises_there() -> None:
    raised: list[Exception] = []

    def work(turn: Turn) -> None:
        wrong: Any = 3
        try:
            turn.say_now(wrong)
        except UsageError as error:
            raised.append(error)

    async def reply(turn: Turn) -> None:
        await asyncio.to_thread(work, turn)

    async with connected_client(make_agent(reply)) as client:
        await client.turn(await client.new_session())
    assert len(raised) == 1


async def test_a_plain_prompt_handler_runs_in_a_thread_and_blocks_nothing() -> None:
    """Another session is served while it waits; it sees the context of the turn."""
    released = threading.Event()
    threads: list[threading.Thread] = []

    def reply(turn: Turn) -> str:
        threads.append(threading.current_thread())
        if turn.text == "wait":
            turn.say_now("waiting")
            assert released.wait(120)
        else:
            released.set()
        turn.say_now(COLOR.get())
        return "max_tokens"

    COLOR.set("green")
    async with connected_client(make_agent(reply)) as client:
        first, second = await client.new_session(), await client.new_session()
        waiting = client.prompt(first, "wait")
        await client.update("agent_message_chunk")
        quick = client.prompt(second, "go")
        results: dict[Any, Any] = {}
        while results.keys() != {quick, waiting}:
            message = await client.raw.next()
            if "result" in message:
                results[message["id"]] = message["result"]
    assert list(results.values()) == [{"stopReason": "max_tokens"}] * 2
    assert [update["content"]["text"] for update in client.updates_of("agent_message_chunk")] == [
        "waiting",
        "green",
        "green",
    ]
    assert threading.main_thread() not in threads


async def test_a_plain_prompt_handler_may_fail_or_return_an_awaitable() -> None:
    async def more(turn: Turn) -> None:
        await turn.say("later")

    def reply(turn: Turn) -> Any:
        if turn.text == "fail":
            raise LookupError("a mistake")
        return more(turn)

    async with connected_client(make_agent(reply)) as client:
        session = await client.new_session()
        updates, _ = await client.turn(session, "await")
        assert [update["content"]["text"] for update in updates] == ["later"]
        answer = await client.raw.answer_to(client.prompt(session, "fail"))
        assert answer["error"]["code"] == -32603


async def test_a_canceled_plain_handler_is_answered_at_once_and_ends_at_its_next_call() -> None:
    started, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def reply(turn: Turn) -> None:
        try:
            while True:
                turn.say_now("on and on")
                started.set()
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    async with connected_client(make_agent(reply)) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("agent_message_chunk")
        client.cancel(session)
        _, result = await client.turn_of(id)
        assert result == {"stopReason": "cancelled"}
        assert await asyncio.to_thread(ended.wait, 120)
    assert isinstance(raised[0], UsageError | ConnectionClosed)


PROGRAM = """
import sys, time
import accord

agent = accord.Agent("plain")

@agent.load_session
def load(session):
    pass

@agent.prompt
def reply(turn):
    turn.say_now("blocked")
    while True:
        time.sleep(3600)

agent.serve()
"""


@pytest.mark.parametrize("how", ["close", "SIGTERM"])
async def test_a_plain_handler_that_never_returns_does_not_keep_the_program_alive(
    tmp_path: Path, how: str
) -> None:
    program = tmp_path / "plain.py"
    program.write_text(PROGRAM)
    async with running(program=program) as agent:
        agent.write(INITIALIZE, LOAD, prompt("go"))
        while (await agent.read()).get("method") != "session/update":
            pass
        if how == "close":
            agent.stdin.close()
        else:
            agent.process.send_signal(signal.SIGTERM)
        rest = await agent.rest()
        code, stderr_text = await agent.end()
    assert [message["result"] for message in rest] == [{"stopReason": "cancelled"}]
    assert (code, stderr_text) == (0, "")
