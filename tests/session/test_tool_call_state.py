"""Tool calls: patches, defaults, late and early reports, and the calls nobody finished."""

from typing import Any

import pytest
from tests.session.scene import Scene, text

from accord.schema import Content, TextContent
from accord.session import ToolCallChanged, text_of


def content(words: str) -> dict[str, Any]:
    return {"type": "content", "content": text(words)}


@pytest.mark.rule(184)
def test_kind_and_status_left_out_mean_other_and_pending() -> None:
    scene = Scene()
    scene.call("t1", "Look")
    call = scene.the_call("t1")
    assert (call.title, call.kind, call.status) == ("Look", "other", "pending")
    assert (call.content, call.locations, call.open) == ([], [], True)


@pytest.mark.rule(185)
def test_what_an_update_leaves_out_or_nulls_stays() -> None:
    scene = Scene()
    scene.call("t1", "Look", kind="read", rawInput={"path": "a"}, content=[content("x")])
    nulls = dict.fromkeys(("title", "kind", "content", "locations", "rawInput", "rawOutput", "name"))
    scene.patch("t1", status="in_progress")
    scene.patch("t1", status=None, **nulls)
    call = scene.the_call("t1")
    assert (call.title, call.kind, call.status, call.raw_input) == (
        "Look",
        "read",
        "in_progress",
        {"path": "a"},
    )
    assert text_of(call.content) == "x"


@pytest.mark.rule(186)
def test_arrays_in_an_update_replace() -> None:
    scene = Scene()
    scene.call("t1", content=[content("old")], locations=[{"path": "/a"}])
    scene.patch("t1", content=[content("new"), content("er")], locations=[{"path": "/b"}, {"path": "/c"}])
    call = scene.the_call("t1")
    assert text_of(call.content) == "newer"
    assert [location.path for location in call.locations] == ["/b", "/c"]
    scene.patch("t1", content=[])
    assert call.content == []


@pytest.mark.rule(187)
def test_unknown_kind_and_status_fall_back() -> None:
    scene = Scene()
    scene.call("t1", kind="file", status="weird")
    call = scene.the_call("t1")
    assert (call.kind, call.status) == ("other", "pending")
    scene.patch("t1", kind="edit", status="in_progress")
    scene.patch("t1", kind="zzz", status="weird", title="Still here")
    assert (call.title, call.kind, call.status) == ("Still here", "edit", "in_progress")


@pytest.mark.rule(188)
def test_one_bad_content_item_does_not_hide_the_others() -> None:
    scene = Scene()
    scene.call("t1", content=[content("a"), {"type": "hologram"}, 5, {"type": "content"}, content("b")])
    assert text_of(scene.the_call("t1").content) == "ab"


@pytest.mark.rule(189)
def test_an_update_for_an_unknown_id_creates_the_call() -> None:
    scene = Scene()
    event = scene.patch("t9", status="in_progress", content=[content("x")])
    call = scene.the_call("t9")
    assert isinstance(event, ToolCallChanged)
    assert (event.new, event.call) == (True, call)
    assert (call.title, call.label, call.kind, call.status) == ("", "t9", "other", "in_progress")
    assert scene.state.timeline == [call]


def test_a_late_announcement_fills_in_and_takes_nothing_back() -> None:
    scene = Scene()
    scene.patch("t1", status="in_progress", content=[content("half")])
    scene.call("t1", "Run tests", kind="execute", status="pending", content=[], rawInput={"cmd": "make"})
    call = scene.the_call("t1")
    assert (call.title, call.kind, call.status) == ("Run tests", "execute", "in_progress")
    assert text_of(call.content) == "half"
    assert call.raw_input == {"cmd": "make"}


def test_an_announcement_does_not_reopen_a_finished_call() -> None:
    scene = Scene()
    scene.call("t1", "Run", kind="execute")
    scene.patch("t1", status="completed", title="Run (ok)", content=[content("result")])
    for again in ({}, {"status": "pending"}, {"status": "in_progress", "content": [content("other")]}):
        event = scene.call("t1", "Run again", **again)
        assert isinstance(event, ToolCallChanged)
        assert not event.new
    call = scene.the_call("t1")
    assert (call.title, call.status, text_of(call.content)) == ("Run (ok)", "completed", "result")


def test_an_agent_that_reports_progress_by_announcing_again_is_followed() -> None:
    scene = Scene()
    scene.call("t1", "Run", status="in_progress", content=[content("1")])
    scene.call("t1", "Run", status="in_progress", content=[content("2")])
    assert text_of(scene.the_call("t1").content) == "2"
    scene.call("t1", "Ran", status="completed", content=[content("3")], rawOutput=0)
    call = scene.the_call("t1")
    assert (call.title, call.status, text_of(call.content), call.raw_output) == ("Ran", "completed", "3", 0)


def test_a_patch_does_not_reopen_a_finished_call_but_is_applied() -> None:
    scene = Scene()
    scene.call("t1", status="failed")
    scene.patch("t1", status="in_progress", title="Late")
    assert (scene.the_call("t1").status, scene.the_call("t1").title) == ("failed", "Late")
    scene.patch("t1", status="completed")
    assert scene.the_call("t1").status == "completed"


@pytest.mark.rule(311)
def test_a_null_or_missing_name_keeps_the_name() -> None:
    scene = Scene()
    scene.call("t1", "Reading a.py", name="read_file")
    scene.patch("t1", name=None, status="in_progress")
    scene.patch("t1", status="completed")
    assert scene.the_call("t1").name == "read_file"
    scene.patch("t1", name="read_many")
    assert scene.the_call("t1").name == "read_many"


@pytest.mark.rule(322)
def test_the_title_is_the_label_with_or_without_a_name() -> None:
    scene = Scene()
    scene.call("t1", "Reading a.py", name="read_file")
    scene.call("t2", "Reading b.py", name=None)
    scene.call("t3", "Reading c.py")
    assert [call.label for call in scene.state.tool_calls.values()] == [
        "Reading a.py",
        "Reading b.py",
        "Reading c.py",
    ]


def test_calls_left_open_when_the_turn_ends_have_ended_without_a_result() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1", status="in_progress")
    scene.call("t2", status="completed")
    scene.answers()
    open_call, done = scene.the_call("t1"), scene.the_call("t2")
    assert (open_call.ended_without_result, open_call.open, open_call.status) == (True, False, "in_progress")
    assert (done.ended_without_result, done.finished) == (False, True)


def test_a_late_result_takes_the_mark_away() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1")
    scene.answers()
    scene.patch("t1", status="failed", content=[content("late")])
    call = scene.the_call("t1")
    assert (call.mark, call.status, text_of(call.content)) == ("", "failed", "late")


@pytest.mark.rule(166)
def test_cancelling_marks_open_calls_cancelled() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1", status="in_progress")
    scene.call("t2", status="completed")
    scene.cancels()
    assert [call.cancelled for call in scene.state.tool_calls.values()] == [True, False]
    assert scene.state.turn == "cancelling"
    scene.call("t3")
    scene.answers("cancelled")
    assert scene.the_call("t3").cancelled
    assert not scene.the_call("t3").ended_without_result


@pytest.mark.rule(167)
def test_updates_after_the_cancel_are_still_applied() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1", status="in_progress")
    scene.call("t2", status="in_progress")
    scene.cancels()
    scene.patch("t1", status="completed", content=[content("made it")])
    scene.patch("t2", status="failed")
    made_it, stopped = scene.the_call("t1"), scene.the_call("t2")
    assert (made_it.status, made_it.cancelled, text_of(made_it.content)) == ("completed", False, "made it")
    assert (stopped.status, stopped.cancelled) == ("failed", True)


def test_each_change_carries_the_call_as_it_stood_then() -> None:
    scene = Scene()
    events = [
        scene.call("t1", "Run"),
        scene.patch("t1", status="in_progress", content=[content("a")]),
        scene.patch("t1", status="completed", content=[content("b")]),
    ]
    seen = [
        (event.new, event.call.status, text_of(event))
        for event in events
        if isinstance(event, ToolCallChanged)
    ]
    assert seen == [(True, "pending", ""), (False, "in_progress", "a"), (False, "completed", "b")]


def test_embedded_terminals_are_known_by_id() -> None:
    scene = Scene()
    scene.call("t1", content=[content("x"), {"type": "terminal", "terminalId": "term-1"}])
    scene.patch("t2", content=[{"type": "terminal", "terminalId": "never made"}])
    assert scene.state.history.terminals == {"term-1": "t1", "never made": "t2"}


def test_meta_is_merged_key_by_key() -> None:
    scene = Scene()
    scene.call("t1", _meta={"a": 1, "b": 2})
    scene.patch("t1", _meta={"b": 3, "c": {"d": 4}})
    scene.patch("t1", _meta=None)
    scene.patch("t1", _meta={"a": None})
    assert scene.the_call("t1").meta == {"b": 3, "c": {"d": 4}}


def test_a_call_made_of_builtin_parts_equals_the_reported_one() -> None:
    scene = Scene()
    scene.call("t1", "Look", kind="read", content=[content("x")])
    assert scene.the_call("t1").content == [Content(content=TextContent(text="x"))]
