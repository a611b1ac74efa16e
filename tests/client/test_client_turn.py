"""Prompt turns: the order of updates, the end of a turn, and updates outside of turns."""

import asyncio
import gc
from contextlib import aclosing
from typing import Any

import pytest
from tests.client.raw_agent import EventCollector, both, collect, connected, in_session, kinds

from accord.client import ClientOptions, DialectReport
from accord.errors import AuthRequired, BadAnswer, NotOffered, RpcError, UsageError
from accord.schema import (
    AgentMessageChunk,
    AudioContent,
    AvailableCommandsUpdate,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.session import TurnEnded, TurnStarted, text_of
from accord.testing.fake_clock import settle


@pytest.mark.rule(
    "initialize.first",
    "initialize.version-sent",
    "initialize.client-info",
    "initialize.client-capabilities-member",
    "session.new-members",
    "session.absolute-cwd",
)
async def test_a_turn_from_initialize_to_its_end():
    async with connected() as (agent, peer):
        session, asked = await both(agent.new_session("/project"), peer.open("s1"))
        assert asked["params"] == {"cwd": "/project", "mcpServers": []}

        turn = EventCollector(session.prompt("Hello"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "Hello"}]}
        peer.say("Hel")
        peer.say("lo!")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()

    assert kinds(events) == ["TurnStarted", "AgentMessageChunk", "AgentMessageChunk", "TurnEnded"]
    assert session.state.messages[-1].text == "Hello!"
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].stop_reason == "end_turn"
    opening = peer.received[0]
    assert opening["method"] == "initialize"
    assert opening["params"]["protocolVersion"] == 1
    assert opening["params"]["clientInfo"]["name"] == "accord"
    assert "capabilities" not in opening["params"]
    assert opening["params"]["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}


async def test_ask_returns_the_text_stop_reason_and_usage():
    async with in_session() as (session, peer):
        pending = asyncio.create_task(session.ask("Two words, please"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "agent_thought_chunk", content={"type": "text", "text": "hm"})
        peer.say("one")
        peer.update("s1", "tool_call", toolCallId="c1", title="Look", status="completed")
        peer.say("two")
        usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
        peer.reply(prompt, {"stopReason": "max_tokens", "usage": usage})
        answer = await pending
    assert answer.text == "one\n\ntwo"
    assert answer.stop_reason == "max_tokens"
    assert answer.usage is not None
    assert answer.usage.output_tokens == 2


async def test_updates_after_the_response_are_not_part_of_the_turn():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.say("last words")
        peer.reply(prompt, {"stopReason": "end_turn"})
        peer.update("s1", "session_info_update", title="Late title")
        events = await turn.end()
        await settle()
        assert kinds(events) == ["TurnStarted", "AgentMessageChunk", "TurnEnded"]
        assert session.state.title == "Late title"


@pytest.mark.rule("prompt.updates-outside-turn")
async def test_updates_between_turns_are_applied_and_are_events():
    async with in_session() as (session, peer):
        peer.update(
            "s1", "available_commands_update", availableCommands=[{"name": "web", "description": "d"}]
        )
        peer.update("s1", "session_info_update", title="Idle")
        peer.update("s1", "usage_update", used=10, size=100, cost={"amount": 1, "currency": "credits"})
        await settle()
        assert session.state.title == "Idle"
        assert session.state.commands[0].name == "web"
        assert session.state.usage is not None
        assert session.state.usage.used == 10

        watching = EventCollector(session.events())
        await watching.until(AvailableCommandsUpdate)
        peer.say("unasked")
        chunk = await watching.until(AgentMessageChunk)
        assert text_of(chunk) == "unasked"
        assert kinds(watching.events) == [
            "AvailableCommandsUpdate",
            "SessionInfoUpdate",
            "UsageUpdate",
            "AgentMessageChunk",
        ]
        await watching.cancel()


@pytest.mark.rule("prompt.updates-around-session-new")
async def test_updates_right_before_and_after_the_session_new_response_are_kept():
    async with connected() as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        asked = await peer.next("session/new")
        peer.update("s9", "available_commands_update", availableCommands=[{"name": "a", "description": "d"}])
        peer.say("welcome ", "s9")
        peer.reply(asked, {"sessionId": "s9"})
        peer.say("back", "s9")
        session = await opening
        await settle()
        assert [command.name for command in session.state.commands] == ["a"]
        assert session.state.messages[0].text == "welcome back"
        first = await anext(session.events())
        assert isinstance(first, AvailableCommandsUpdate)


async def test_updates_of_unknown_sessions_are_bounded_and_reported():
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.detail))
    async with in_session(options=options) as (session, peer):
        for number in range(12_000):
            peer.say(f"{number}", "unknown-session")
        peer.say("mine")
        await session_has_text(session, "mine")
    assert len([line for line in reports if "unknown-session" in line]) == 2_000


async def session_has_text(session, text):
    async with aclosing(session.events()) as events:
        async for event in events:
            if text_of(event) == text:
                return


@pytest.mark.rule("prompt.blocks-need-capability")
async def test_blocks_without_a_prompt_capability_are_refused_before_sending():
    blocks = {
        "image": ImageContent("aGk=", "image/png"),
        "audio": AudioContent("aGk=", "audio/wav"),
        "embeddedContext": EmbeddedResource(TextResourceContents("file:///a", "text")),
    }
    for name, block in blocks.items():
        others = {other: True for other in blocks if other != name}
        async with in_session({"promptCapabilities": others}) as (session, peer):
            with pytest.raises(NotOffered, match=name):
                session.prompt(["look", block])
            assert [message["method"] for message in peer.received] == ["initialize", "session/new"]
    async with in_session() as (session, peer):
        link = ResourceLink("a.py", "file:///project/a.py")
        turn = EventCollector(session.prompt(["look", link, *blocks.values()]))
        prompt = await peer.next("session/prompt")
        types = [block["type"] for block in prompt["params"]["prompt"]]
        assert types == ["text", "resource_link", "image", "audio", "resource"]
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()


async def test_an_empty_or_invalid_prompt_is_refused():
    async with in_session() as (session, _):
        with pytest.raises(UsageError, match="empty"):
            session.prompt([])
        with pytest.raises(UsageError, match="not of int"):
            session.prompt([5])  # type: ignore[list-item]


@pytest.mark.rule("prompt.message-id-opaque", "prompt.message-id-starts-message")
async def test_message_ids_are_opaque_and_a_new_one_starts_a_new_message():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.say("a", messageId="m 1/ü")
        peer.say("b", messageId="m 1/ü")
        peer.say("c", messageId="0")
        peer.say("d", messageId=None)
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
        texts = [message.text for message in session.state.messages if message.kind == "agent"]
    assert texts == ["ab", "cd"]


@pytest.mark.rule("prompt.unknown-stop-reason")
@pytest.mark.dialect(5)
async def test_an_unknown_stop_reason_ends_the_turn():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        peer.reply(await peer.next("session/prompt"), {"stopReason": "out_of_credits"})
        ended = (await turn.end())[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.stop_reason is None
    assert ended.raw_reason == "out_of_credits"


@pytest.mark.rule("prompt.refusal-shown")
async def test_a_refusal_is_the_stop_reason():
    async with in_session() as (session, peer):
        pending = asyncio.create_task(session.ask("something bad"))
        peer.reply(await peer.next("session/prompt"), {"stopReason": "refusal"})
        assert (await pending).stop_reason == "refusal"


@pytest.mark.dialect(3, 4)
async def test_text_in_the_prompt_response_is_the_answer_text():
    reports: list[object] = []
    async with in_session(options=ClientOptions(observer=reports.append)) as (session, peer):
        for _ in range(2):
            pending = asyncio.create_task(session.ask("go"))
            answer = {"sessionId": "s1", "stopReason": "tool_use", "content": "final text"}
            peer.reply(await peer.next("session/prompt"), answer)
            got = await pending
            assert (got.text, got.stop_reason, got.raw_reason) == ("final text", "end_turn", "tool_use")
        pending = asyncio.create_task(session.ask("go"))
        prompt = await peer.next("session/prompt")
        peer.say("final text")
        peer.reply(prompt, {"stopReason": "end_turn", "content": "final text"})
        assert (await pending).text == "final text"
    rows = [report.row for report in reports if isinstance(report, DialectReport)]
    assert sorted(rows) == [3, 4], "each dialect is reported once"


async def test_an_error_response_is_raised_after_the_last_event():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.say("oh")
        peer.refuse(prompt, -32603, "the model is down", data={"status": 503})
        with pytest.raises(RpcError, match="the model is down") as caught:
            await turn.end()
        assert caught.value.data == {"status": 503}
        assert kinds(turn.events) == ["TurnStarted", "AgentMessageChunk", "TurnEnded"]
        ended = turn.events[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.error is not None
        assert ended.error.message == "the model is down"
        assert session.state.turn == "idle"

        again = EventCollector(session.prompt("again"))
        peer.reply(await peer.next("session/prompt"), {"stopReason": "end_turn"})
        await again.end()


async def test_an_invalid_prompt_response_fails_the_turn():
    async with in_session() as (session, peer):
        for answer in ("nonsense", {}, {"stopReason": 5}):
            turn = EventCollector(session.prompt("go"))
            peer.reply(await peer.next("session/prompt"), answer)
            with pytest.raises(BadAnswer):
                await turn.end()
            assert kinds(turn.events)[-1] == "TurnEnded"


async def test_an_error_response_that_was_raised_is_not_logged_as_never_retrieved():
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
    async with in_session() as (session, peer):
        pending = asyncio.create_task(session.ask("go"))
        peer.refuse(await peer.next("session/prompt"), -32603, "the model is down")
        with pytest.raises(RpcError, match="the model is down"):
            await pending
    del pending
    gc.collect()
    assert logged == []


@pytest.mark.rule("auth.survives-signed-out-session")
async def test_an_auth_error_in_a_turn_carries_the_sign_in_methods():
    methods = [{"id": "login", "name": "Log in"}]
    async with connected(authMethods=methods) as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open())
        pending = asyncio.create_task(session.ask("go"))
        peer.refuse(await peer.next("session/prompt"), -32000, "Authentication required")
        with pytest.raises(AuthRequired) as caught:
            await pending
        assert [method.id for method in caught.value.methods] == ["login"]


@pytest.mark.rule("cancel.waits-before-next-prompt")
async def test_a_second_prompt_during_a_turn_is_refused_locally():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("first"))
        prompt = await peer.next("session/prompt")
        with pytest.raises(UsageError, match="a turn is running"):
            session.prompt("second")
        with pytest.raises(UsageError, match="a turn is running"):
            await session.ask("second")
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert kinds(await turn.end()) == ["TurnStarted", "TurnEnded"]
    assert [message.get("method") for message in peer.received].count("session/prompt") == 1


async def test_the_second_of_two_prompts_fails_when_it_is_iterated():
    async with in_session() as (session, peer):
        one, two = session.prompt("one"), session.prompt("two")
        turn = EventCollector(one)
        prompt = await peer.next("session/prompt")
        with pytest.raises(UsageError, match="only one can run at a time"):
            await anext(two)
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()


@pytest.mark.rule("prompt.client-serves-during-turn")
async def test_requests_of_the_agent_are_served_during_a_turn(tmp_path):
    from accord.client import ClientHandlers, allow_all, local_workspace

    (tmp_path / "a.txt").write_text("hello")
    handlers = ClientHandlers(permissions=allow_all, workspace=local_workspace)
    async with in_session(cwd=tmp_path, handlers=handlers) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        request = {"sessionId": "s1", "path": str(tmp_path / "a.txt")}
        assert await peer.result_of("fs/read_text_file", request) == {"content": "hello"}
        question = {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "c1"},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        }
        outcome = {"outcome": {"outcome": "selected", "optionId": "y"}}
        assert await peer.result_of("session/request_permission", question) == outcome
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    assert kinds(events) == ["TurnStarted", "PermissionAsked", "PermissionAnswered", "TurnEnded"]


async def test_the_loop_body_may_call_the_agent():
    modes = {"currentModeId": "ask", "availableModes": [{"id": i, "name": i} for i in ("ask", "code")]}
    async with in_session(modes=modes) as (session, peer):

        async def drive():
            async for event in session.prompt("go"):
                if isinstance(event, TurnStarted):
                    await session.set_mode("code")
            return session.state.settings.current_mode_id

        drive_task = asyncio.create_task(drive())
        prompt = await peer.next("session/prompt")
        mode = await peer.next("session/set_mode")
        peer.reply(mode, {})
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert await drive_task == "code"


@pytest.mark.rule("extension.unknown-update", "framing.client-unknown-notification")
async def test_unknown_updates_and_notifications_do_not_affect_the_turn():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "zzz", anything=[1, {"x": None}])
        peer.notify("_test/n", {"x": 1})
        peer.notify("vendor/without/underscore", {})
        peer.notify("session/update", {"sessionId": "s1", "update": {"sessionUpdate": "agent_message_chunk"}})
        peer.notify("session/update", {"update": 5})
        peer.say("still here")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    assert [text_of(event) for event in events if isinstance(event, AgentMessageChunk)] == ["still here"]


@pytest.mark.rule("accord.client-lone-surrogate")
async def test_an_emoji_split_over_two_chunks_loses_no_update():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        chunk = (
            '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
            '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}'
        )
        peer.send(chunk % "a\\ud83d")
        peer.send(chunk % "\\ude00b")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    texts = [text_of(event) for event in events if isinstance(event, AgentMessageChunk)]
    assert texts == ["a\ufffd", "\ufffdb"]


@pytest.mark.rule(
    "framing.client-one-line",
    "framing.client-utf8",
    "framing.client-jsonrpc-member",
    "framing.client-no-batch",
    "extension.client-no-custom-members",
    "extension.client-known-methods",
)
async def test_the_client_sends_one_utf8_json_object_per_line():
    text = 'many\nlines "quoted"\ttabs \u2028 and 日本語 🙂'
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt(text))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["prompt"][0]["text"] == text
        peer.say(text)
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        assert text_of(events[1]) == text
        session.cancel()
    for line in peer.lines:
        assert b"\n" not in line
        line.decode("utf-8")
        assert line.startswith(b"{")
    for message in peer.received:
        assert message["jsonrpc"] == "2.0"


async def test_several_sessions_run_turns_concurrently():
    async with connected() as (agent, peer):
        sessions = []
        for number in range(3):
            session, _ = await both(agent.new_session("/project"), peer.open(f"s{number}"))
            sessions.append(session)
        turns = [EventCollector(session.prompt(session.id)) for session in sessions]
        prompts = [await peer.next("session/prompt") for _ in turns]
        for round in range(3):
            for session in sessions:
                peer.say(f"{session.id}-{round};", session.id)
        for prompt in reversed(prompts):
            peer.reply(prompt, {"stopReason": "end_turn"})
        for session, turn in zip(sessions, turns, strict=True):
            await turn.end()
            assert session.state.messages[-1].text == "".join(f"{session.id}-{round};" for round in range(3))


async def test_every_event_reaches_the_turn_and_the_session_listeners():
    async with in_session() as (session, peer):
        listener = EventCollector(session.events())
        await settle()
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.say("x")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        await listener.until(TurnEnded)
        assert listener.events == events
        await listener.cancel()


async def test_a_prompt_may_be_a_text_block():
    async with in_session() as (session, peer):
        turn = asyncio.create_task(collect(session.prompt(TextContent("as a block"))))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "as a block"}]
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn


async def printed_answer(
    chunks: list[str | None], final: str | None, *, message_id: str | None = None
) -> tuple[str, str]:
    """What the loop of the client guide prints for an agent, and `TurnResult.text` for the same agent.

    The agent sends each chunk as an update (None stands for a tool call) and `final` in the prompt's
    response.
    """
    async with in_session() as (session, peer):

        async def answer_prompt(number: int) -> None:
            prompt = await peer.next("session/prompt")
            for chunk in chunks:
                if chunk is None:
                    peer.update("s1", "tool_call", toolCallId=f"t{number}", title="Read", status="completed")
                elif message_id is None:
                    peer.say(chunk)
                else:
                    peer.say(chunk, messageId=f"{message_id}{number}")
            result = {"stopReason": "end_turn"}
            peer.reply(prompt, result if final is None else result | {"content": final})

        async def loop() -> str:
            printed = ""
            async for event in session.prompt("go"):
                if isinstance(event, AgentMessageChunk):
                    printed += event.text
            return printed

        printed, _ = await both(loop(), answer_prompt(1))
        result, _ = await both(session.ask("again"), answer_prompt(2))
        return printed, result.text


@pytest.mark.dialect(3)
@pytest.mark.parametrize("message_id", [None, "m"])
@pytest.mark.parametrize(
    ("chunks", "final", "printed"),
    [
        (["Hello", " world"], None, "Hello world"),
        ([], "Hello world", "Hello world"),
        ([None], "Hello world", "Hello world"),
        (["Hello", " world"], "Hello world", "Hello world"),
        (["Hello"], "Hello world", "Hello world"),
        (["Reading.", None, "Done."], "Done.", "Reading.Done."),
        (["Reading.", None, "Done."], "Reading.\n\nDone.", "Reading.Done."),
    ],
    ids=["streams", "in result", "in result after a tool", "both", "rest in result", "last", "joined"],
)
async def test_one_loop_prints_the_whole_answer_of_every_agent(
    chunks: list[str | None], final: str | None, printed: str, message_id: str | None
) -> None:
    loop, result = await printed_answer(chunks, final, message_id=message_id)
    assert loop == printed
    assert result.replace("\n\n", "") == printed
