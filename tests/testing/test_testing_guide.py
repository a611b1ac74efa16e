"""The promises of docs/testing.md, tested the way a user would."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.testing import (
    FakeClock,
    ScriptedAgent,
    ScriptedClient,
    WireFault,
    ask,
    die,
    fail,
    plan,
    read_file,
    say,
    scripted_client,
    send,
    stop,
    terminal,
    think,
    tool,
    update,
    wait_for_cancel,
    write_file,
)

pytest_plugins = ["pytester"]


def file_writing_agent() -> accord.Agent:
    agent = accord.Agent("writer", version="1")

    @agent.prompt
    async def write(turn: accord.Turn) -> None:
        async with turn.tool_call("Write notes.txt", kind="edit") as call:
            if await call.ask_permission():
                await turn.client.write_text_file("notes.txt", turn.text)
        await turn.say("done")

    return agent


async def test_a_scripted_client_rejects_as_scripted(
    accord_client: Callable[..., Any], tmp_path: Path
) -> None:
    async with accord_client(file_writing_agent(), permissions=["reject_once"]) as client:
        turn = await client.prompt("hello", cwd=tmp_path)
        assert (turn.stop_reason, turn.text) == ("end_turn", "done")
        assert turn.permissions[0].call.kind == "edit"
        assert [call.status for call in turn.tool_calls] == ["failed"]
        assert not (tmp_path / "notes.txt").exists()
        client.wire.assert_answered()


async def test_a_scripted_client_rejects_after_its_script_ends(
    accord_client: Callable[..., Any], tmp_path: Path
) -> None:
    async with accord_client(file_writing_agent(), permissions=["allow_once"]) as client:
        first = await client.prompt("hello", cwd=tmp_path)
        second = await client.prompt("again")
        assert [call.status for call in first.tool_calls + second.tool_calls] == ["completed", "failed"]
        assert (tmp_path / "notes.txt").read_text() == "hello"
        assert client.wire.methods("agent").count("session/request_permission") == 2
        assert [update["status"] for update in client.wire.updates("tool_call")] == ["pending", "pending"]


async def test_each_recorded_turn_has_only_its_own_text(accord_agent: Any, tmp_path: Path) -> None:
    command = accord_agent.command([[{"say": ["a", "b"]}], [{"say": ["c"]}]])
    async with scripted_client(*command) as client:
        first = await client.prompt("one", cwd=tmp_path)
        second = await client.prompt("two")
        assert (first.text, second.text) == ("ab", "c")


async def test_a_scripted_client_reports_wrong_use() -> None:
    with pytest.raises(accord.UsageError, match="not connected"):
        await ScriptedClient().prompt("hello")
    for ignored in ({"permissions": ["allow_once"]}, {"workspace": None}):
        with pytest.raises(accord.UsageError, match="`handlers` replace"):
            ScriptedClient(handlers=accord.ClientHandlers(), **ignored)  # type: ignore[arg-type]


async def test_a_scripted_client_starts_a_program(
    accord_client: Callable[..., Any], accord_agent: Any, tmp_path: Path
) -> None:
    command = accord_agent.command([[{"think": "hm"}, {"say": ["a", "b"]}, {"stop": "refusal"}]])
    async with accord_client(*command) as client:
        turn = await client.prompt("go", cwd=tmp_path)
        assert (turn.text, turn.stop_reason) == ("ab", "refusal")


async def test_an_invalid_message_of_the_agent_fails_the_test(accord_agent: Any, tmp_path: Path) -> None:
    command = accord_agent.command([[{"update": {"sessionUpdate": "plan", "entries": [], "extra": 1}}]])
    with pytest.raises(WireFault, match="extra"):
        async with scripted_client(*command) as client:
            await client.prompt("go", cwd=tmp_path)


async def test_a_scripted_agent_plays_every_step(accord_agent: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("text")
    agent = accord_agent.turns(
        [
            think("hm"),
            plan("one", ("two", "in_progress")),
            say("Hel", "lo"),
            read_file("in.txt"),
            write_file("out.txt", "made"),
            tool("Run", ask(), terminal("echo", "hi"), kind="execute"),
            update({"sessionUpdate": "current_mode_update", "currentModeId": "x"}),
            send("not a message"),
            stop("max_tokens"),
        ],
        [tool("Edit", ask(), say("never said"), kind="edit")],
        [fail(-32000, "Authentication required")],
        [say("working"), wait_for_cancel()],
    )
    allow_first = iter([True])
    handlers = accord.ClientHandlers(
        permissions=lambda request: request.option(
            "allow_once" if next(allow_first, False) else "reject_once"
        ),
        workspace=accord.local_workspace,
    )
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        session = await remote.new_session(str(tmp_path))
        first = await session.ask("one")
        assert (first.text, first.stop_reason) == ("Hello", "max_tokens")
        assert agent.replies[0] == "text"
        assert agent.replies[1].exit_code == 0
        assert (tmp_path / "out.txt").read_text() == "made"
        assert (await session.ask("two")).text == ""
        assert agent.outcomes == [True, False]
        with pytest.raises(accord.AuthRequired):
            await session.ask("three")
        async for event in session.prompt("four"):
            if isinstance(event, accord.AgentMessageChunk):
                session.cancel()
            elif isinstance(event, accord.TurnEnded):
                assert event.stop_reason == "cancelled"
        assert (await session.ask("five")).text == "five"
    assert agent.prompts == ["one", "two", "three", "four", "five"]


async def test_a_script_belongs_to_its_prompt_even_if_cancelled_at_once(accord_agent: Any) -> None:
    agent = accord_agent.turns([wait_for_cancel()], [say("second")])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session("/tmp")
        async for event in session.prompt("first"):
            if isinstance(event, accord.TurnStarted):
                session.cancel()
        assert (await session.ask("again")).text == "second"


async def test_a_scripted_option_that_is_not_offered_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(accord.UsageError, match="'nope' matches none of the offered options"):
        async with scripted_client(file_writing_agent(), permissions=["nope"]) as client:
            await client.prompt("hello", cwd=tmp_path)


async def test_an_agent_can_be_driven_message_by_message(accord_wire: Callable[..., Any]) -> None:
    transport, peer = accord_wire(validate="agent")
    connection = file_writing_agent().connect(transport)
    peer.send({"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": {"protocolVersion": 1}})
    answer = await peer.next()
    assert answer["id"] == "x"
    assert answer["result"]["protocolVersion"] == 1
    await connection.aclose()


async def test_the_fake_clock_moves_only_when_advanced(accord_clock: FakeClock) -> None:
    rang: list[float] = []
    accord_clock.call_later(10, lambda: rang.append(accord_clock.now()))
    cancelled = accord_clock.call_later(5, lambda: rang.append(-1))
    cancelled.cancel()
    sleeping = asyncio.create_task(accord_clock.sleep(20))
    start = accord_clock.now()
    await accord_clock.advance(9.9)
    assert rang == []
    await accord_clock.advance(0.1)
    assert rang == [start + 10]
    assert not sleeping.done()
    await accord_clock.advance(10)
    await sleeping


@pytest.mark.parametrize(
    ("script", "error_text"),
    [
        ("not json", "not JSON"),
        ('{"a": 1}', "list of turns"),
        ('[[{"sing": "la"}]]', "unknown step 'sing'; known steps: tool, say"),
        ('[[{"stop": ["a", "b"]}]]', "does not take"),
        ('[["say"]]', "one member"),
        ('[[{"tool": ["Edit a.py"]}]]', "the step 'tool' needs an object with a title"),
    ],
)
def test_an_invalid_script_is_a_one_line_error(tmp_path: Path, script: str, error_text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(script)
    run = subprocess.run(
        [sys.executable, "-m", "accord.testing", str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert error_text in run.stderr
    assert run.stderr.count("\n") == 1


async def test_an_agent_in_memory_dies_with_its_connection() -> None:
    agent = ScriptedAgent([[say("x"), die()]])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session("/tmp")
        with pytest.raises(accord.ConnectionClosed):
            await session.ask("Hello")


def test_the_plugin_provides_its_fixtures_and_imports_late(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_is_loaded():
            assert not any(name.startswith(("accord.client", "accord.agent")) for name in sys.modules)

        def test_the_fixtures_are_there(accord_clock, accord_wire, accord_client, accord_agent):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
