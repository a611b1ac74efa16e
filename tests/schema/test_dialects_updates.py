"""Dialects of `session/update`. Each test is one nonstandard update and the official one it stands for."""

import pytest
from tests.schema.repair_checks import all_params_after, params_after, update_after

from accord.schema.codec import read
from accord.schema.content import ToolCall
from accord.schema.dialects import display_kind, official_kind, repair_params
from accord.schema.updates import SessionNotification

HI = {"type": "text", "text": "hi"}


@pytest.mark.dialect(6)
def test_a_flat_update_is_nested():
    flat = {"sessionId": "s", "_meta": {"v": 1}, "sessionUpdate": "agent_message_chunk", "content": HI}
    assert params_after("session/update", flat, 6) == {
        "sessionId": "s",
        "_meta": {"v": 1},
        "update": {"sessionUpdate": "agent_message_chunk", "content": HI},
    }


@pytest.mark.dialect(6, 7, 9)
def test_a_flat_update_tagged_by_type_with_bare_text():
    flat = {"sessionId": "s", "type": "agent_message_chunk", "text": "hi"}
    assert params_after("session/update", flat, 6, 7, 9) == {
        "sessionId": "s",
        "update": {"sessionUpdate": "agent_message_chunk", "content": HI},
    }


@pytest.mark.dialect(6)
def test_a_root_type_that_is_no_update_tag_is_not_nested():
    params = {"sessionId": "s", "type": "text", "text": "hi"}
    assert repair_params("session/update", params) == (params, (), ())


@pytest.mark.dialect(7)
def test_type_instead_of_session_update():
    assert update_after({"type": "plan", "entries": []}, 7) == {"sessionUpdate": "plan", "entries": []}


@pytest.mark.dialect(7)
def test_the_official_tag_wins_over_type():
    update = {"sessionUpdate": "agentMessageChunk", "type": "plan", "content": HI}
    assert update_after(update, 8)["sessionUpdate"] == "agent_message_chunk"


@pytest.mark.dialect(8)
@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("AgentMessageChunk", "agent_message_chunk"),
        ("AgentThoughtChunk", "agent_thought_chunk"),
        ("agentMessageChunk", "agent_message_chunk"),
        ("userMessageChunk", "user_message_chunk"),
        ("userMessage", "user_message_chunk"),
    ],
)
def test_chunk_tags_as_class_names_or_camel_case(sent: str, meant: str):
    assert update_after({"sessionUpdate": sent, "content": HI}, 8) == {"sessionUpdate": meant, "content": HI}


@pytest.mark.dialect(8)
@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("ToolCallStart", "tool_call"),
        ("toolCall", "tool_call"),
        ("ToolCallProgress", "tool_call_update"),
        ("toolCallUpdate", "tool_call_update"),
    ],
)
def test_tool_call_tags_as_class_names_or_camel_case(sent: str, meant: str):
    update = {"sessionUpdate": sent, "toolCallId": "c", "title": "T"}
    assert update_after(update, 8)["sessionUpdate"] == meant


@pytest.mark.dialect(9)
@pytest.mark.parametrize("body", [{"text": "hi"}, {"content": "hi"}])
def test_chunk_text_is_wrapped(body: dict[str, str]):
    update = {"sessionUpdate": "agent_thought_chunk", **body}
    assert update_after(update, 9) == {"sessionUpdate": "agent_thought_chunk", "content": HI}


@pytest.mark.dialect(9)
def test_a_list_of_blocks_becomes_several_chunks_in_order():
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    params = {
        "sessionId": "s",
        "update": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": [HI, link, "bye"]},
    }
    got = all_params_after("session/update", params, 9)
    assert [one["update"]["content"] for one in got] == [HI, link, {"type": "text", "text": "bye"}]
    assert {one["update"]["messageId"] for one in got} == {"m"}
    assert {one["sessionId"] for one in got} == {"s"}


@pytest.mark.dialect(11)
def test_a_tool_call_with_id_and_name():
    update = {"sessionUpdate": "tool_call", "id": "c", "name": "Read", "status": "pending"}
    assert update_after(update, 11) == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "name": "Read",
        "title": "Read",
        "status": "pending",
    }


@pytest.mark.dialect(11)
def test_the_name_in_an_update_does_not_replace_the_title():
    update = {"sessionUpdate": "toolCallUpdate", "toolCallId": "c", "name": "edit"}
    assert "title" not in update_after(update, 8)


@pytest.mark.dialect(12)
def test_tool_name_and_args():
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "toolName": "grep", "args": {"q": 1}}
    got = update_after(update, 12)
    assert (got["title"], got["name"], got["rawInput"]) == ("grep", "grep", {"q": 1})


@pytest.mark.dialect(6, 13)
def test_result_and_error_of_a_tool_call():
    done = {"sessionId": "s", "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
    ok = params_after("session/update", done | {"result": "42"}, 6, 13)["update"]
    assert ok["rawOutput"] == "42"
    assert ok["content"] == [{"type": "content", "content": {"type": "text", "text": "42"}}]
    assert ok["status"] == "completed"
    data = params_after("session/update", done | {"result": {"n": 1}}, 6, 13)["update"]
    assert data["rawOutput"] == {"n": 1}
    assert "content" not in data
    bad = params_after("session/update", done | {"error": "boom"}, 6, 13)["update"]
    assert bad["status"] == "failed"
    assert bad["content"] == [{"type": "content", "content": {"type": "text", "text": "boom"}}]


@pytest.mark.dialect(7, 14)
def test_raw_fields_in_snake_case():
    update = {"type": "tool_call_update", "toolCallId": "c", "raw_input": [1], "raw_output": {"x": 1}}
    got = update_after(update, 7, 14)
    assert (got["rawInput"], got["rawOutput"]) == ([1], {"x": 1})
    aliased = update_after({"type": "tool_call_update", "toolCallId": "c", "input": 1, "output": 2}, 7, 14)
    assert (aliased["rawInput"], aliased["rawOutput"]) == (1, 2)


@pytest.mark.rule("accord.only-official-read-kind")
@pytest.mark.dialect(16)
@pytest.mark.parametrize(
    ("sent", "content", "shown"),
    [
        ("file", [], "read"),
        ("file", [{"type": "diff", "path": "/a", "newText": "x"}], "edit"),
        ("command", [], "execute"),
    ],
)
def test_a_repaired_kind_is_for_display_only(sent: str, content: list[object], shown: str):
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "kind": sent, "content": content}
    params = params_after("session/update", {"sessionId": "s", "update": update}, 16)
    call = read(SessionNotification, params).update
    assert display_kind(call) == shown
    assert official_kind(call) is None
    assert isinstance(call, ToolCall)
    assert not call.kind


@pytest.mark.rule("accord.only-official-read-kind")
@pytest.mark.dialect(73)
def test_a_kind_in_another_case_is_for_display_only():
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "kind": "Read"}
    call = read(
        SessionNotification, params_after("session/update", {"sessionId": "s", "update": update}, 73)
    ).update
    assert display_kind(call) == "read"
    assert official_kind(call) is None


@pytest.mark.rule("accord.only-official-read-kind")
def test_only_an_official_kind_is_official_and_an_unknown_one_is_other():
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T"}
    sent = read(SessionNotification, {"sessionId": "s", "update": update | {"kind": "read"}}).update
    assert (official_kind(sent), display_kind(sent)) == ("read", "read")
    odd = read(SessionNotification, {"sessionId": "s", "update": update | {"kind": "weird"}}).update
    assert (official_kind(odd), display_kind(odd)) == (None, "other")


@pytest.mark.dialect(17)
@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_a_tool_call_may_start_in_either_status(status: str):
    update_after({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "status": status})


@pytest.mark.dialect(10, 69, 71)
def test_an_update_without_newer_members_is_official():
    update_after({"sessionUpdate": "agent_message_chunk", "content": HI})
    update_after({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "rawInput": "text"})


@pytest.mark.dialect(73)
@pytest.mark.parametrize("sent", ["inProgress", "InProgress", "in-progress", "IN_PROGRESS"])
def test_status_and_priority_spelling(sent: str):
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    assert update_after(call | {"status": sent}, 73)["status"] == "in_progress"
    plan = {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "High", "status": sent}]}
    [entry] = update_after(plan, 73)["entries"]
    assert (entry["priority"], entry["status"]) == ("high", "in_progress")


@pytest.mark.dialect(73)
def test_label_as_title_and_kind_as_tag():
    update = {"kind": "toolCall", "toolCallId": "c", "label": "Reading"}
    assert update_after(update, 73, 8) == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "Reading",
    }


@pytest.mark.dialect(109)
@pytest.mark.parametrize("sent", ["cancelled", "canceled"])
def test_a_cancelled_tool_call_has_failed(sent: str):
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": sent}
    assert update_after(update, 109)["status"] == "failed"


@pytest.mark.dialect(74)
def test_plans_identified_by_id():
    update = {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "id": "p", "content": "#"}}
    assert update_after(update, 74)["plan"]["planId"] == "p"
    assert update_after({"sessionUpdate": "plan_removed", "id": "p"}, 74)["planId"] == "p"


@pytest.mark.rule("mode.mode-id-spelling")
@pytest.mark.dialect(101)
def test_the_mode_update_of_the_official_docs():
    update = {"sessionUpdate": "current_mode_update", "modeId": "code"}
    assert update_after(update, 101) == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}


@pytest.mark.dialect(102)
def test_bare_blocks_in_tool_content_are_wrapped():
    diff = {"type": "diff", "path": "/a", "newText": "x"}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [HI, diff]}
    assert update_after(update, 102)["content"] == [{"type": "content", "content": HI}, diff]


@pytest.mark.dialect(47)
def test_config_options_of_an_update():
    option = {"configId": "model", "type": "select", "currentValue": None, "options": [{"value": "m1"}]}
    [got] = update_after({"sessionUpdate": "config_option_update", "configOptions": [option]}, 47)[
        "configOptions"
    ]
    assert got == {
        "id": "model",
        "name": "model",
        "type": "select",
        "currentValue": "",
        "options": [{"value": "m1", "name": "m1"}],
    }


@pytest.mark.dialect(301)
def test_snake_case_keys():
    params = {
        "session_id": "s",
        "update": {"session_update": "agent_message_chunk", "content": HI, "message_id": "m"},
    }
    assert params_after("session/update", params, 301) == {
        "sessionId": "s",
        "update": {"sessionUpdate": "agent_message_chunk", "content": HI, "messageId": "m"},
    }
