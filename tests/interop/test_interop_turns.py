"""Turns between Accord and the official SDKs, both ways, as seen by the client."""

import hashlib
import json
from typing import Any

import pytest
from tests.interop.conversation import NOTES, SCRIPT, Conversation, without_nulls
from tests.interop.pairs import CONTROLS, OUR_AGENT, OUR_CLIENT, OUR_CLIENT_REMOTE, OUR_GATEWAY, for_pairs

all_pairs = for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE, OUR_GATEWAY, OUR_AGENT, CONTROLS)


def without_message_id(update: dict[str, Any]) -> dict[str, Any]:
    """An update without its message id, which agents choose freely or omit."""
    return {key: value for key, value in update.items() if key != "messageId"}


def chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


@all_pairs
@pytest.mark.rule("prompt.text-block", "prompt.stop-reason", "prompt.answered", "usage.members")
def test_thoughts_a_plan_and_text_arrive_in_order(conversation: Conversation) -> None:
    scenario = conversation.scenario("text")
    assert [without_message_id(update) for update in scenario.updates] == [
        chunk("agent_thought_chunk", SCRIPT["thought"]),
        {"sessionUpdate": "plan", "entries": SCRIPT["plan"]},
        *(chunk("agent_message_chunk", text) for text in SCRIPT["pieces"]),
        {"sessionUpdate": "usage_update", **SCRIPT["usage"]},
        {"sessionUpdate": "session_info_update", "title": SCRIPT["title"]},
    ]
    assert scenario.stop_reasons == ["end_turn"]


@for_pairs(OUR_AGENT)
@pytest.mark.rule("prompt.message-id-constant")
def test_the_chunks_of_a_message_share_a_unique_id(conversation: Conversation) -> None:
    updates = conversation.scenario("text").updates
    spoken = {one["messageId"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"}
    thought = {one["messageId"] for one in updates if one["sessionUpdate"] == "agent_thought_chunk"}
    assert len(spoken) == len(thought) == 1
    assert spoken != thought


@all_pairs
@pytest.mark.rule(
    "tool-call.reported",
    "tool-call.members",
    "tool-call.absolute-paths",
    "tool-call.announced",
    "tool-call.in-progress",
    "tool-call.final-status",
)
def test_a_tool_call_goes_from_pending_to_completed_and_shows_its_diff(conversation: Conversation) -> None:
    edit = SCRIPT["edit"]
    path = str(conversation.folder / edit["file"])
    call = conversation.scenario("tool").tool_call
    assert call.statuses == ["pending", "in_progress", "completed"]
    assert call.last["title"] == edit["title"]
    assert call.last["kind"] == "edit"
    assert call.last["locations"] == [{"path": path, "line": edit["line"]}]
    assert call.last["content"] == [
        {"type": "diff", "path": path, "oldText": edit["old"], "newText": edit["new"]}
    ]
    assert call.last["rawInput"] == edit["input"]
    assert call.last["rawOutput"] == edit["output"]
    assert conversation.scenario("tool").stop_reasons == ["end_turn"]


@all_pairs
@pytest.mark.rule(
    "prompt.client-serves-during-turn",
    "permission.request-members",
    "permission.option-members",
    "permission.option-ids",
    "permission.served",
    "permission.offered-option",
)
@pytest.mark.parametrize(
    ("scenario_name", "expected_text", "statuses"),
    [
        ("permission-allowed", "allowed", ["pending", "in_progress", "completed"]),
        ("permission-rejected", "rejected", ["pending", "failed"]),
    ],
)
def test_permission_is_requested_and_the_answer_is_respected(
    conversation: Conversation, scenario_name: str, expected_text: str, statuses: list[str]
) -> None:
    scenario = conversation.scenario(scenario_name)
    [question] = scenario.seen("permission")
    assert without_nulls(question["options"]) == SCRIPT["danger"]["options"]
    assert question["tool_call"]["toolCallId"] == scenario.tool_call.id
    assert scenario.tool_call.statuses == statuses
    assert scenario.texts == [expected_text]
    assert scenario.stop_reasons == ["end_turn"]


@all_pairs
@pytest.mark.rule(
    "cancel.stop-reason", "cancel.no-error", "cancel.pending-permissions", "cancel.session-continues"
)
def test_cancelling_during_a_permission_request_approves_nothing(conversation: Conversation) -> None:
    scenario = conversation.scenario("permission-cancelled")
    assert scenario.tool_call.statuses == ["pending", "failed"]
    assert scenario.stop_reasons == ["cancelled", "end_turn"]
    assert scenario.texts == ["still here"]
    [refusal] = [
        answer["result"]
        for answer in conversation.wire.answers_of("client", "session/request_permission")
        if answer["result"]["outcome"]["outcome"] != "selected"
    ]
    assert refusal["outcome"] == {"outcome": "cancelled"}


@all_pairs
@pytest.mark.rule(
    "prompt.requests-during-turn",
    "cancel.notification",
    "cancel.stop-reason",
    "cancel.no-error",
    "cancel.soon",
    "cancel.updates-before-response",
    "cancel.session-continues",
)
def test_cancelling_a_turn_ends_it_and_the_session_stays_usable(conversation: Conversation) -> None:
    scenario = conversation.scenario("cancel")
    assert scenario.tool_call.statuses == ["in_progress", "failed"]
    assert scenario.answers("set_mode") == [{}]  # served during the turn
    assert scenario.stop_reasons == ["cancelled", "end_turn"]
    assert scenario.texts == ["waiting", "code"]
    assert all("id" not in message for message in conversation.wire.calls("client", "session/cancel"))


@all_pairs
@pytest.mark.rule(
    "file.absolute-paths",
    "file.read-result",
    "file.line-and-limit",
    "file.missing-file",
    "file.write-creates",
)
def test_the_agent_reads_and_writes_files_of_the_client(conversation: Conversation) -> None:
    files = SCRIPT["files"]
    scenario = conversation.scenario("files")
    assert scenario.json_text == {
        "line": NOTES.splitlines(keepends=True)[1],
        "written": files["text"],
        "missing": -32002,
    }
    assert (conversation.folder / files["write"]).read_text("utf-8") == files["text"]
    [read, _, _] = conversation.wire.calls("agent", "fs/read_text_file")
    assert read["params"]["path"] == str(conversation.folder / files["read"])
    assert (read["params"]["line"], read["params"]["limit"]) == (files["line"], files["limit"])


@all_pairs
@pytest.mark.rule(
    "terminal.create-at-once",
    "terminal.environment",
    "terminal.output-members",
    "terminal.output-limit",
    "terminal.exit-status",
    "terminal.kill-keeps-id",
    "terminal.absolute-cwd",
)
def test_the_agent_runs_commands_in_terminals_of_the_client(conversation: Conversation) -> None:
    reported = conversation.scenario("terminal").json_text
    killed = reported.pop("killed")
    assert reported == {
        "exit_code": 3,
        "output": f"{SCRIPT['commands_to_run']['failing']['env']['GREETING']}\n{conversation.folder}\n",
        "truncated": False,
        "exit_code_in_output": 3,
        "cut": ["你你你", True],  # ten bytes would end inside a character
        "still_running": True,
        "over": True,
    }
    assert killed[0] or killed[1], "it ended with an exit code or a signal"
    assert {call["params"]["cwd"] for call in conversation.wire.calls("agent", "terminal/create")} == {
        str(conversation.folder)
    }
    assert conversation.scenario("terminal").stop_reasons == ["end_turn"]


@all_pairs
@pytest.mark.rule("tool-call.terminal-before-release", "terminal.always-released")
def test_every_terminal_is_shown_and_then_released(conversation: Conversation) -> None:
    created = [
        answer["result"]["terminalId"] for answer in conversation.wire.answers_of("client", "terminal/create")
    ]
    released = [call["params"]["terminalId"] for call in conversation.wire.calls("agent", "terminal/release")]
    assert len(created) == 3
    assert sorted(created) == sorted(released)
    [shown] = conversation.scenario("terminal").tool_call.last["content"]
    assert shown == {"type": "terminal", "terminalId": created[0]}
    sent = conversation.wire.sent_by("agent")
    [embedding, *_] = [place for place, message in enumerate(sent) if shown in content_of(message)]
    [release, *_] = [
        place for place, message in enumerate(sent) if message.get("method") == "terminal/release"
    ]
    assert embedding < release


def content_of(message: dict[str, Any]) -> list[Any]:
    """The content of a tool call update."""
    content = message.get("params", {}).get("update", {}).get("content", [])
    return content if isinstance(content, list) else []


@all_pairs
@pytest.mark.rule("elicitation.action", "elicitation.declined")
def test_a_form_is_filled_in_or_declined(conversation: Conversation) -> None:
    scenario = conversation.scenario("form")
    assert [one["message"] for one in scenario.seen("form")] == [SCRIPT["form"]["message"]] * 2
    for one in scenario.seen("form"):
        assert without_nulls(one["schema"]["properties"]) == SCRIPT["form"]["properties"]
        assert one["schema"]["required"] == SCRIPT["form"]["required"]
    assert scenario.json_text == [{"action": "accept", "content": SCRIPT["filled_in"]}, {"action": "decline"}]


@for_pairs(OUR_AGENT)
@pytest.mark.rule("elicitation.members", "elicitation.one-scope", "elicitation.flat-schema")
def test_forms_of_our_agent_name_the_session_and_have_a_flat_schema(conversation: Conversation) -> None:
    session = conversation.scenario("form").answers("new")[0]["sessionId"]
    for call in conversation.wire.calls("agent", "elicitation/create"):
        asked = call["params"]
        assert (asked["mode"], asked["message"]) == ("form", SCRIPT["form"]["message"])
        assert asked["sessionId"] == session
        assert "requestId" not in asked
        assert asked["requestedSchema"]["type"] == "object"
        assert asked["requestedSchema"]["properties"] == SCRIPT["form"]["properties"]


@all_pairs
@pytest.mark.rule("prompt.resource-link-block", "prompt.chunk-content")
def test_links_embedded_files_and_images_pass_in_both_directions(conversation: Conversation) -> None:
    sent = [SCRIPT["link"], SCRIPT["enclosed"], SCRIPT["picture"]]
    scenario = conversation.scenario("blocks")
    reported, *returned = [update["content"] for update in scenario.updates_of("agent_message_chunk")]
    assert without_nulls(json.loads(reported["text"])) == sent
    assert returned == sent


@all_pairs
@pytest.mark.rule(
    "framing.agent-one-line", "framing.client-one-line", "framing.agent-utf8", "framing.client-utf8"
)
def test_unicode_text_passes_unchanged(conversation: Conversation) -> None:
    [_, step] = SCRIPT["scenarios"]["unicode"]["steps"]
    assert conversation.scenario("unicode").texts == [step["text"].removeprefix("echo ")]


@all_pairs
def test_messages_of_two_megabytes_pass_in_both_directions(conversation: Conversation) -> None:
    [_, step] = SCRIPT["scenarios"]["big"]["steps"]
    bulk = SCRIPT["bulk"] * (step["bulk"] // len(SCRIPT["bulk"]))
    whole = {"length": step["bulk"], "sha256": hashlib.sha256(bulk.encode()).hexdigest()}
    reported, returned = conversation.scenario("big").texts
    assert json.loads(reported) == whole
    assert returned == whole


@all_pairs
@pytest.mark.rule("session.independent")
def test_two_sessions_run_concurrently_and_stay_separate(conversation: Conversation) -> None:
    scenario = conversation.scenario("together")
    first, second = (answer["sessionId"] for answer in scenario.answers("new"))
    expected_text = {
        one["session"]: one["update"]["content"]["text"]
        for one in scenario.seen("update")
        if one["update"]["sessionUpdate"] == "agent_message_chunk"
    }
    assert expected_text == {first: "in the first", second: "in the other"}
    assert scenario.stop_reasons == ["end_turn", "end_turn"]


@all_pairs
@pytest.mark.rule("framing.agent-unknown-extension", "framing.client-unknown-extension")
def test_both_sides_serve_extension_methods_and_refuse_unknown_ones(conversation: Conversation) -> None:
    scenario = conversation.scenario("extensions")
    assert scenario.answers("extension") == [{"text": "好你"}]
    assert scenario.error("extension")["code"] == -32601
    assert scenario.json_text == {"reversed": "cba", "unknown": -32601}


@all_pairs
@pytest.mark.rule("framing.agent-error-members")
def test_errors_of_the_agent_reach_the_caller_and_the_session_stays_usable(
    conversation: Conversation,
) -> None:
    scenario = conversation.scenario("errors")
    refused, failed = scenario.seen("error", to="prompt")
    reported = SCRIPT["refusal"]
    assert (refused["code"], refused["message"], refused["data"]) == (
        reported["code"],
        reported["message"],
        reported["data"],
    )
    assert failed["code"] == -32603
    assert scenario.texts == ["still here"]
    assert scenario.stop_reasons == ["end_turn"]


@for_pairs(OUR_CLIENT, OUR_AGENT, CONTROLS)
@pytest.mark.rule("framing.agent-dies")
def test_an_agent_that_crashes_during_a_turn_fails_the_prompt(conversation: Conversation) -> None:
    scenario = conversation.scenario("crash")
    assert scenario.texts == ["going down"]
    assert scenario.error("prompt")["code"] is None  # there was no response; the connection failed
    assert not scenario.stop_reasons
    [end] = conversation.scenario("end").seen("exit")
    assert end["code"] == SCRIPT["exit_code"]


@for_pairs(OUR_CLIENT_REMOTE)
@pytest.mark.rule("framing.agent-dies")
def test_a_server_that_crashes_during_a_turn_fails_the_prompt(conversation: Conversation) -> None:
    failure = conversation.scenario("crash").error("prompt")
    assert failure["type"] == "ConnectionClosed"
    assert "session/prompt was not answered" in failure["message"]
    assert "127.0.0.1" in failure["message"], "it names the server"
    assert not conversation.scenario("crash").stop_reasons


@for_pairs(OUR_CLIENT)
def test_our_client_reports_the_exit_code_and_stderr_of_a_crashed_agent(conversation: Conversation) -> None:
    failure = conversation.scenario("crash").error("prompt")
    assert failure["type"] == "Crashed"
    assert f"exited with code {SCRIPT['exit_code']}" in failure["message"]
    [end] = conversation.scenario("end").seen("exit")
    assert SCRIPT["stderr_text"] in failure["message"]
    assert SCRIPT["stderr_text"] in end["stderr"]


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule("prompt.updates-outside-turn", "prompt.updates-around-session-new")
def test_the_session_state_of_our_client_matches_the_script(conversation: Conversation) -> None:
    [state] = conversation.scenario("text").seen("state")
    assert state["messages"] == [
        ["user", "text"],
        ["thought", SCRIPT["thought"]],
        ["agent", "".join(SCRIPT["pieces"])],
    ]
    assert state["plan"] == SCRIPT["plan"]
    assert state["commands"] == SCRIPT["commands"]  # sent right before or after the session/new response
    assert state["usage"]["used"] == SCRIPT["usage"]["used"]
    assert state["title"] == SCRIPT["title"]
    [state] = conversation.scenario("tool").seen("state")
    assert list(state["tool_calls"].values()) == [[SCRIPT["edit"]["title"], "completed"]]
