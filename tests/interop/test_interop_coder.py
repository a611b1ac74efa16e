"""Whole turns of the coding agent, driven by the official clients: text, tools, permissions, cancels, sessions."""

from collections import Counter
from typing import Any

import pytest
from tests.interop.conversation import Conversation, Scene
from tests.interop.pairs import OUR_CODER, talks
from tests.interop.test_interop_wire import KNOWN_COMPLAINTS, check_lines, unanswered

official_clients = talks(OUR_CODER)


def calls(scene: Scene) -> list[dict[str, Any]]:
    """The tool calls of a scene as they were at last."""
    found: dict[str, dict[str, Any]] = {}
    for update in scene.updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            found.setdefault(update["toolCallId"], {}).update(update)
    return list(found.values())


def text(scene: Scene) -> str:
    return "".join(scene.texts)


@official_clients
def test_a_turn_of_text_thought_and_plan(talk: Conversation) -> None:
    scene = talk.scene("text")
    assert scene.stop_reasons == ["end_turn"]
    thoughts = scene.updates_of("agent_thought_chunk")
    assert "".join(one["content"]["text"] for one in thoughts) == "first I look around"
    [plan] = scene.updates_of("plan")
    assert [entry["content"] for entry in plan["entries"]] == ["look", "tell"]
    assert text(scene).startswith("plan: look; tell")
    assert scene.updates_of("session_info_update")
    assert scene.updates_of("usage_update")
    [answer] = scene.answers("prompt")
    assert answer["usage"]["totalTokens"] > 0
    assert "no AI" in text(talk.scene("unset"))


@official_clients
def test_tools_run_on_the_clients_files(talk: Conversation) -> None:
    scene = talk.scene("tool")
    read, listed, found = calls(scene)
    assert [call["status"] for call in (read, listed, found)] == ["completed"] * 3
    assert [call["kind"] for call in (read, listed, found)] == ["read", "read", "search"]
    assert read["rawOutput"]["text"] == "one\ntwo\nthree"
    [request] = scene.seen("request", method="fs/read_text_file")
    assert request["path"] == read["locations"][0]["path"]


@official_clients
def test_what_the_user_allows_is_done_and_shown_as_a_diff(talk: Conversation) -> None:
    scene = talk.scene("permission-allowed")
    assert (talk.folder / "notes.txt").read_text() == "one\nzwei\nthree\n"
    assert (talk.folder / "new.txt").read_text().strip() == "made"
    edit = next(call for call in calls(scene) if call["kind"] == "edit" and call["status"] == "completed")
    [diff] = edit["content"]
    assert (diff["oldText"], diff["newText"]) == ("one\ntwo\nthree\n", "one\nzwei\nthree\n")
    asked = scene.seen("permission")
    assert [option["kind"] for option in asked[0]["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]
    assert len(talk.scene("permission-always").seen("permission")) == 1
    assert (talk.folder / "two.txt").exists()


@official_clients
def test_what_the_user_does_not_allow_is_not_done(talk: Conversation) -> None:
    rejected, cancelled = talk.scene("permission-rejected"), talk.scene("permission-cancelled")
    assert rejected.stop_reasons == ["end_turn"]
    assert "Permission denied." in text(rejected)
    assert cancelled.stop_reasons == ["cancelled", "end_turn"]
    assert calls(cancelled)[0]["status"] == "failed"
    assert talk.scene("config").stop_reasons == ["end_turn"]
    assert talk.scene("config").error("set_config")["code"] == -32602
    assert not (talk.folder / "never.txt").exists()


@official_clients
def test_commands_run_in_the_clients_terminals(talk: Conversation) -> None:
    scene = talk.scene("command")
    [call] = calls(scene)
    assert (call["rawOutput"]["exit_code"], call["rawOutput"]["output"].strip()) == (3, "done")
    assert (talk.folder / "made.txt").exists()
    shown = [item["type"] for update in scene.updates for item in contents(update)]
    assert "terminal" in shown
    released = scene.seen("request", method="terminal/release")
    assert len(released) == len(scene.seen("request", method="terminal/create")) > 0


def contents(update: dict[str, Any]) -> list[dict[str, Any]]:
    """What a tool call shows."""
    return update["content"] if isinstance(update.get("content"), list) else []


@official_clients
@pytest.mark.rule(161, 163)
def test_a_cancel_in_the_middle_of_a_command(talk: Conversation) -> None:
    scene = talk.scene("cancel")
    assert scene.stop_reasons == ["cancelled", "end_turn"]
    assert [call["status"] for call in calls(scene)] == ["failed", "completed"]
    assert len(scene.answers("set_mode")) == 1, "served while the turn ran"


@official_clients
def test_questions_of_the_model_reach_the_user_as_a_form(talk: Conversation) -> None:
    scene = talk.scene("question")
    [form] = scene.seen("form")
    assert form["message"] == "which colour?"
    [call] = calls(scene)
    assert call["rawOutput"] == {"answer": "blue"}


@official_clients
def test_sub_agents_and_slash_commands(talk: Conversation) -> None:
    [call] = calls(talk.scene("delegate"))
    assert (call["kind"], call["status"]) == ("execute", "completed")
    scene = talk.scene("command-line")
    assert scene.stop_reasons == ["end_turn", "end_turn"]
    assert "/compact" in text(scene)


@official_clients
@pytest.mark.rule(105)
def test_sessions_are_listed_loaded_and_resumed(talk: Conversation) -> None:
    scene = talk.scene("sessions")
    first, loaded, resumed = scene.stop_reasons
    assert (first, loaded, resumed) == ("end_turn", "end_turn", "end_turn")
    [session] = [answer["sessionId"] for answer in scene.answers("new")]
    [listed] = scene.answers("list")
    assert session in [one["sessionId"] for one in listed["sessions"]]
    assert scene.error("prompt")["code"] == -32002
    assert scene.error("load")["code"] == -32002
    place = scene.observations.index(scene.seen("answer", to="load")[0])
    closed = scene.observations.index(scene.seen("answer", to="close")[0])
    replayed = Scene(scene.observations[closed:place])
    assert [one["content"]["text"] for one in replayed.updates_of("user_message_chunk")] == [
        "think: remember me then write kept.txt: 1 then plan: rest"
    ]
    written = calls(replayed)[0]
    assert (written["title"], written["status"]) == ("Write kept.txt", "completed")
    assert replayed.updates_of("plan")
    assert replayed.updates_of("agent_thought_chunk")


@official_clients
def test_two_sessions_at_the_same_time(talk: Conversation) -> None:
    scene = talk.scene("together")
    assert scene.stop_reasons == ["end_turn", "end_turn"]
    one, other = [answer["sessionId"] for answer in scene.answers("new")]
    assert one != other


@official_clients
@pytest.mark.rule(1, 3, 5, 7, 29)
def test_the_coder_writes_one_message_a_line_and_nothing_else(talk: Conversation) -> None:
    check_lines(talk, "agent")


@official_clients
@pytest.mark.rule(34, 145, 146, 173, 175, 176, 177, 193, 194, 205, 214, 227, 232)
def test_what_the_coder_sends_is_valid_by_the_strict_walk_and_the_official_schemas(
    talk: Conversation,
) -> None:
    assert talk.wire.breaches("agent") == []
    assert talk.wire.unofficial("agent") == []
    assert talk.wire.unofficial("agent", edition="schema.unstable") == []


@official_clients
@pytest.mark.rule(11, 13)
def test_the_coder_answers_every_request_once_and_leaves_when_its_client_does(talk: Conversation) -> None:
    assert unanswered(talk, "agent") == []
    assert talk.scene("end").seen("exit")[0]["code"] == 0


@official_clients
def test_official_clients_take_every_update_of_the_coder_without_complaint(talk: Conversation) -> None:
    assert set(talk.complaints) <= KNOWN_COMPLAINTS
    seen = Counter(
        (one["session"], one["update"]["sessionUpdate"])
        for scene in talk.scenes.values()
        for one in scene.seen("update")
    )
    sent = Counter(
        (call["params"]["sessionId"], call["params"]["update"]["sessionUpdate"])
        for call in talk.wire.calls("agent", "session/update")
    )
    # The commands of a session are told when they are known, which may be after its last turn; who looks then sees them.
    for count in (seen, sent):
        for key in [key for key in count if key[1] == "available_commands_update"]:
            del count[key]
    assert seen == sent
