"""Turns of the coding agent with a scripted model: updates, tool calls, cancellation and compaction."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.coding_agent import HELD_PROMPTS
from accord.coder.model_history import (
    AssistantMessage,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    text_of,
)
from accord.coder.models import ModelError, ModelRequest, RequestUsage, Stopped


def results(request: ModelRequest) -> list[str]:
    """Return the tool results as the model reads them."""
    return [text_of(message) for message in request.messages if isinstance(message, ToolResult)]


async def allow(client: Client, kind: str = "allow_once") -> Any:
    """Answer the next permission request with the option of this kind."""
    asked = await client.asked("session/request_permission")
    option = next(option for option in asked["params"]["options"] if option["kind"] == kind)
    client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
    return asked["params"]


async def test_chunks_share_message_ids_and_turn_reports_usage(harness: AgentHarness):
    async with harness.client([ThoughtPart("Hm. "), ThoughtPart("Well."), "One ", "two."]) as client:
        session = await client.new_session(harness.cwd)
        updates, result = await client.turn(session, "count")
        said = [update for update in updates if update["sessionUpdate"].startswith("agent_")]
        assert [update["content"]["text"] for update in said] == ["Hm. ", "Well.", "One ", "two."]
        thought, other_thought, first, second = (update["messageId"] for update in said)
        assert thought == other_thought != first == second
        assert result["stopReason"] == "end_turn"
        assert result["usage"] == {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10}
        usage = [update for update in updates if update["sessionUpdate"] == "usage_update"]
        assert usage[-1]["used"] == 110
        assert usage[-1]["size"] == 100_000
        assert usage[-1]["cost"] == {"amount": 0.01, "currency": "USD"}


async def test_session_title_comes_from_the_first_prompt(harness: AgentHarness):
    async with harness.client(["ok"], ["ok"]) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "Fix the **parser**. It is broken.")
        await client.turn(session, "Something else")
        assert [update["title"] for update in client.updates_of("session_info_update")] == ["Fix the parser"]


async def test_read_calls_end_before_a_write_call(harness: AgentHarness):
    for name in "ab":
        (harness.project / name).write_text(name)
    steps = [
        [use("read_file", path="a"), use("read_file", path="b"), use("write_file", path="c", content="1")],
        ["done"],
    ]
    async with harness.client(*steps) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        await allow(client)
        await client.turn_of(turn)
        shown = [(u["title"], u["status"]) for u in client.updates_of("tool_call")]
        assert shown == [("Read a", "pending"), ("Read b", "pending"), ("Write c", "pending")]
        order = [u for u in client.updates() if u["sessionUpdate"] in ("tool_call", "tool_call_update")]
        reads = [u["toolCallId"] for u in client.updates_of("tool_call")[:2]]
        write = client.updates_of("tool_call")[2]["toolCallId"]
        ended = [u["toolCallId"] for u in order if u.get("status") == "completed"]
        announced = [u["toolCallId"] for u in order if u["sessionUpdate"] == "tool_call"]
        assert set(ended[:2]) == set(reads)
        assert ended[2] == announced[2] == write
    assert (harness.project / "c").read_text() == "1"


async def test_denied_call_is_reported_to_the_model_and_turn_continues(harness: AgentHarness):
    model = ScriptedModel([use("write_file", path="c", content="1")], ["Then not."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        client.raw.reply(
            asked,
            {"outcome": {"outcome": "selected", "optionId": "reject_once", "_meta": {"reason": "use d"}}},
        )
        _, result = await client.turn_of(turn)
    assert result["stopReason"] == "end_turn"
    assert results(model.requests[1])[0].startswith("Permission denied.")
    assert "use d" in results(model.requests[1])[0]
    assert not (harness.project / "c").exists()


async def test_allow_always_lasts_for_the_session_only(harness: AgentHarness):
    write = [use("write_file", path="c", content="1")], ["ok"], [use("write_file", path="d", content="2")]
    async with harness.client(*write, ["ok"], [use("write_file", path="e", content="3")]) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        asked = await allow(client, "allow_always")
        assert [option["kind"] for option in asked["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
            *["allow_always"] * 2,
        ]
        assert asked["toolCall"]["toolCallId"] == client.updates_of("tool_call")[0]["toolCallId"]
        assert asked["toolCall"]["content"][0]["type"] == "diff"
        await client.turn_of(turn)
        await client.turn(session, "more")
        other = await client.new_session(harness.cwd)
        turn = client.prompt(other)
        await allow(client)
        await client.turn_of(turn)
    assert (harness.project / "d").read_text() == "2"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
async def test_stop_reason_of_the_model_is_the_stop_reason_of_the_turn(harness: AgentHarness, reason: Any):
    stopped = Stopped(reason, AssistantMessage((TextPart("I "),)), "The provider declined.")
    model = ScriptedModel(["Sure."], stopped, ["Fine."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "good")
        _, result = await client.turn(session, "bad")
        assert result["stopReason"] == reason
        await client.turn(session, "good again")
    if reason == "refusal":
        assert model.prompts == ["good", "Sure.", "good again"]
    else:
        assert model.prompts == ["good", "Sure.", "bad", "I ", "good again"]


async def test_refused_prompt_stays_out_of_model_history_after_load(harness: AgentHarness):
    refused = Stopped("refusal", AssistantMessage((TextPart("No."),)))
    async with harness.client(["Sure."], refused) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "good")
        await client.turn(session, "bad")
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        received = [update["content"]["text"] for update in client.updates_of("user_message_chunk")]
        assert received == ["good", "bad"]
        await client.turn(session, "next")
    assert model.prompts == ["good", "Sure.", "next"]


async def test_turn_stops_at_the_configured_number_of_requests(harness: AgentHarness):
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text("[turn]\nrequests = 3\n")
    looks = [[use("list_files", path=".")], [use("glob", pattern="*")], [use("grep", pattern="x")], ["never"]]
    async with harness.client(*looks) as client:
        session = await client.new_session(harness.cwd)
        _, result = await client.turn(session)
        assert result["stopReason"] == "max_turn_requests"


async def test_repeated_identical_calls_are_rejected_and_then_stop_the_turn(harness: AgentHarness):
    model = ScriptedModel(*[[use("write_file", path="a/b\0", content="")]] * 20)
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        _, result = await client.turn(session)
        assert result["stopReason"] == "max_turn_requests"
    results_sent = results(model.requests[-1])
    assert [text.startswith("Not run:") for text in results_sent] == [False, False, False, True, True]
    assert len(model.requests) == 6


async def test_cancel_during_model_stream_closes_the_stream(harness: AgentHarness):
    requested, never = asyncio.Event(), asyncio.Event()

    async def wait_forever(request: ModelRequest) -> list[Any]:
        requested.set()
        await never.wait()
        return []

    model = ScriptedModel(wait_forever, ["Back again."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "tell me")
        await requested.wait()
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        assert model.closed == 1
        _, result = await client.turn(session, "and now?")
        assert result["stopReason"] == "end_turn"
    assert model.prompts == ["tell me", "The user cancelled the turn here.", "and now?"]


async def test_cancel_during_permission_request_runs_nothing_and_completes_history(harness: AgentHarness):
    model = ScriptedModel([use("write_file", path="c", content="1"), use("bash", command="touch d")], ["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        client.cancel(session)
        client.raw.reply(asked, {"outcome": {"outcome": "cancelled"}})
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        assert client.updates()[-1]["sessionUpdate"] == "tool_call_update"
        assert client.updates()[-1]["status"] == "failed"
        await client.turn(session, "go on")
    assert [text.startswith("Cancelled by the user") for text in results(model.requests[1])] == [True, True]
    assert list(harness.project.iterdir()) == []


async def test_second_prompt_waits_for_the_answer_to_a_question(harness: AgentHarness):
    async with harness.client([use("write_file", path="c", content="1")], ["ok"], ["too"]) as client:
        session = await client.new_session(harness.cwd)
        turns = [client.prompt(session, text) for text in ("go", "me too")]
        asked = await client.asked("session/request_permission")
        client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        for turn in turns:
            _, result = await client.turn_of(turn)
            assert result["stopReason"] == "end_turn"


async def test_permanent_model_error_ends_the_turn_with_its_message(harness: AgentHarness):
    model = ScriptedModel(ModelError("bad_request", "openai:scripted: no such model; choose another"), ["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        error = await client.error(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        )
        assert error["code"] == -32603
        assert error["message"] == "openai:scripted: no such model; choose another"
        assert error["data"] == {"reason": "model_error", "kind": "bad_request"}
        await client.turn(session, "again")
    assert model.prompts == ["hi", "again"]


async def test_model_auth_error_becomes_auth_required(harness: AgentHarness):
    async with harness.client(ModelError("auth", "openai: the key is not valid")) as client:
        session = await client.new_session(harness.cwd)
        error = await client.error(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        )
        assert error["code"] == -32000


@pytest.mark.parametrize("name", ["ReadFile", "functions.read_file", "read-file", "cat", "READ_FILE"])
async def test_tool_name_variants_resolve_to_the_tool(harness: AgentHarness, name: str):
    (harness.project / "a").write_text("alpha")
    model = ScriptedModel([ToolUse("1", name, {"path": "a"})])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd))
    assert "alpha" in results(model.requests[1])[0]


async def test_invalid_calls_return_errors_the_model_can_act_on(harness: AgentHarness):
    calls = [
        ToolUse("1", "no_such_tool", {}),
        ToolUse("2", "read_file", {}),
        ToolUse("3", "read_file", "{nope"),
    ]
    model = ScriptedModel(calls)
    async with harness.client(model=model) as client:
        updates, result = await client.turn(await client.new_session(harness.cwd))
        assert result["stopReason"] == "end_turn"
        ended = [u["status"] for u in updates if u["sessionUpdate"] == "tool_call_update" and "status" in u]
        assert ended == ["failed"] * 3
    unknown, missing, broken = results(model.requests[1])
    assert "no_such_tool" in unknown
    assert "read_file" in unknown
    assert "path" in missing
    assert "read_file" in broken


async def test_slash_text_without_a_command_is_a_prompt(harness: AgentHarness):
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "/etc/hosts is what?")
    assert model.prompts == ["/etc/hosts is what?"]


async def test_images_go_to_vision_models_and_become_placeholders_for_others(harness: AgentHarness):
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    prompt = [
        {"type": "text", "text": "what is it?"},
        {"type": "image", "mimeType": "image/png", "data": png},
    ]
    for sees in (True, False):
        model = ScriptedModel(sees_images=sees)
        async with harness.client(model=model) as client:
            await client.turn(await client.new_session(harness.cwd), prompt)
        first = model.requests[0].messages[0]
        assert isinstance(first, UserMessage)
        shown = first.parts[1]
        assert (getattr(shown, "mime_type", None) == "image/png") is sees
        assert sees or (isinstance(shown, TextPart) and shown.text == "[image: image/png]")


async def test_embedded_text_and_links_reach_the_model(harness: AgentHarness):
    prompt = [
        {"type": "text", "text": "compare"},
        {"type": "resource", "resource": {"uri": "file:///x/a.py", "text": "print(1)"}},
        {"type": "resource_link", "uri": "file:///x/b.py", "name": "b.py"},
    ]
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), prompt)
    assert "print(1)" in model.prompts[0]
    assert "file:///x/b.py" in model.prompts[0]


async def test_folder_instructions_are_sent_once_when_the_folder_is_read(
    harness: AgentHarness,
):
    (harness.project / "AGENTS.md").write_text("Use tabs.")
    (harness.project / "sub").mkdir()
    (harness.project / "sub" / "AGENTS.md").write_text("Use spaces here.")
    (harness.project / "sub" / "x.py").write_text("x")
    model = ScriptedModel([use("read_file", path="sub/x.py")], [use("read_file", path="sub/x.py")], ["ok"])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd))
    assert "Use tabs." in model.requests[0].system
    assert "Use spaces here." not in model.requests[0].system
    sent = [text for text in model.prompts if "Use spaces here." in text]
    assert len(sent) == 1


async def test_full_context_is_compacted_with_updates_and_keeps_the_task(harness: AgentHarness):
    (harness.project / "big").write_text("many words on a line\n" * 2000)
    steps = [
        [use("read_file", path="big")],
        [use("read_file", path="big", limit=1000)],
        ["Read."],
        ["A summary."],
        ["ok"],
    ]
    model = ScriptedModel(*steps, context_size=24_000, usage=RequestUsage(0, 0))
    async with harness.client(model=model, capabilities={"session": {"compaction": {}}}) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "Read big, then keep the word ALBATROSS in mind")
        await client.turn(session, "go on")
        statuses = [update["status"] for update in client.updates_of("compaction_update")]
        assert statuses[0] == "in_progress"
        assert statuses[-1] == "completed"
    assert any("ALBATROSS" in text for text in model.prompts)
    assert model.prompts[-1] == "go on" or "go on" in model.prompts


async def test_request_over_the_context_limit_is_compacted_and_repeated(harness: AgentHarness):
    full = ModelError("context_full", "openai:scripted: too long")
    talk = [["word " * 2000] for _ in range(4)]
    model = ScriptedModel(*talk, full, ["Summed up."], ["Fits now."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        for number in range(4):
            await client.turn(session, f"prompt {number}")
        updates, result = await client.turn(session, "the last one")
        assert result["stopReason"] == "end_turn"
        said = "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")
        assert "Context compacted" in said
        assert said.endswith("Fits now.")
    assert "the last one" in model.prompts


async def test_the_limit_of_held_prompts_is_named(harness: AgentHarness) -> None:
    async def wait(request: Any) -> Any:
        await asyncio.Event().wait()

    async with harness.client(wait) as client:
        session = await client.new_session(harness.cwd)
        for number in range(HELD_PROMPTS + 1):
            client.prompt(session, f"prompt {number}")
        error = await client.raw.answer_to(client.prompt(session, "one more"))
        client.cancel(session)
    assert "at most 100 can wait" in error["error"]["message"]
