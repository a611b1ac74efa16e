"""A client in version 2, seen from a raw agent and with Accord's own agent. What it sends is validated."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from tests.interop.wire_record import official_faults

import accord
from accord import Agent, Turn
from accord.client import ClientOptions, RemoteAgent, allow_all, connect_transport
from accord.client.handlers import ClientHandlers
from accord.client.version_request import requesting
from accord.errors import HandshakeFailed, RpcError
from accord.schema import Diff, PlanEntry, SessionMode, SessionModeState
from accord.session import StateChanged, TerminalChanged, ToolCallChanged
from accord.testing.raw_peer import RawPeer, WireFault
from accord.wire.envelope import Message, id_key
from accord.wire.memory_transport import memory_pair
from accord.wire.translation import is_extension_call, is_response
from accord.wire.transport import OversizedFrame, Transport

Protocol = Literal["auto", 1, 2]


class RawAgentV2(RawPeer):
    """A raw agent that validates what a client in version 2 sends."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.asked: dict[Any, str] = {}

    def send(self, message: Message | bytes | str) -> None:
        if isinstance(message, dict) and "method" in message and "id" in message:
            self.asked[id_key(message["id"])] = message["method"]
        super().send(message)

    def validate(self, message: Message) -> None:
        faults = list(official_faults(message, "client", self.asked, "schema.unstable", 2))
        if faults:
            raise WireFault(f"{faults} in {message}")

    async def initialized(self, **result: Any) -> Message:
        """Answer `initialize` and return the request."""
        request = await self.next("initialize")
        info = {"name": "raw", "version": "1"}
        answer = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}
        self.reply(request, {**answer, **result})
        return request

    async def opened(self, session: str = "s", **result: Any) -> None:
        """Answer `session/new`."""
        self.reply(await self.next("session/new"), {"sessionId": session, **result})

    def update(self, tag: str, session: str = "s", **members: Any) -> None:
        """Send an update."""
        self.notify("session/update", {"sessionId": session, "update": {"sessionUpdate": tag, **members}})

    def state(self, state: str, **members: Any) -> None:
        """Send a state."""
        self.update("state_update", state=state, **members)


def chunk(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@asynccontextmanager
async def raw_agent(protocol: Protocol = 2) -> AsyncGenerator[tuple[RawAgentV2, asyncio.Task[RemoteAgent]]]:
    ours, theirs = memory_pair()
    handlers = ClientHandlers(permissions=allow_all)
    pending = connect_transport(ours, handlers=handlers, options=ClientOptions(protocol=protocol))

    async def connect() -> RemoteAgent:
        return await pending

    task = asyncio.create_task(connect())
    try:
        yield RawAgentV2(theirs), task
    finally:
        if task.done() and task.exception() is None:
            await task.result().aclose()
        task.cancel()


async def test_auto_continues_in_version_2_with_one_handshake() -> None:
    async with raw_agent("auto") as (raw, connecting):
        request = await raw.initialized()
        assert request["params"]["protocolVersion"] == 2
        assert request["params"]["info"]["name"] == "accord"
        agent = await connecting
        opening = asyncio.create_task(agent.new_session("/x"))
        await raw.opened()
        assert (await opening).id == "s"


async def test_auto_continues_in_version_1_with_one_handshake() -> None:
    async with raw_agent("auto") as (raw, connecting):
        request = await raw.next("initialize")
        assert request["params"]["clientInfo"]["name"] == "accord"
        raw.reply(request, {"protocolVersion": 1, "agentCapabilities": {}})
        agent = await connecting
        opening = asyncio.create_task(agent.new_session("/x"))
        raw.reply(await RawPeer.until_method(raw, "session/new"), {"sessionId": "s"})
        session = await opening
        prompt = asyncio.create_task(session.ask("hi"))
        request = await raw.next("session/prompt")
        raw.update("agent_message_chunk", content=chunk("hello"))
        raw.reply(request, {"stopReason": "end_turn"})
        assert (await prompt).text == "hello"


async def test_version_2_only_refuses_an_agent_of_version_1() -> None:
    async with raw_agent(2) as (raw, connecting):
        request = await raw.next("initialize")
        assert "clientInfo" not in request["params"]
        raw.reply(request, {"protocolVersion": 1})
        with pytest.raises(HandshakeFailed, match="version 1; this client speaks only 2"):
            await connecting


async def open_session(raw: RawAgentV2, connecting: "asyncio.Task[RemoteAgent]", **result: Any) -> Any:
    await raw.initialized()
    agent = await connecting
    opening = asyncio.create_task(agent.new_session("/x"))
    await raw.opened(**result)
    return await opening


@pytest.mark.parametrize("answer_last", [False, True])
@pytest.mark.parametrize("draft", ["newest", "first"])
async def test_a_turn_ends_with_the_idle_state(answer_last: bool, draft: str) -> None:
    """The answer to the prompt may come before or after the turn; older drafts answer `{}`."""
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        request = await raw.next("session/prompt")
        result = {"messageId": "u1"} if draft == "newest" else {}
        if not answer_last:
            raw.reply(request, result)
        raw.state("running")
        raw.update("user_message", messageId="u1", content=[chunk("hi")])
        raw.update("agent_message", messageId="a1", content=[chunk("hel")])
        raw.update("agent_message_chunk", messageId="a1", content=chunk("lo"))
        raw.state("idle", stopReason="max_tokens")
        if answer_last:
            raw.reply(request, result)
        outcome = await running
        assert (outcome.text, outcome.stop_reason) == ("hello", "max_tokens")
        assert [message.text for message in session.state.messages] == ["hi", "hello"]
        assert session.state.messages[0].id == "u1"
        assert session.state.activity == "idle"


async def test_texts_of_a_message_keep_their_place_among_translated_updates() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        seen: list[str] = []

        async def read() -> None:
            async for event in session.prompt("hi"):
                text = getattr(event, "content", None) or getattr(event, "patch", None)
                if text is not None:
                    seen.append(getattr(text, "text", "") or type(text).__name__)

        running = asyncio.create_task(read())
        raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
        raw.state("running")
        for kind, id, text in (
            ("message", "a1", "1"),
            ("message", "a1", "2"),
            ("thought", "t1", "3"),
            ("message", "a1", "4"),
            ("message", "a2", '5"\\'),
        ):
            raw.update(f"agent_{kind}_chunk", messageId=id, content=chunk(text))
        raw.update("tool_call_update", toolCallId="c", title="Build")
        for text in ("6", "7"):
            raw.update("agent_message_chunk", messageId="a2", content=chunk(text))
        image = {"type": "image", "data": "", "mimeType": "image/png"}
        raw.update("agent_message_chunk", messageId="a2", content=image)
        raw.update("agent_message_chunk", messageId="a2", content=chunk("8"))
        raw.update("agent_message", messageId="a2", content=[chunk("9")])
        raw.update("agent_message_chunk", messageId="a2", content=chunk("10"))
        raw.state("idle", stopReason="end_turn")
        await running
        assert seen == [
            "1",
            "2",
            "3",
            "4",
            '5"\\',
            "ToolCallUpdate",
            "6",
            "7",
            "ImageContent",
            "8",
            "list",
            "10",
        ]
        assert [(item.id, item.text) for item in session.state.messages if item.kind != "user"] == [
            ("a1", "124"),
            ("t1", "3"),
            ("a2", "910"),
        ]


async def test_a_repeated_idle_state_does_not_end_the_next_turn() -> None:
    """An agent repeats its state when the list of its background work changes."""
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        for number in range(2):
            running = asyncio.create_task(session.ask("hi"))
            raw.reply(await raw.next("session/prompt"), {"messageId": f"u{number}"})
            if number:
                raw.state("idle", background=[])
            raw.state("running")
            raw.update("agent_message", messageId=f"a{number}", content=[chunk("hello")])
            raw.state("idle", stopReason="end_turn")
            assert (await running).text == "hello"


async def test_a_prompt_that_is_canceled_before_it_is_inserted_ends_as_cancelled() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        request = await raw.next("session/prompt")
        session.cancel()
        raw.send(
            {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32800, "message": "Request cancelled"}}
        )
        assert (await running).stop_reason == "cancelled"


def test_only_frames_without_a_second_method_pass_untranslated() -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"_x/y","params":{"text":"a method"}}'
    assert is_extension_call(call)
    assert not is_response(call)
    assert is_response(b'{"jsonrpc":"2.0","id":1,"result":{"text":"a\\n"}}')
    for frame in (
        b'{"jsonrpc":"2.0","id":1,"method":"_x","method":"session/update"}',
        b'{"jsonrpc":"2.0","id":1,"method":"_x","m\\u0065thod":"session/update"}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"m\\u0065thod":"session/update"}',
        b'{"jsonrpc":"2.0","method":"_x"}',
        b"[1]",
        OversizedFrame(1, b"{", b"}"),
    ):
        assert not is_extension_call(frame)
        assert not is_response(frame)


async def test_an_error_of_the_turn_is_raised() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
        raw.state("running")
        raw.state("idle", stopReason="error", error={"code": -32050, "message": "no model"})
        with pytest.raises(RpcError, match="no model"):
            await running


async def test_tool_calls_terminals_and_background_reach_the_state() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
        raw.state("running")
        raw.update("terminal_update", terminalId="t", command="make", cwd="/x", capabilities={"cancel": {}})
        raw.update("terminal_output_chunk", terminalId="t", data="w6")
        raw.update("terminal_output_chunk", terminalId="t", data="w7Y=")
        raw.update("tool_call_update", toolCallId="c", title="Build", kind="execute", status="in_progress")
        raw.update("tool_call_content_chunk", toolCallId="c", content={"type": "terminal", "terminalId": "t"})
        raw.update("tool_call_update", toolCallId="c", status="cancelled", title=None)
        raw.update("tool_call_update", toolCallId="d", title="Later", status="paused")
        raw.update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
        raw.update("notice", severity="info", title="Done")
        raw.update("_vendor_update", x=1)
        raw.update("_accord/turn_ended", rawReason="refusal")
        raw.state("idle", stopReason="end_turn", background=[{"type": "tool_call", "toolCallId": "d"}])
        await running
        state = session.state
        assert state.tool_calls["c"].cancelled
        assert (state.tool_calls["c"].title, state.tool_calls["c"].terminal_ids) == ("", ["t"])
        assert state.tool_calls["d"].status == "in_progress"
        assert (state.terminals["t"].text, state.terminals["t"].cancellable) == ("ö", True)
        assert session.terminals["t"].text == "ö"
        assert session.terminals["t"].exit_status.exit_code == 0
        assert [(item.kind, item.id) for item in state.background] == [("tool_call", "d")]
        assert state.stop_reason == "end_turn"


async def test_tool_calls_and_terminals_are_canceled_alone() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        with pytest.raises(accord.NotOffered):
            await session.cancel_tool_call("c")
        raw.update("tool_call_update", toolCallId="c", title="Build", capabilities={"cancel": {}})
        raw.update("terminal_update", terminalId="t", capabilities={"cancel": {}})
        events = session.events()
        while not (session.state.terminals and session.state.terminals["t"].cancellable):
            await anext(events)
        for cancel, method, name in (
            (session.cancel_tool_call("c"), "tool_call/cancel", "toolCallId"),
            (session.cancel_terminal("t"), "terminal/cancel", "terminalId"),
        ):
            canceling = asyncio.create_task(cancel)
            request = await raw.next(method)
            assert request["params"][name] == name[0].replace("t", "c" if name == "toolCallId" else "t")
            raw.reply(request, {})
            await canceling


async def test_questions_about_commands_and_tool_calls_are_answered() -> None:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    subjects: list[Any] = [
        {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Delete"}},
        {"type": "command", "command": "rm x", "cwd": "/x"},
        {"type": "_vendor", "what": 1},
        None,
    ]
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
        raw.state("running")
        for subject in subjects:
            params = {"sessionId": "s", "title": "May I?", "options": options, "subject": subject}
            answer = await raw.answer_to(raw.ask("session/request_permission", params))
            assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "y"}
        for method in ("fs/read_text_file", "terminal/create"):
            answer = await raw.answer_to(raw.ask(method, {"sessionId": "s", "path": "/etc/passwd"}))
            assert answer["error"]["code"] == -32601
        raw.state("idle", stopReason="end_turn")
        await running
        assert session.state.tool_calls["c"].title == "Delete"


async def test_a_canceled_turn_ends_with_the_idle_state() -> None:
    async with raw_agent() as (raw, connecting):
        session = await open_session(raw, connecting)
        running = asyncio.create_task(session.ask("hi"))
        raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
        session.cancel()
        await raw.next("session/cancel")
        raw.state("idle", stopReason="cancelled")
        assert (await running).stop_reason == "cancelled"


async def test_loading_a_session_replays_it_from_the_start() -> None:
    async with raw_agent() as (raw, connecting):
        await raw.initialized()
        agent = await connecting
        loading = asyncio.create_task(agent.load_session("s", "/x"))
        request = await raw.next("session/resume")
        assert request["params"]["replayFrom"] == {"type": "start"}
        raw.update("user_message", messageId="u", content=[])
        raw.update("user_message_chunk", messageId="u", content=chunk("hi"))
        raw.update("agent_message", messageId="a", content=[])
        raw.update("agent_message_chunk", messageId="a", content=chunk("hello"))
        raw.state("idle")
        raw.reply(request, {"availableCommands": [{"type": "command", "name": "x", "description": "y"}]})
        session = await loading
        assert [message.text for message in session.state.messages] == ["hi", "hello"]


def busy_agent() -> Agent:
    agent = Agent("busy", protocol=(1, 2))

    @agent.new_session
    async def begin(session: accord.AgentSession) -> None:
        session.modes = SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])

    @agent.set_mode
    async def mode(session: accord.AgentSession, mode_id: str) -> None: ...

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.think("Hm")
        await turn.plan([PlanEntry("Edit", "high", "in_progress")])
        async with turn.tool_call("Edit a", kind="edit", raw_input={"path": "/x/a"}) as call:
            await call.replace([Diff("/x/a", "new\n", "old\n")])
            await turn.say(f"allowed {bool(await call.ask_permission())}")
        await turn.notice("Careful", "really")
        await turn.usage(10, 100)
        await turn.title("A title")
        await turn.set_mode("code")
        await turn.say("Done")

    return agent


async def outcome_of(protocol: Protocol) -> Any:
    ours, theirs = memory_pair()
    connection = busy_agent().connect(theirs)
    options = ClientOptions(protocol=protocol)
    async with connect_transport(
        ours, handlers=ClientHandlers(permissions=allow_all), options=options
    ) as agent:
        session = await agent.new_session("/x")
        await session.set_mode("ask")
        events = [event async for event in session.prompt("go")]
        state = session.state
        kinds = [type(event).__name__ for event in events if not isinstance(event, StateChanged)]
        call = next(iter(state.tool_calls.values()))
        outcome = (
            kinds,
            [(entry.kind, entry.text) for entry in state.messages],
            (call.title, call.kind, call.status, call.content, call.raw_input),
            [(step.content, step.status) for step in state.plan],
            (state.title, state.usage, [notice.text for notice in state.notices]),
            (state.settings.current_mode_id, [mode.id for mode in state.settings.modes]),
            (state.stop_reason, state.activity),
        )
    await connection.aclose()
    return outcome


async def test_both_versions_give_the_same_events_and_the_same_state() -> None:
    first, second, auto = [await outcome_of(protocol) for protocol in (1, 2, "auto")]
    same = [name.replace("ModeChanged", "ConfigOptionUpdate") for name in first[0]]
    assert [name for name in second[0] if name != "UserMessageChunk"] == same
    assert second[1:] == first[1:]
    assert auto == second


def test_the_events_of_version_2_are_public() -> None:
    assert all(name.__doc__ for name in (StateChanged, TerminalChanged, ToolCallChanged))


async def test_a_client_without_events_gets_only_what_version_1_has() -> None:
    """As the gateway uses an agent in version 2."""
    ours, theirs = memory_pair()
    raw = RawAgentV2(theirs)
    pending = connect_transport(requesting(ours, only=True, events=False))

    async def connect() -> RemoteAgent:
        return await pending

    connecting = asyncio.create_task(connect())
    session = await open_session(raw, connecting)
    running = asyncio.create_task(session.ask("hi"))
    raw.reply(await raw.next("session/prompt"), {"messageId": "u1"})
    raw.state("running")
    raw.update("user_message", messageId="u1", content=[chunk("hi, changed by a hook")])
    raw.update("agent_message_chunk", messageId="a1", content=chunk("hello"))
    raw.update("tool_call_update", toolCallId="c", title="Build", status="in_progress")
    raw.update("tool_call_content_chunk", toolCallId="c", content={"type": "terminal", "terminalId": "t"})
    raw.update("tool_call_content_chunk", toolCallId="c", content={"type": "content", "content": chunk("x")})
    raw.update("terminal_output_chunk", terminalId="t", data="b2sK")
    raw.update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
    raw.update("tool_call_update", toolCallId="c", status="completed")
    raw.state("idle", stopReason="end_turn", background=[])
    assert (await running).text == "hello"
    state = session.state
    assert [message.text for message in state.messages] == ["hi", "hello"]
    assert "ok" in state.tool_calls["c"].text
    assert state.tool_calls["c"].text.endswith("x")
    assert (state.tool_calls["c"].status, state.terminals, state.background) == ("completed", {}, [])
    await connecting.result().aclose()
