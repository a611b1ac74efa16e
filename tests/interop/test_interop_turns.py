"""Turns between Accord and the official SDKs, both ways, as the client saw them. The controls are official pairs."""

import hashlib
import json
from typing import Any

import pytest
from tests.interop.conversation import NOTES, SCRIPT, Conversation, without_nulls
from tests.interop.pairs import CONTROLS, OUR_AGENT, OUR_CLIENT, OUR_CLIENT_AFAR, OUR_FRONT, talks

everybody = talks(OUR_CLIENT, OUR_CLIENT_AFAR, OUR_FRONT, OUR_AGENT, CONTROLS)


def anonymous(update: dict[str, Any]) -> dict[str, Any]:
    """An update without the id of its message, which agents choose freely or leave out."""
    return {key: value for key, value in update.items() if key != "messageId"}


def piece(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


@everybody
@pytest.mark.rule(139, 142, 143, 233)
def test_a_turn_of_thoughts_a_plan_and_text_arrives_in_order(talk: Conversation) -> None:
    scene = talk.scene("text")
    assert [anonymous(update) for update in scene.updates] == [
        piece("agent_thought_chunk", SCRIPT["thought"]),
        {"sessionUpdate": "plan", "entries": SCRIPT["plan"]},
        *(piece("agent_message_chunk", text) for text in SCRIPT["pieces"]),
        {"sessionUpdate": "usage_update", **SCRIPT["usage"]},
        {"sessionUpdate": "session_info_update", "title": SCRIPT["title"]},
    ]
    assert scene.stop_reasons == ["end_turn"]


@talks(OUR_AGENT)
@pytest.mark.rule(147)
def test_the_pieces_of_a_message_share_an_id_that_other_messages_do_not_have(talk: Conversation) -> None:
    updates = talk.scene("text").updates
    spoken = {one["messageId"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"}
    thought = {one["messageId"] for one in updates if one["sessionUpdate"] == "agent_thought_chunk"}
    assert len(spoken) == len(thought) == 1
    assert spoken != thought


@everybody
@pytest.mark.rule(172, 173, 178, 181, 182, 183)
def test_a_tool_call_goes_from_pending_to_completed_and_shows_its_diff(talk: Conversation) -> None:
    edit = SCRIPT["edit"]
    path = str(talk.folder / edit["file"])
    call = talk.scene("tool").tool_call
    assert call.statuses == ["pending", "in_progress", "completed"]
    assert call.last["title"] == edit["title"]
    assert call.last["kind"] == "edit"
    assert call.last["locations"] == [{"path": path, "line": edit["line"]}]
    assert call.last["content"] == [
        {"type": "diff", "path": path, "oldText": edit["old"], "newText": edit["new"]}
    ]
    assert call.last["rawInput"] == edit["input"]
    assert call.last["rawOutput"] == edit["output"]
    assert talk.scene("tool").stop_reasons == ["end_turn"]


@everybody
@pytest.mark.rule(158, 193, 194, 195, 196, 197)
@pytest.mark.parametrize(
    ("scene_name", "said", "statuses"),
    [
        ("permission-allowed", "allowed", ["pending", "in_progress", "completed"]),
        ("permission-rejected", "rejected", ["pending", "failed"]),
    ],
)
def test_permission_is_asked_and_the_answer_obeyed(
    talk: Conversation, scene_name: str, said: str, statuses: list[str]
) -> None:
    scene = talk.scene(scene_name)
    [question] = scene.seen("permission")
    assert without_nulls(question["options"]) == SCRIPT["danger"]["options"]
    assert question["tool_call"]["toolCallId"] == scene.tool_call.id
    assert scene.tool_call.statuses == statuses
    assert scene.texts == [said]
    assert scene.stop_reasons == ["end_turn"]


@everybody
@pytest.mark.rule(161, 162, 165, 170)
def test_cancelling_while_permission_is_asked_approves_nothing(talk: Conversation) -> None:
    scene = talk.scene("permission-cancelled")
    assert scene.tool_call.statuses == ["pending", "failed"]
    assert scene.stop_reasons == ["cancelled", "end_turn"]
    assert scene.texts == ["still here"]
    [refusal] = [
        answer["result"]
        for answer in talk.wire.answers_of("client", "session/request_permission")
        if answer["result"]["outcome"]["outcome"] != "selected"
    ]
    assert refusal["outcome"] == {"outcome": "cancelled"}


@everybody
@pytest.mark.rule(157, 160, 161, 162, 163, 164, 170)
def test_cancelling_in_mid_turn_ends_it_and_leaves_the_session_usable(talk: Conversation) -> None:
    scene = talk.scene("cancel")
    assert scene.tool_call.statuses == ["in_progress", "failed"]
    assert scene.answers("set_mode") == [{}]  # served while the turn ran
    assert scene.stop_reasons == ["cancelled", "end_turn"]
    assert scene.texts == ["waiting", "code"]
    assert all("id" not in message for message in talk.wire.calls("client", "session/cancel"))


@everybody
@pytest.mark.rule(238, 239, 241, 242, 243)
def test_the_agent_reads_and_writes_files_at_the_client(talk: Conversation) -> None:
    files = SCRIPT["files"]
    scene = talk.scene("files")
    assert scene.said_json == {
        "line": NOTES.splitlines(keepends=True)[1],
        "written": files["text"],
        "missing": -32002,
    }
    assert (talk.folder / files["write"]).read_text("utf-8") == files["text"]
    [read, _, _] = talk.wire.calls("agent", "fs/read_text_file")
    assert read["params"]["path"] == str(talk.folder / files["read"])
    assert (read["params"]["line"], read["params"]["limit"]) == (files["line"], files["limit"])


@everybody
@pytest.mark.rule(248, 249, 250, 251, 252, 254, 258)
def test_the_agent_runs_commands_at_the_client(talk: Conversation) -> None:
    told = talk.scene("terminal").said_json
    killed = told.pop("killed")
    assert told == {
        "exit_code": 3,
        "output": f"{SCRIPT['commands_to_run']['failing']['env']['GREETING']}\n{talk.folder}\n",
        "truncated": False,
        "exit_code_in_output": 3,
        "cut": ["你你你", True],  # ten bytes would end in the middle of a character
        "still_running": True,
        "over": True,
    }
    assert killed[0] or killed[1], "it ended with a code or by a signal, not well"
    assert {call["params"]["cwd"] for call in talk.wire.calls("agent", "terminal/create")} == {
        str(talk.folder)
    }
    assert talk.scene("terminal").stop_reasons == ["end_turn"]


@everybody
@pytest.mark.rule(190, 257)
def test_every_terminal_is_released_and_shown_before_that(talk: Conversation) -> None:
    made = [answer["result"]["terminalId"] for answer in talk.wire.answers_of("client", "terminal/create")]
    released = [call["params"]["terminalId"] for call in talk.wire.calls("agent", "terminal/release")]
    assert len(made) == 3
    assert sorted(made) == sorted(released)
    [shown] = talk.scene("terminal").tool_call.last["content"]
    assert shown == {"type": "terminal", "terminalId": made[0]}
    sent = talk.wire.sent_by("agent")
    [embedding, *_] = [place for place, message in enumerate(sent) if shown in shown_by(message)]
    [release, *_] = [
        place for place, message in enumerate(sent) if message.get("method") == "terminal/release"
    ]
    assert embedding < release


def shown_by(message: dict[str, Any]) -> list[Any]:
    """The content of a tool call's report."""
    content = message.get("params", {}).get("update", {}).get("content", [])
    return content if isinstance(content, list) else []


@everybody
@pytest.mark.rule(271, 274)
def test_a_form_is_filled_in_or_declined(talk: Conversation) -> None:
    scene = talk.scene("form")
    assert [one["message"] for one in scene.seen("form")] == [SCRIPT["form"]["message"]] * 2
    for one in scene.seen("form"):
        assert without_nulls(one["schema"]["properties"]) == SCRIPT["form"]["properties"]
        assert one["schema"]["required"] == SCRIPT["form"]["required"]
    assert scene.said_json == [{"action": "accept", "content": SCRIPT["filled_in"]}, {"action": "decline"}]


@talks(OUR_AGENT)
@pytest.mark.rule(262, 263, 264)
def test_our_agents_forms_belong_to_the_session_and_are_flat(talk: Conversation) -> None:
    session = talk.scene("form").answers("new")[0]["sessionId"]
    for call in talk.wire.calls("agent", "elicitation/create"):
        asked = call["params"]
        assert (asked["mode"], asked["message"]) == ("form", SCRIPT["form"]["message"])
        assert asked["sessionId"] == session
        assert "requestId" not in asked
        assert asked["requestedSchema"]["type"] == "object"
        assert asked["requestedSchema"]["properties"] == SCRIPT["form"]["properties"]


@everybody
@pytest.mark.rule(140, 146)
def test_links_enclosed_files_and_pictures_go_both_ways(talk: Conversation) -> None:
    sent = [SCRIPT["link"], SCRIPT["enclosed"], SCRIPT["picture"]]
    scene = talk.scene("blocks")
    told, *returned = [update["content"] for update in scene.updates_of("agent_message_chunk")]
    assert without_nulls(json.loads(told["text"])) == sent
    assert returned == sent


@everybody
@pytest.mark.rule(3, 4, 5, 6)
def test_no_character_is_lost(talk: Conversation) -> None:
    [_, step] = SCRIPT["scenes"]["unicode"]["steps"]
    assert talk.scene("unicode").texts == [step["text"].removeprefix("echo ")]


@everybody
def test_two_megabytes_in_one_message_go_both_ways(talk: Conversation) -> None:
    [_, step] = SCRIPT["scenes"]["big"]["steps"]
    bulk = SCRIPT["bulk"] * (step["bulk"] // len(SCRIPT["bulk"]))
    whole = {"length": step["bulk"], "sha256": hashlib.sha256(bulk.encode()).hexdigest()}
    told, returned = talk.scene("big").texts
    assert json.loads(told) == whole
    assert returned == whole


@everybody
@pytest.mark.rule(138)
def test_two_sessions_run_at_once_without_mixing(talk: Conversation) -> None:
    scene = talk.scene("together")
    first, second = (answer["sessionId"] for answer in scene.answers("new"))
    said = {
        one["session"]: one["update"]["content"]["text"]
        for one in scene.seen("update")
        if one["update"]["sessionUpdate"] == "agent_message_chunk"
    }
    assert said == {first: "in the first", second: "in the other"}
    assert scene.stop_reasons == ["end_turn", "end_turn"]


@everybody
@pytest.mark.rule(17, 18)
def test_extension_methods_are_served_and_unknown_ones_refused_on_both_sides(talk: Conversation) -> None:
    scene = talk.scene("extensions")
    assert scene.answers("extension") == [{"text": "好你"}]
    assert scene.error("extension")["code"] == -32601
    assert scene.said_json == {"reversed": "cba", "unknown": -32601}


@everybody
@pytest.mark.rule(27)
def test_errors_of_the_agent_reach_the_caller_and_the_session_goes_on(talk: Conversation) -> None:
    scene = talk.scene("errors")
    refused, failed = scene.seen("error", to="prompt")
    told = SCRIPT["refusal"]
    assert (refused["code"], refused["message"], refused["data"]) == (
        told["code"],
        told["message"],
        told["data"],
    )
    assert failed["code"] == -32603
    assert scene.texts == ["still here"]
    assert scene.stop_reasons == ["end_turn"]


@talks(OUR_CLIENT, OUR_AGENT, CONTROLS)
@pytest.mark.rule(37)
def test_an_agent_that_dies_in_mid_turn_fails_the_prompt(talk: Conversation) -> None:
    scene = talk.scene("crash")
    assert scene.texts == ["going down"]
    assert scene.error("prompt")["code"] is None  # nobody answered: it is the connection that failed
    assert not scene.stop_reasons
    [end] = talk.scene("end").seen("exit")
    assert end["code"] == SCRIPT["exit_code"]


@talks(OUR_CLIENT_AFAR)
@pytest.mark.rule(37)
def test_a_server_that_dies_in_mid_turn_fails_the_prompt(talk: Conversation) -> None:
    failure = talk.scene("crash").error("prompt")
    assert failure["type"] == "ConnectionClosed"
    assert "session/prompt was not answered" in failure["message"]
    assert "127.0.0.1" in failure["message"], "it says which server"
    assert not talk.scene("crash").stop_reasons


@talks(OUR_CLIENT)
def test_our_client_says_how_the_agent_died(talk: Conversation) -> None:
    failure = talk.scene("crash").error("prompt")
    assert failure["type"] == "Crashed"
    assert f"exited with code {SCRIPT['exit_code']}" in failure["message"]
    [end] = talk.scene("end").seen("exit")
    assert SCRIPT["last_words"] in failure["message"]
    assert SCRIPT["last_words"] in end["stderr"]


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(155, 156)
def test_our_clients_state_adds_up_to_what_happened(talk: Conversation) -> None:
    [state] = talk.scene("text").seen("state")
    assert state["messages"] == [
        ["user", "text"],
        ["thought", SCRIPT["thought"]],
        ["agent", "".join(SCRIPT["pieces"])],
    ]
    assert state["plan"] == SCRIPT["plan"]
    assert (
        state["commands"] == SCRIPT["commands"]
    )  # told before the answer of session/new, or right behind it
    assert state["usage"]["used"] == SCRIPT["usage"]["used"]
    assert state["title"] == SCRIPT["title"]
    [state] = talk.scene("tool").seen("state")
    assert list(state["tool_calls"].values()) == [[SCRIPT["edit"]["title"], "completed"]]
