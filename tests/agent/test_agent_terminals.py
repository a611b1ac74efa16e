"""Terminals of the client: shown, killed after a timeout, and always released."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import Client, connected_client, make_agent

from accord.agent import AgentOptions, Turn
from accord.errors import NotOffered, RpcError, UsageError
from accord.testing.fake_clock import FakeClock

TERMINAL = {"terminal": True}


async def run_turn(turn: Any, play: Any, *, clock: FakeClock | None = None) -> Client:
    """Run a turn against a client with terminals; `play` is the client's part."""
    options = None if clock is None else AgentOptions(clock=clock)
    async with connected_client(make_agent(turn), capabilities=TERMINAL, options=options) as client:
        session = await client.new_session("/home/me/app")
        await play(client, session, client.prompt(session))
    return client


def released(client: Client) -> list[str]:
    return [
        message["params"]["terminalId"]
        for message in client.raw.received
        if message.get("method") == "terminal/release"
    ]


@pytest.mark.rule("initialize.missing-client-capability", "terminal.needs-capability")
async def test_no_terminal_is_requested_from_a_client_without_terminals() -> None:
    async def runs(turn: Turn) -> None:
        with pytest.raises(NotOffered, match="terminal"):
            turn.terminal("ls")
        with pytest.raises(NotOffered, match="terminal"):
            await turn.run("ls")

    async with connected_client(make_agent(runs)) as client:
        await client.turn(await client.new_session())
    assert client.methods() == []


@pytest.mark.rule("tool-call.terminal-before-release", "terminal.always-released", "terminal.absolute-cwd")
async def test_a_terminal_is_created_shown_waited_for_and_released() -> None:
    async def runs(turn: Turn) -> None:
        async with turn.tool_call("Test", kind="execute") as call:
            async with turn.terminal(
                "npm", ["test"], env={"CI": "1"}, cwd="web", output_byte_limit=65536
            ) as terminal:
                await call.terminal(terminal)
                status = await terminal.wait()
                printed = await terminal.output()
            await call.text(f"{status.exit_code}: {printed.output}")
            with pytest.raises(UsageError, match="released"):
                await call.terminal(terminal)
            with pytest.raises(UsageError, match="async with"):
                await terminal.output()

    async def play(client: Client, session: str, id: Any) -> None:
        create = await client.asked("terminal/create")
        assert create["params"] == {
            "sessionId": session,
            "command": "npm",
            "args": ["test"],
            "env": [{"name": "CI", "value": "1"}],
            "cwd": "/home/me/app/web",
            "outputByteLimit": 65536,
        }
        client.raw.reply(create, {"terminalId": "t1"})
        shown = await client.update("tool_call_update")
        assert shown["content"] == [{"type": "terminal", "terminalId": "t1"}]
        client.raw.reply(await client.asked("terminal/wait_for_exit"), {"exitCode": 3, "signal": None})
        client.raw.reply(
            await client.asked("terminal/output"),
            {"output": "red", "truncated": False, "exitStatus": {"exitCode": 3}},
        )
        client.raw.reply(await client.asked("terminal/release"), {})
        updates, _ = await client.turn_of(id)
        assert updates[0]["content"][1]["content"]["text"] == "3: red"
        assert updates[-1]["status"] == "completed"

    assert released(await run_turn(runs, play)) == ["t1"]


@pytest.mark.rule("terminal.always-released", "terminal.absolute-cwd")
async def test_a_terminal_runs_in_the_session_directory_by_default() -> None:
    async def runs(turn: Turn) -> None:
        result = await turn.run("true")
        await turn.say(f"{result.exit_code} {result.signal} {result.timed_out} {result.truncated}")

    async def play(client: Client, session: str, id: Any) -> None:
        create = await client.asked("terminal/create")
        assert create["params"]["cwd"] == "/home/me/app"
        client.raw.reply(create, {"terminalId": "t1"})
        client.raw.reply(await client.asked("terminal/wait_for_exit"), {"exitCode": 0})
        client.raw.reply(await client.asked("terminal/output"), {"output": "", "truncated": True})
        client.raw.reply(await client.asked("terminal/release"), None)
        updates, _ = await client.turn_of(id)
        assert updates[0]["content"]["text"] == "0 None False True"

    await run_turn(runs, play)


@pytest.mark.rule("tool-call.terminal-before-release", "terminal.always-released")
async def test_a_command_that_times_out_is_killed_read_and_released() -> None:
    clock = FakeClock()

    async def runs(turn: Turn) -> None:
        async with turn.tool_call("Sleep", kind="execute") as call:
            result = await turn.run("sleep", ["99"], timeout=10, call=call)
            await call.text(f"{result.timed_out} {result.signal} {result.output}")

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        wait = await client.asked("terminal/wait_for_exit")
        await clock.advance(10)
        client.raw.reply(await client.asked("terminal/kill"), {})
        client.raw.reply(wait, {"exitCode": None, "signal": "SIGKILL"})
        client.raw.reply(await client.asked("terminal/output"), {"output": "zzz", "truncated": False})
        client.raw.reply(await client.asked("terminal/release"), {})
        updates, _ = await client.turn_of(id)
        assert updates[0]["content"][1]["content"]["text"] == "True SIGKILL zzz"

    client = await run_turn(runs, play, clock=clock)
    assert released(client) == ["t1"]
    order = [method for method in client.methods() if method.startswith("terminal/")]
    assert order == [f"terminal/{verb}" for verb in ("create", "wait_for_exit", "kill", "output", "release")]


@pytest.mark.rule("cancel.soon", "terminal.always-released")
async def test_a_cancelled_turn_releases_its_terminal() -> None:
    async def runs(turn: Turn) -> None:
        async with turn.terminal("sleep", ["99"]) as terminal:
            await terminal.wait()

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        wait = await client.asked("terminal/wait_for_exit")
        client.cancel(session)
        cancel = await client.raw.next("$/cancel_request")
        assert cancel["params"] == {"requestId": wait["id"]}
        client.raw.reply(await client.asked("terminal/release"), {})
        _, result = await client.turn_of(id)
        assert result == {"stopReason": "cancelled"}

    assert released(await run_turn(runs, play)) == ["t1"]


@pytest.mark.rule("terminal.always-released")
async def test_a_turn_cancelled_during_terminal_create_releases_the_terminal() -> None:
    async def runs(turn: Turn) -> None:
        async with turn.terminal("sleep", ["99"]):
            raise AssertionError("never entered")

    async def play(client: Client, session: str, id: Any) -> None:
        create = await client.asked("terminal/create")
        client.cancel(session)
        _, result = await client.turn_of(id)
        assert result == {"stopReason": "cancelled"}
        client.raw.reply(create, {"terminalId": "t1"})
        client.raw.reply(await client.asked("terminal/release"), {})

    assert released(await run_turn(runs, play)) == ["t1"]


@pytest.mark.rule("terminal.always-released")
async def test_an_exception_in_the_block_releases_the_terminal() -> None:
    async def runs(turn: Turn) -> None:
        try:
            async with turn.terminal("ls") as terminal:
                await terminal.kill()
                raise ValueError("no")
        except ValueError:
            await turn.say("caught")

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        client.raw.reply(await client.asked("terminal/kill"), {})
        client.raw.refuse(await client.asked("terminal/release"), -32603)
        updates, _ = await client.turn_of(id)
        assert updates[0]["content"]["text"] == "caught"

    assert released(await run_turn(runs, play)) == ["t1"]


@pytest.mark.rule("terminal.always-released")
async def test_an_unanswered_release_does_not_block_the_turn() -> None:
    clock = FakeClock()

    async def runs(turn: Turn) -> None:
        async with turn.terminal("ls"):
            pass
        await turn.say("on")

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        await client.asked("terminal/release")
        await clock.advance(5)
        updates, _ = await client.turn_of(id)
        assert updates[0]["content"]["text"] == "on"

    await run_turn(runs, play, clock=clock)


async def test_a_terminal_that_cannot_be_created_raises_and_is_not_released() -> None:
    async def runs(turn: Turn) -> None:
        terminal = turn.terminal("nope")
        with pytest.raises(RpcError, match="not found"):
            async with terminal:
                pass
        with pytest.raises(UsageError, match="async with"):
            await terminal.kill()

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.refuse(await client.asked("terminal/create"), -32603, "nope: not found")
        await client.turn_of(id)

    assert released(await run_turn(runs, play)) == []


async def test_other_calls_work_while_waiting_for_a_terminal() -> None:
    async def runs(turn: Turn) -> None:
        async with turn.terminal("server") as terminal:
            waiting = asyncio.create_task(terminal.wait())
            printed = await terminal.output()
            await turn.say(printed.output)
            await terminal.kill()
            await waiting

    async def play(client: Client, session: str, id: Any) -> None:
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        asked = [await client.asked_any(), await client.asked_any()]
        by_method = {message["method"]: message for message in asked}
        client.raw.reply(by_method["terminal/output"], {"output": "up", "truncated": False})
        client.raw.reply(await client.asked("terminal/kill"), {})
        client.raw.reply(by_method["terminal/wait_for_exit"], {"signal": "SIGTERM"})
        client.raw.reply(await client.asked("terminal/release"), {})
        await client.turn_of(id)
        assert client.updates_of("agent_message_chunk")[0]["content"]["text"] == "up"

    await run_turn(runs, play)
