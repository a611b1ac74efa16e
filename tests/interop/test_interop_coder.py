"""Turns of the coding agent with the official clients: text, tools, permissions, cancels, sessions."""

import re
from collections import Counter
from typing import Any

import pytest
from tests.interop.conversation import Conversation, Scenario
from tests.interop.pairs import OUR_CODER, for_pairs
from tests.interop.test_interop_wire import KNOWN_COMPLAINTS, check_lines, unanswered

official_clients = for_pairs(OUR_CODER)


def calls(scenario: Scenario) -> list[dict[str, Any]]:
    """The tool calls of a scenario in their final state."""
    found: dict[str, dict[str, Any]] = {}
    for update in scenario.updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            found.setdefault(update["toolCallId"], {}).update(update)
    return list(found.values())


def text(scenario: Scenario) -> str:
    return "".join(scenario.texts)


@official_clients
def test_a_turn_with_thoughts_a_plan_and_text(conversation: Conversation) -> None:
    scenario = conversation.scenario("text")
    assert scenario.stop_reasons == ["end_turn"]
    thoughts = scenario.updates_of("agent_thought_chunk")
    assert "".join(one["content"]["text"] for one in thoughts) == "first I look around"
    [plan] = scenario.updates_of("plan")
    assert [entry["content"] for entry in plan["entries"]] == ["look", "tell"]
    assert text(scenario).startswith("plan: look; tell")
    assert scenario.updates_of("session_info_update")
    assert scenario.updates_of("usage_update")
    [answer] = scenario.answers("prompt")
    assert answer["usage"]["totalTokens"] > 0
    assert "no AI" in text(conversation.scenario("unset"))


@official_clients
def test_tools_use_the_clients_files(conversation: Conversation) -> None:
    scenario = conversation.scenario("tool")
    read, listed, found = calls(scenario)
    assert [call["status"] for call in (read, listed, found)] == ["completed"] * 3
    assert [call["kind"] for call in (read, listed, found)] == ["read", "read", "search"]
    assert read["rawOutput"]["text"] == "one\ntwo\nthree"
    [request] = scenario.seen("request", method="fs/read_text_file")
    assert request["path"] == read["locations"][0]["path"]


@official_clients
def test_an_allowed_edit_is_made_and_shown_as_a_diff(conversation: Conversation) -> None:
    scenario = conversation.scenario("permission-allowed")
    assert (conversation.folder / "notes.txt").read_text() == "one\nzwei\nthree\n"
    assert (conversation.folder / "new.txt").read_text().strip() == "made"
    edit = next(call for call in calls(scenario) if call["kind"] == "edit" and call["status"] == "completed")
    [diff] = edit["content"]
    assert (diff["oldText"], diff["newText"]) == ("one\ntwo\nthree\n", "one\nzwei\nthree\n")
    asked = scenario.seen("permission")
    assert [option["kind"] for option in asked[0]["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
        *["allow_always"] * 2,
    ]
    assert len(conversation.scenario("permission-always").seen("permission")) == 1
    assert (conversation.folder / "two.txt").exists()


@official_clients
def test_a_rejected_or_cancelled_edit_is_not_made(conversation: Conversation) -> None:
    rejected, cancelled = (
        conversation.scenario("permission-rejected"),
        conversation.scenario("permission-cancelled"),
    )
    assert rejected.stop_reasons == ["end_turn"]
    assert "Permission denied." in text(rejected)
    assert cancelled.stop_reasons == ["cancelled", "end_turn"]
    assert calls(cancelled)[0]["status"] == "failed"
    assert conversation.scenario("config").stop_reasons == ["end_turn"]
    assert conversation.scenario("config").error("set_config")["code"] == -32602
    assert not (conversation.folder / "never.txt").exists()


@official_clients
def test_commands_run_in_the_clients_terminals(conversation: Conversation) -> None:
    scenario = conversation.scenario("command")
    [call] = calls(scenario)
    assert (call["rawOutput"]["exit_code"], call["rawOutput"]["output"].strip()) == (3, "done")
    assert (conversation.folder / "made.txt").exists()
    shown = [item["type"] for update in scenario.updates for item in contents(update)]
    assert "terminal" in shown
    released = scenario.seen("request", method="terminal/release")
    assert len(released) == len(scenario.seen("request", method="terminal/create")) > 0


def contents(update: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a tool call."""
    return update["content"] if isinstance(update.get("content"), list) else []


@official_clients
@pytest.mark.rule("cancel.stop-reason", "cancel.soon")
def test_a_running_command_can_be_cancelled(conversation: Conversation) -> None:
    scenario = conversation.scenario("cancel")
    assert scenario.stop_reasons == ["cancelled", "end_turn"]
    assert [call["status"] for call in calls(scenario)] == ["failed", "completed"]
    assert len(scenario.answers("set_mode")) == 1, "the request was served during the turn"


@official_clients
def test_questions_of_the_model_become_a_form(conversation: Conversation) -> None:
    scenario = conversation.scenario("question")
    [form] = scenario.seen("form")
    assert form["message"] == "which colour?"
    [call] = calls(scenario)
    assert call["rawOutput"] == {"answer": "blue"}


@official_clients
def test_subagents_and_slash_commands_work(conversation: Conversation) -> None:
    [call] = calls(conversation.scenario("delegate"))
    assert (call["kind"], call["status"]) == ("execute", "completed")
    scenario = conversation.scenario("command-line")
    assert scenario.stop_reasons == ["end_turn", "end_turn"]
    assert "/compact" in text(scenario)


@official_clients
@pytest.mark.rule("session.load-answers-last")
def test_sessions_are_listed_loaded_and_resumed(conversation: Conversation) -> None:
    scenario = conversation.scenario("sessions")
    first, loaded, resumed = scenario.stop_reasons
    assert (first, loaded, resumed) == ("end_turn", "end_turn", "end_turn")
    [session] = [answer["sessionId"] for answer in scenario.answers("new")]
    [listed] = scenario.answers("list")
    assert session in [one["sessionId"] for one in listed["sessions"]]
    assert scenario.error("prompt")["code"] == -32002
    assert scenario.error("load")["code"] == -32002
    place = scenario.observations.index(scenario.seen("answer", to="load")[0])
    closed = scenario.observations.index(scenario.seen("answer", to="close")[0])
    replayed = Scenario(scenario.observations[closed:place])
    assert [one["content"]["text"] for one in replayed.updates_of("user_message_chunk")] == [
        "think: remember me then write kept.txt: 1 then plan: rest"
    ]
    written = calls(replayed)[0]
    assert (written["title"], written["status"]) == ("Write kept.txt", "completed")
    assert replayed.updates_of("plan")
    assert replayed.updates_of("agent_thought_chunk")


@official_clients
def test_two_sessions_run_concurrently(conversation: Conversation) -> None:
    scenario = conversation.scenario("together")
    assert scenario.stop_reasons == ["end_turn", "end_turn"]
    one, other = [answer["sessionId"] for answer in scenario.answers("new")]
    assert one != other


@official_clients
@pytest.mark.rule(
    "framing.agent-only-messages",
    "framing.agent-one-line",
    "framing.agent-utf8",
    "framing.agent-jsonrpc-member",
    "framing.agent-no-batch",
)
def test_the_coder_writes_one_message_per_line(conversation: Conversation) -> None:
    check_lines(conversation, "agent")


@official_clients
@pytest.mark.rule(
    "framing.agent-empty-results",
    "prompt.update-members",
    "prompt.chunk-content",
    "tool-call.members",
    "tool-call.kind",
    "tool-call.status",
    "tool-call.content",
    "permission.request-members",
    "permission.option-members",
    "plan.entry-members",
    "option.flat-or-grouped",
    "command.members",
    "session-info.members",
)
def test_messages_of_the_coder_are_valid_by_accords_and_the_official_schemas(
    conversation: Conversation,
) -> None:
    assert conversation.wire.breaches("agent") == []
    assert conversation.wire.unofficial("agent") == []
    assert conversation.wire.unofficial("agent", edition="schema.unstable") == []


@official_clients
@pytest.mark.rule("framing.agent-one-answer", "framing.agent-silent-on-notification")
def test_the_coder_answers_every_request_once_and_exits_with_its_client(conversation: Conversation) -> None:
    assert unanswered(conversation, "agent") == []
    assert conversation.scenario("end").seen("exit")[0]["code"] == 0


@official_clients
def test_official_clients_accept_every_update_of_the_coder(conversation: Conversation) -> None:
    # A client that starts the command of a canceled turn late does not find its launcher any more.
    late = re.compile(r"Unhandled error .*terminal/create .*No such file")
    assert {text for text in conversation.complaints if not late.match(text)} <= KNOWN_COMPLAINTS
    seen = Counter(
        (one["session"], one["update"]["sessionUpdate"])
        for scenario in conversation.scenarios.values()
        for one in scenario.seen("update")
    )
    sent = Counter(
        (call["params"]["sessionId"], call["params"]["update"]["sessionUpdate"])
        for call in conversation.wire.calls("agent", "session/update")
    )
    # The command list of a session may arrive after its last turn, when the client no longer records it.
    for count in (seen, sent):
        for key in [key for key in count if key[1] == "available_commands_update"]:
            del count[key]
    assert seen == sent
