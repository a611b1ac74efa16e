"""An agent in version 2, seen from a raw client. All its messages match the official schema."""

import asyncio
import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.agent.client_v2 import client_v2
from tests.agent.memory_agent import memory_agent
from tests.warm_start import real_starts

import accord
from accord.agent import Agent, AgentSession, ClientRequest, Turn
from accord.errors import InternalError, RpcError
from accord.schema import (
    AuthMethodAgent,
    AuthMethodTerminal,
    Diff,
    SessionMode,
    SessionModeState,
    TextContent,
)
from accord.wire.memory_transport import memory_pair


async def echo(turn: Turn) -> None:
    await turn.say(f"You said {turn.text}")


def echo_agent(**options: Any) -> Agent:
    agent = Agent("echo", version="1", protocol=(1, 2), **options)
    agent.prompt(echo)
    return agent


async def test_a_turn_runs_through_message_state_and_chunks_to_idle() -> None:
    async with client_v2(echo_agent()) as client:
        result = await client.initialize()
        assert result["protocolVersion"] == 2
        assert result["info"] == {"name": "echo", "version": "1"}
        session = await client.new_session()
        prompt = client.prompt(session, "hello")
        running, user, answer, chunk, idle = await client.until_idle()
        assert (running["state"], idle["state"], idle["stopReason"]) == ("running", "idle", "end_turn")
        assert user == {
            "sessionUpdate": "user_message",
            "messageId": answer["result"]["messageId"],
            "content": [{"type": "text", "text": "hello"}],
        }
        assert answer["id"] == prompt
        assert (chunk["sessionUpdate"], chunk["content"]["text"]) == ("agent_message_chunk", "You said hello")
        assert chunk["messageId"]


async def test_texts_arrive_as_they_were_said() -> None:
    agent = Agent("talker", version="1", protocol=(1, 2))
    texts = ["one", "two", '"three"', "four\\", "five\n", '"},"messageId":"x"}}}', "six", "\u20ac", "seven"]

    @agent.prompt
    async def talk(turn: Turn) -> None:
        for text in texts:
            await turn.say(text)
            await turn.say(text)
        await turn.think("hm")
        async with turn.tool_call("Look"):
            await turn.say("looked")
        await turn.say("done")

    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        for _ in range(2):
            client.prompt(session, "talk")
            updates = await client.until_idle()
            chunks = [item for item in updates if item.get("sessionUpdate") == "agent_message_chunk"]
            said = [item["content"]["text"] for item in chunks]
            assert said == [*(text for text in texts for _ in range(2)), "looked", "done"]
            assert len({item["messageId"] for item in chunks[: 2 * len(texts)]}) == 1
            assert len({item["messageId"] for item in chunks}) > 1


async def test_the_highest_version_not_above_the_requested_one_is_chosen() -> None:
    for requested, answered in ((1, 1), (2, 2), (3, 2), (65535, 2)):
        async with client_v2(echo_agent()) as client:
            params = {"protocolVersion": requested, "info": {"name": "x", "version": "1"}}
            answer = await client.raw.call_unchecked("initialize", params)
            assert answer["result"]["protocolVersion"] == answered


async def test_an_agent_of_version_2_only_refuses_version_1_and_stays_usable() -> None:
    agent = Agent("new", protocol=(2,))
    agent.prompt(echo)
    async with client_v2(agent) as client:
        error = await client.error("initialize", protocolVersion=1)
        assert (error["code"], error["data"]) == (-32022, {"requested": 1, "supported": [2]})
        assert (await client.initialize())["protocolVersion"] == 2


async def test_an_agent_speaks_version_1_unless_it_says_otherwise() -> None:
    agent = Agent("old")
    agent.prompt(echo)
    async with client_v2(agent) as client:
        answer = await client.raw.call_unchecked("initialize", {"protocolVersion": 2})
        assert answer["result"]["protocolVersion"] == 1


@pytest.mark.parametrize(("strict", "outcome"), [(False, 1), (True, -32602)])
async def test_version_2_with_members_of_version_1_is_answered_in_1_unless_strict(
    strict: bool, outcome: int
) -> None:
    async with client_v2(echo_agent(), strict=strict) as client:
        params = {"protocolVersion": 2, "clientCapabilities": {"terminal": True}}
        answer = await client.raw.call_unchecked("initialize", params)
        got = answer["error"]["code"] if strict else answer["result"]["protocolVersion"]
        assert got == outcome


async def test_a_newer_request_is_read_leniently_and_one_for_version_2_is_not() -> None:
    async with client_v2(echo_agent()) as client:
        assert (await client.error("initialize", protocolVersion=2, info=7))["code"] == -32602
        result = await client.call("initialize", protocolVersion=3, info=7, capabilities=[])
        assert result["protocolVersion"] == 2


async def test_a_failed_initialize_leaves_every_version_open() -> None:
    async with client_v2(echo_agent()) as client:
        client.raw.send('{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":2}}')
        assert (await client.raw.next())["error"]["code"] == -32600
        answer = await client.raw.call_unchecked("initialize", {"protocolVersion": 1})
        assert answer["result"]["protocolVersion"] == 1


async def test_initialize_may_be_repeated_until_the_first_other_request() -> None:
    async with client_v2(echo_agent()) as client:
        assert (await client.error("session/new", cwd="/x"))["code"] == -32600
        client.raw.notify("session/cancel", {"sessionId": "x"})
        await client.initialize()
        await client.initialize()
        assert (await client.error("initialize", protocolVersion=1))["code"] == -32600
        await client.new_session()
        info = {"name": "test", "version": "1"}
        assert (await client.error("initialize", protocolVersion=2, info=info))["code"] == -32600


@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}]',
        "[]",
        '{"jsonrpc":"2.0","id":null,"method":"session/list"}',
        '{"jsonrpc":"2.0","id":1.5,"method":"session/list"}',
    ],
)
async def test_batches_and_unusable_ids_get_one_error_with_a_null_id(line: str) -> None:
    async with client_v2(echo_agent()) as client:
        await client.initialize()
        client.raw.send(line)
        message = await client.raw.next()
        assert (message["id"], message["error"]["code"]) == (None, -32600)
        assert await client.call("session/list") == {"sessions": []}


@pytest.mark.parametrize("params", [[], 7, {}, {"sessionId": {}, "requestId": []}])
async def test_unusable_params_do_not_end_the_connection(params: Any) -> None:
    async with client_v2(echo_agent()) as client:
        await client.initialize()
        client.raw.notify("session/cancel", params)
        client.raw.notify("$/cancel_request", params)
        answer = await client.raw.call_unchecked("session/close", params)
        assert answer["error"]["code"] == -32602
        assert await client.call("session/list") == {"sessions": []}


async def test_methods_of_version_1_are_unknown() -> None:
    async with client_v2(echo_agent()) as client:
        await client.initialize()
        for method in ("session/load", "session/set_mode", "authenticate", "logout"):
            assert (await client.error(method))["code"] == -32601
        error = await client.error("session/prompt", sessionId="none", prompt=[{"type": "text", "text": ""}])
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "none"})


async def test_the_mode_is_a_config_option() -> None:
    agent = echo_agent()

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        modes = [SessionMode("ask", "Ask"), SessionMode("code", "Code")]
        session.modes = SessionModeState("ask", modes)

    @agent.set_mode
    async def mode(session: AgentSession, mode_id: str) -> None:
        chosen.append(mode_id)

    chosen: list[str] = []
    async with client_v2(agent) as client:
        await client.initialize()
        result = await client.call("session/new", cwd="/x")
        (option,) = result["configOptions"]
        assert (option["configId"], option["category"], option["currentValue"]) == ("mode", "mode", "ask")
        assert [choice["value"] for choice in option["options"]] == ["ask", "code"]
        request = {"sessionId": result["sessionId"], "configId": "mode", "type": "id"}
        for wrong in ({"configId": "none"}, {"value": "none"}, {"type": "boolean"}, {"type": "_x"}):
            error = await client.error("session/set_config_option", **{**request, "value": "code", **wrong})
            assert error["code"] == -32602
        result = await client.call("session/set_config_option", **request, value="code")
        assert [item["currentValue"] for item in result["configOptions"]] == ["code"]
        assert chosen == ["code"]


async def test_a_prompt_waits_for_the_running_one_and_keeps_the_order() -> None:
    agent = Agent("slow", protocol=(1, 2))
    gates = {"one": asyncio.Event(), "two": asyncio.Event()}

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await gates[turn.text].wait()

    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        first, second, third = (client.prompt(session, text) for text in ("one", "two", "three"))
        assert (await client.raw.answer_to(first))["result"]["messageId"]
        client.raw.notify("$/cancel_request", {"requestId": third})
        assert (await client.raw.answer_to(third))["error"]["code"] == -32800
        gates["one"].set()
        assert (await client.until_idle())[-1]["stopReason"] == "end_turn"
        gates["two"].set()
        running, user, answer, idle = await client.until_idle()
        assert (running["state"], user["content"][0]["text"], idle["state"]) == ("running", "two", "idle")
        assert answer["id"] == second


async def test_cancel_ends_the_running_prompt_and_those_that_wait() -> None:
    agent = Agent("slow", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await asyncio.Event().wait()

    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        first, second = client.prompt(session), client.prompt(session)
        await client.raw.answer_to(first)
        client.raw.notify("session/cancel", {"sessionId": session})
        assert (await client.raw.answer_to(second))["error"]["code"] == -32800
        assert (await client.until_idle())[-1]["stopReason"] == "cancelled"
        await client.call("session/close", sessionId=session)
        await client.call("session/close", sessionId=session)  # what is closed can be closed


async def test_a_failed_turn_is_idle_with_the_error() -> None:
    agent = Agent("broken", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        raise RpcError("The model is gone", {"retry": False}, code=-32050)

    async with client_v2(agent) as client:
        await client.initialize()
        client.prompt(await client.new_session())
        *_, answer, idle = await client.until_idle()
        assert answer["result"]["messageId"]
        assert idle["stopReason"] == "error"
        assert idle["error"] == {"code": -32050, "message": "The model is gone", "data": {"retry": False}}


async def test_the_session_requires_action_while_the_user_is_asked() -> None:
    agent = Agent("careful", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool_call("Delete it", kind="delete") as call:
            answer = await call.ask_permission()
            await turn.say(f"allowed: {answer.allowed}")

    async with client_v2(agent) as client:
        await client.initialize()
        client.prompt(await client.new_session())
        request = await client.raw.until_method("session/request_permission")
        states = [update["state"] for update in client.raw.updates("state_update")]
        assert states == ["running", "requires_action"]
        assert request["params"]["title"] == "Delete it"
        assert request["params"]["subject"]["type"] == "tool_call"
        option = request["params"]["options"][0]["optionId"]
        client.raw.reply(request, {"outcome": {"outcome": "selected", "optionId": option}})
        messages = await client.until_idle()
        assert messages[0] == {"sessionUpdate": "state_update", "state": "running"}
        assert any("allowed: True" in str(message) for message in messages)


async def test_a_late_answer_of_an_ended_turn_does_not_change_the_state() -> None:
    agent = Agent("careful", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool_call(turn.text) as call:
            await call.ask_permission()

    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        client.prompt(session, "first")
        first = await client.raw.until_method("session/request_permission")
        client.raw.notify("session/cancel", {"sessionId": session})
        await client.until_idle()
        client.prompt(session, "second")
        second = await client.raw.until_method("session/request_permission")
        client.raw.reply(first, {"outcome": {"outcome": "cancelled"}})
        client.raw.reply(second, {"outcome": {"outcome": "cancelled"}})
        await client.until_idle()
        states = [update["state"] for update in client.raw.updates("state_update")]
        turn = ["running", "requires_action"]
        assert states == [*turn, "idle", *turn, "running", "idle"]


async def test_a_change_of_a_file_is_a_git_patch() -> None:
    agent = Agent("editor", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool_call("Edit", kind="edit") as call:
            await call.replace([Diff("/x/a.py", "one\nTWO\n", "one\ntwo\n"), Diff("/x/b", "new")])

    async with client_v2(agent) as client:
        await client.initialize()
        client.prompt(await client.new_session())
        updates = [update for update in await client.until_idle() if update.get("content")]
        changed, added = next(u["content"] for u in updates if u["sessionUpdate"] == "tool_call_update")
        assert changed["changes"] == [{"operation": "modify", "path": "/x/a.py"}]
        assert changed["patch"]["text"].splitlines() == [
            "diff --git /x/a.py /x/a.py",
            "--- /x/a.py",
            "+++ /x/a.py",
            "@@ -1,2 +1,2 @@",
            " one",
            "-two",
            "+TWO",
        ]
        assert added["changes"][0]["operation"] == "add"
        assert "--- /dev/null" in added["patch"]["text"]


async def test_resume_replays_on_request_and_reports_the_state_before_its_answer() -> None:
    agent = memory_agent()
    agent.protocol = (1, 2)
    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        client.prompt(session, "remember milk")
        await client.until_idle()
        await client.call("session/close", sessionId=session)
        request = {"sessionId": session, "cwd": "/home/me/app"}
        for replay_from in ({"type": "_x"}, {}):
            error = await client.error("session/resume", **request, replayFrom=replay_from)
            assert error["code"] == -32602
        client.raw.ask("session/resume", request)
        assert [item["sessionUpdate"] for item in await client.until_idle()] == ["state_update"]
        assert "result" in await client.raw.next()
        client.raw.ask("session/resume", {**request, "replayFrom": {"type": "start"}})
        *replay, state = await client.until_idle()
        begun: set[str] = set()
        for update in replay:
            if update["sessionUpdate"].endswith("_message"):
                assert update["content"] == []
                begun.add(update["messageId"])
            elif update["sessionUpdate"].endswith("_chunk"):
                assert update["messageId"] in begun
        assert begun
        assert state["state"] == "idle"
        assert "result" in await client.raw.next()


async def test_a_failed_resumption_does_not_silence_the_session() -> None:
    agent = Agent("loads", protocol=(1, 2))

    @agent.load_session
    async def load(session: AgentSession) -> None:
        raise InternalError("the history cannot be read")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("still here")

    async with client_v2(agent) as client:
        await client.initialize()
        session = await client.new_session()
        await client.error("session/resume", sessionId=session, cwd="/home/me/app")
        client.prompt(session)
        await client.until_idle()
        (chunk,) = client.raw.updates("agent_message_chunk")
        assert chunk["content"]["text"] == "still here"


async def test_sign_in_uses_the_names_of_version_2() -> None:
    agent = echo_agent(auth_methods=[AuthMethodAgent("key", "Key"), AuthMethodTerminal("tty", "Terminal")])
    calls: list[str] = []

    @agent.authenticate
    async def login(method_id: str, call: ClientRequest) -> None:
        calls.append(method_id)

    @agent.logout
    async def logout(call: ClientRequest) -> None:
        calls.append("logout")

    async with client_v2(agent) as client:
        result = await client.initialize(auth={"terminal": {}})
        assert [(item["methodId"], item["type"]) for item in result["authMethods"]] == [
            ("key", "agent"),
            ("tty", "terminal"),
        ]
        assert await client.call("auth/login", methodId="key") == {}
        assert await client.call("auth/logout") == {}
        assert calls == ["key", "logout"]
    without_logout = echo_agent(auth_methods=[AuthMethodAgent("key", "Key")])
    without_logout.authenticate(login)
    async with client_v2(without_logout) as client:
        await client.initialize()
        error = await client.error("auth/logout")
        assert (error["code"], error["data"]) == (-32601, {"method": "auth/logout"})


async def test_an_own_turn_is_running_and_idle_without_a_prompt() -> None:
    async with client_v2(echo_agent()) as client:
        await client.initialize()
        session = await client.new_session()
        client.connection.start_turn(session, [TextContent("wake up")])
        running, user, chunk, idle = await client.until_idle()
        assert (running["state"], idle["stopReason"]) == ("running", "end_turn")
        assert user["content"][0]["text"] == "wake up"
        assert chunk["content"]["text"] == "You said wake up"


@pytest.mark.parametrize(("versions", "version"), [((1,), 1), ((1, 2), 1), ((1, 2), 2)])
def test_a_program_that_speaks_only_version_1_loads_no_module_of_version_2(
    tmp_path: Path, versions: tuple[int, ...], version: int
) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import sys\nimport accord\n"
        f"agent = accord.Agent('x', protocol={versions})\n"
        "@agent.prompt\nasync def reply(turn): ...\n"
        "agent.serve()\nprint(*sys.modules, file=sys.stderr)\n"
    )
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    info = {"name": "x", "version": "1"}
    line = json.dumps({**request, "params": {"protocolVersion": version, "info": info}})
    with real_starts():
        done = subprocess.run(
            [sys.executable, str(program)], input=line + "\n", capture_output=True, text=True, check=True
        )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == version
    loaded = [name for name in done.stderr.split() if "v2" in name and name.startswith("accord.")]
    assert bool(loaded) == (version == 2)


def build_agent(stopped: list[str], release: asyncio.Event) -> Agent:
    agent = Agent("builder", protocol=(1, 2))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        session = turn.session
        async with turn.tool_call("Build", kind="execute", cancel=lambda: stopped.append("call")) as call:
            terminal = session.show_terminal("make", cwd="/x", cancel=lambda: stopped.append("terminal"))
            async with terminal:
                await call.terminal(terminal)
                await terminal.print("compiled\n")
                await session.show_background([terminal])
                await release.wait()
            await session.show_background([])

    return agent


async def test_an_agent_shows_terminals_and_background_work_that_can_be_stopped() -> None:
    stopped: list[str] = []
    release = asyncio.Event()
    async with client_v2(build_agent(stopped, release)) as client:
        await client.initialize()
        session = await client.new_session()
        client.prompt(session)
        while not client.raw.updates("state_update") or not client.raw.updates("state_update")[-1].get(
            "background"
        ):
            await client.raw.next()
        (terminal,) = client.raw.updates("terminal_update")
        assert (terminal["command"], terminal["cwd"]) == ("make", "/x")
        assert terminal["capabilities"] == {"cancel": {}}
        (output,) = client.raw.updates("terminal_output_chunk")
        assert b64decode(output["data"]) == b"compiled\n"
        call = client.raw.updates("tool_call_update")[-1]
        assert call["content"] == [{"type": "terminal", "terminalId": terminal["terminalId"]}]
        items = {"sessionId": session, "terminalId": terminal["terminalId"]}
        assert await client.call("terminal/cancel", **items) == {}
        call_id = call["toolCallId"]
        assert await client.call("tool_call/cancel", sessionId=session, toolCallId=call_id) == {}
        assert stopped == ["terminal", "call"]
        assert (await client.error("tool_call/cancel", sessionId=session, toolCallId="x"))["code"] == -32602
        release.set()
        idle = (await client.until_idle())[-1]
        assert (idle["stopReason"], idle["background"]) == ("end_turn", [])
        assert client.raw.updates("terminal_update")[-1]["exitStatus"] == {"exitCode": 0, "signal": None}
        assert (await client.error("terminal/cancel", **items))["code"] == -32602


async def test_a_client_in_version_1_gets_the_output_of_a_terminal_as_text() -> None:
    release = asyncio.Event()
    release.set()
    ours, theirs = memory_pair()
    connection = build_agent([], release).connect(theirs)
    async with accord.connect_transport(ours) as agent:
        session = await agent.new_session("/x")
        await session.ask("go")
        (call,) = session.state.tool_calls.values()
        assert "compiled" in call.text
        assert call.terminal_ids == []
    await connection.aclose()
