"""A prompt turn: its input, its output, and how it ends."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import STRICT, connected_client, make_agent, silent

from accord.agent import Agent, AgentFeatures, AgentOptions, ClientRequest, Turn
from accord.errors import InvalidParams, UsageError
from accord.schema import (
    EmbeddedResource,
    ImageContent,
    PermissionOption,
    PromptRequest,
    PromptResponse,
    ResourceLink,
    TextContent,
    ToolCallUpdate,
    Usage,
)
from accord.testing.fake_clock import settle
from accord.testing.raw_peer import RawPeer
from accord.wire.memory_transport import memory_pair

LINK = {"type": "resource_link", "uri": "file:///home/me/app/a.py", "name": "a.py"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


@pytest.mark.rule("prompt.text-block", "prompt.resource-link-block")
async def test_text_and_links_are_always_accepted_and_other_blocks_if_advertised() -> None:
    seen: list[Any] = []

    async def look(turn: Turn) -> None:
        seen.extend(type(block) for block in turn.blocks)
        seen.append(turn.text)

    blocks = [{"type": "text", "text": "Fix"}, LINK, {"type": "text", "text": "please"}, FILE, IMAGE]
    agent = make_agent(look, accepts=AgentFeatures(image=True, embedded_context=True))
    async with connected_client(agent, options=STRICT) as client:
        await client.turn(await client.new_session(), blocks)
    assert seen == [TextContent, ResourceLink, TextContent, EmbeddedResource, ImageContent, "Fix\nplease"]


async def test_blocks_without_a_capability_are_refused_by_a_strict_agent_only() -> None:
    for options in (None, STRICT):
        async with connected_client(make_agent(silent), options=options) as client:
            id = client.prompt(await client.new_session(), [IMAGE])
            answer = await client.raw.answer_to(id)
        assert ("error" in answer) is (options is STRICT)


async def test_an_unknown_stop_reason_is_named_with_the_valid_ones() -> None:
    async def handler(turn: Turn) -> Any:
        return "done"

    async with connected_client(make_agent(handler)) as client:
        session = await client.new_session()
        error = await client.error(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        )
    assert error["data"] == (
        "a prompt handler returned 'done'; use None or one of "
        "end_turn, max_tokens, max_turn_requests, refusal, cancelled"
    )


@pytest.mark.rule("prompt.stop-reason", "prompt.answered")
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
async def test_a_handler_may_return_the_stop_reason(reason: Any) -> None:
    async def stops(turn: Turn) -> Any:
        return reason

    async with connected_client(make_agent(stops)) as client:
        assert (await client.turn(await client.new_session()))[1] == {"stopReason": reason}


@pytest.mark.rule("prompt.stop-reason", "usage.prompt-result")
async def test_a_handler_may_return_the_whole_response() -> None:
    async def spends(turn: Turn) -> PromptResponse:
        return PromptResponse("end_turn", Usage(30, 20, 10))

    async with connected_client(make_agent(spends)) as client:
        _, result = await client.turn(await client.new_session())
    assert result == {
        "stopReason": "end_turn",
        "usage": {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10},
    }


async def test_a_prompt_handler_may_be_a_plain_function() -> None:
    def quick(turn: Turn) -> None:
        turn.think_now("quick")
        turn.say_now(TextContent("at once"))

    async with connected_client(make_agent(quick)) as client:
        updates, _ = await client.turn(await client.new_session())
    assert [update["sessionUpdate"] for update in updates] == ["agent_thought_chunk", "agent_message_chunk"]


@pytest.mark.parametrize("result", ["tool_use", 5, ["end_turn"], {"stopReason": "end_turn"}])
async def test_an_invalid_return_value_is_answered_with_an_internal_error(result: Any) -> None:
    async def wrong(turn: Turn) -> Any:
        return result

    async with connected_client(make_agent(wrong)) as client:
        answer = await client.raw.answer_to(client.prompt(await client.new_session()))
    assert answer["error"]["code"] == -32603


@pytest.mark.rule("framing.agent-error-members")
async def test_an_exception_in_a_turn_is_answered_without_its_details() -> None:
    async def fails(turn: Turn) -> None:
        if turn.text == "ours":
            raise InvalidParams("No such file", {"path": "/a"})
        raise KeyError("/home/me/.ssh/secret")

    async with connected_client(make_agent(fails)) as client:
        session = await client.new_session()
        ours = await client.raw.answer_to(client.prompt(session, "ours"))
        theirs = await client.raw.answer_to(client.prompt(session, "theirs"))
    assert ours["error"] == {"code": -32602, "message": "No such file", "data": {"path": "/a"}}
    assert theirs["error"] == {"code": -32603, "message": "Internal error", "data": "KeyError in the handler"}


@pytest.mark.rule("prompt.updates-before-response", "prompt.update-members", "prompt.chunk-content")
async def test_all_updates_of_a_turn_precede_its_response() -> None:
    async def counts(turn: Turn) -> None:
        for number in range(500):
            await turn.say(str(number))

    async with connected_client(make_agent(counts)) as client:
        session = await client.new_session()
        updates, _ = await client.turn(session)
        await client.new_session()
    assert [update["content"]["text"] for update in updates] == [str(number) for number in range(500)]
    assert len(client.updates()) == 500


@pytest.mark.rule("prompt.message-id-constant")
async def test_a_message_id_changes_after_a_thought_tool_call_or_plan() -> None:
    async def speaks(turn: Turn) -> None:
        await turn.say("one ")
        await turn.say("message")
        await turn.usage(1, 10)
        await turn.say(".")
        await turn.think("hm")
        await turn.say("another")
        async with turn.tool_call("Look"):
            await turn.say("a third, said in a tool call")
        await turn.say(", and on")
        await turn.plan(["step"])
        await turn.say("a fourth")

    async with connected_client(make_agent(speaks)) as client:
        session = await client.new_session()
        await client.turn(session)
        await client.turn(session)
    chunks = client.updates_of("agent_message_chunk") + client.updates_of("agent_thought_chunk")
    by_id: dict[str, str] = {}
    for chunk in chunks:
        by_id[chunk["messageId"]] = by_id.get(chunk["messageId"], "") + chunk["content"]["text"]
    once = ["one message.", "another", "a third, said in a tool call, and on", "a fourth"]
    assert sorted(by_id.values()) == sorted([*once, *once, "hm", "hm"])


@pytest.mark.rule("framing.agent-invalid-params", "prompt.malformed-refused")
@pytest.mark.parametrize("prompt", [[{"type": "text"}], [{"type": "zzz"}], 5, None, [5]])
async def test_a_malformed_prompt_is_refused(prompt: Any) -> None:
    for options in (None, STRICT):
        async with connected_client(make_agent(silent), options=options) as client:
            session = await client.new_session()
            error = await client.error("session/prompt", {"sessionId": session, "prompt": prompt})
            await client.turn(session)
        assert error["code"] == -32602


@pytest.mark.rule("prompt.malformed-refused", "accord.agent-strict-mode")
@pytest.mark.dialect(1, 2)
@pytest.mark.parametrize("prompt", ["hi", ["hi"], {"type": "text", "text": "hi"}])
async def test_a_prompt_as_bare_text_is_accepted_unless_the_agent_is_strict(prompt: Any) -> None:
    async def echo(turn: Turn) -> None:
        await turn.say(turn.text)

    async with connected_client(make_agent(echo)) as client:
        session = await client.new_session()
        id = client.raw.ask("session/prompt", {"sessionId": session, "prompt": prompt, "timeoutMs": 60000})
        updates, _ = await client.turn_of(id)
    assert updates[0]["content"]["text"] == "hi"
    async with connected_client(make_agent(echo), options=STRICT) as client:
        session = await client.new_session()
        error = await client.error("session/prompt", {"sessionId": session, "prompt": prompt})
    assert error["code"] == -32602


@pytest.mark.rule("accord.prompt-during-turn")
async def test_a_second_prompt_is_refused_and_the_first_continues() -> None:
    go = asyncio.Event()

    async def waits(turn: Turn) -> None:
        await turn.say("a")
        await go.wait()
        await turn.say("b")

    async with connected_client(make_agent(waits)) as client:
        session = await client.new_session()
        first, second = client.prompt(session), client.prompt(session)
        refused = await client.raw.answer_to(second)
        later = await client.error("session/prompt", {"sessionId": session, "prompt": []})
        go.set()
        updates, result = await client.turn_of(first)
        await client.turn(session)
    assert refused["error"]["code"] == later["code"] == -32600
    assert [update["content"]["text"] for update in updates][-1] == "b"
    assert result == {"stopReason": "end_turn"}


HOLDING = AgentOptions(held_prompts=2)


@pytest.mark.rule("accord.prompt-during-turn")
async def test_held_prompts_are_answered_in_order_after_the_running_turn() -> None:
    go = asyncio.Event()

    async def waits(turn: Turn) -> None:
        await go.wait()
        await turn.say(turn.text)

    async with connected_client(make_agent(waits), options=HOLDING) as client:
        session = await client.new_session()
        ids = [client.prompt(session, text) for text in ("one", "two", "three")]
        refused = await client.error("session/prompt", {"sessionId": session, "prompt": []})
        go.set()
        turns = [await client.turn_of(id) for id in ids]
    assert refused["code"] == -32600
    assert [updates[0]["content"]["text"] for updates, _ in turns] == ["one", "two", "three"]
    assert [result for _, result in turns] == [{"stopReason": "end_turn"}] * 3


@pytest.mark.rule("accord.prompt-during-turn")
@pytest.mark.parametrize("end", ["cancel", "close"])
async def test_a_cancel_ends_the_running_turn_and_the_held_prompts(end: str) -> None:
    seen: list[str] = []

    async def waits(turn: Turn) -> None:
        seen.append(turn.text)
        await asyncio.Event().wait()

    async with connected_client(make_agent(waits), options=HOLDING) as client:
        session = await client.new_session()
        ids = [client.prompt(session, text) for text in ("one", "two", "three")]
        if end == "cancel":
            client.cancel(session)
        else:
            client.raw.ask("session/close", {"sessionId": session})
        assert [(await client.turn_of(id))[1] for id in ids] == [{"stopReason": "cancelled"}] * 3
    assert seen in ([], ["one"]), "a held prompt was started"


async def test_a_held_prompt_can_be_withdrawn_alone() -> None:
    go = asyncio.Event()

    async def waits(turn: Turn) -> None:
        await go.wait()
        await turn.say(turn.text)

    async with connected_client(make_agent(waits), options=HOLDING) as client:
        session = await client.new_session()
        first, second, third = (client.prompt(session, text) for text in ("one", "two", "three"))
        await settle()
        client.raw.notify("$/cancel_request", {"requestId": second})
        assert (await client.turn_of(second))[1] == {"stopReason": "cancelled"}
        go.set()
        turns = [await client.turn_of(id) for id in (first, third)]
    assert [updates[0]["content"]["text"] for updates, _ in turns] == ["one", "three"]


async def test_a_finished_turn_cannot_be_used() -> None:
    kept: list[Turn] = []

    async def keeps(turn: Turn) -> None:
        kept.append(turn)

    async with connected_client(make_agent(keeps)) as client:
        await client.turn(await client.new_session())
        turn = kept[0]
        with pytest.raises(UsageError, match="has ended"):
            await turn.say("late")
        with pytest.raises(UsageError, match="has ended"):
            await turn.plan([])
        with pytest.raises(UsageError, match="has ended"):
            async with turn.tool_call("late"):
                pass
        with pytest.raises(UsageError, match="has ended"):
            turn.terminal("late")
        await client.new_session()
    assert client.updates() == []


async def test_a_custom_prompt_method_can_be_cancelled() -> None:
    agent = Agent("custom")

    @agent.on("session/prompt")
    async def answer(request: PromptRequest, call: ClientRequest) -> PromptResponse:
        if not request.prompt:
            await asyncio.Event().wait()
        return PromptResponse("refusal")

    async with connected_client(agent) as client:
        session = await client.new_session()
        assert (await client.turn(session))[1] == {"stopReason": "refusal"}
        id = client.prompt(session, [])
        client.cancel(session)
        assert (await client.turn_of(id))[1] == {"stopReason": "cancelled"}


async def test_a_client_that_does_not_read_blocks_the_agents_output() -> None:
    sent = 0

    async def floods(turn: Turn) -> None:
        nonlocal sent
        for _ in range(1000):
            await turn.say("x" * 1000)
            sent += 1

    ours, theirs = memory_pair()
    raw = RawPeer(theirs, validate="agent")
    connection = make_agent(floods).connect(ours)
    await raw.call("initialize", {"protocolVersion": 1})
    session = (await raw.call("session/new", {"cwd": "/a", "mcpServers": []}))["sessionId"]
    theirs.pause()
    id = raw.ask("session/prompt", {"sessionId": session, "prompt": []})
    await settle()
    assert 0 < sent < 500
    theirs.resume()
    await raw.answer_to(id)
    assert sent == 1000
    await raw.aclose()
    await connection


async def test_invalid_content_and_values_that_are_not_json_are_refused() -> None:
    async def misuses(turn: Turn) -> None:
        with pytest.raises(UsageError, match="NoneType"):
            await turn.say(None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="not JSON"):
            async with turn.tool_call("Read", raw_input={"path": object()}):
                raise AssertionError("never announced")
        with pytest.raises(UsageError, match=r"availableCommands\[0\].input.hint: expected string, got null"):
            await turn.commands([("list", "Show the list", None)])  # type: ignore[list-item]
        with pytest.raises(UsageError, match=r"SessionInfoUpdate .* \$.title: expected string"):
            await turn.title(5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="used"):
            await turn.usage(1.5, 5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="cannot show 1 as a step"):
            await turn.plan([1])  # type: ignore[list-item]
        nameless = PermissionOption("a", None, "allow_once")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"RequestPermissionRequest .* \$.options\[0\].name"):
            await turn.ask_permission(ToolCallUpdate("1"), [nameless])
        await turn.say("fine")

    async with connected_client(make_agent(misuses)) as client:
        updates, _ = await client.turn(await client.new_session())
    assert [update["content"]["text"] for update in updates] == ["fine"]
