"""Tool calls: updates, defaults, early and late reports, and calls without a result."""

from typing import Any

import pytest
from tests.session.session_driver import SessionDriver, text

from accord.schema import Content, TextContent
from accord.session import ToolCallChanged, text_of


def content(words: str) -> dict[str, Any]:
    return {"type": "content", "content": text(words)}


@pytest.mark.rule("tool-call.default-kind-and-status")
def test_omitted_kind_and_status_mean_other_and_pending() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Look")
    call = driver.call_state("t1")
    assert (call.title, call.kind, call.status) == ("Look", "other", "pending")
    assert (call.content, call.locations, call.open) == ([], [], True)


@pytest.mark.rule("tool-call.omitted-members-stay")
def test_omitted_and_null_members_of_an_update_keep_their_values() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Look", kind="read", rawInput={"path": "a"}, content=[content("x")])
    nulls = dict.fromkeys(("title", "kind", "content", "locations", "rawInput", "rawOutput", "name"))
    driver.tool_call_update("t1", status="in_progress")
    driver.tool_call_update("t1", status=None, **nulls)
    call = driver.call_state("t1")
    assert (call.title, call.kind, call.status, call.raw_input) == (
        "Look",
        "read",
        "in_progress",
        {"path": "a"},
    )
    assert text_of(call.content) == "x"


@pytest.mark.rule("tool-call.arrays-replace")
def test_arrays_in_an_update_replace_the_old_ones() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", content=[content("old")], locations=[{"path": "/a"}])
    driver.tool_call_update(
        "t1", content=[content("new"), content("er")], locations=[{"path": "/b"}, {"path": "/c"}]
    )
    call = driver.call_state("t1")
    assert text_of(call.content) == "newer"
    assert [location.path for location in call.locations] == ["/b", "/c"]
    driver.tool_call_update("t1", content=[])
    assert call.content == []


@pytest.mark.rule("tool-call.unknown-kind")
def test_unknown_kind_and_status_fall_back_to_the_previous_values() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", kind="file", status="weird")
    call = driver.call_state("t1")
    assert (call.kind, call.status) == ("other", "pending")
    driver.tool_call_update("t1", kind="edit", status="in_progress")
    driver.tool_call_update("t1", kind="zzz", status="weird", title="Still here")
    assert (call.title, call.kind, call.status) == ("Still here", "edit", "in_progress")


@pytest.mark.rule("tool-call.invalid-content-item")
def test_one_bad_content_item_does_not_hide_the_others() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", content=[content("a"), {"type": "hologram"}, 5, {"type": "content"}, content("b")])
    assert text_of(driver.call_state("t1").content) == "ab"


@pytest.mark.rule("tool-call.unknown-id")
def test_an_update_for_an_unknown_id_creates_the_call() -> None:
    driver = SessionDriver()
    event = driver.tool_call_update("t9", status="in_progress", content=[content("x")])
    call = driver.call_state("t9")
    assert isinstance(event, ToolCallChanged)
    assert (event.new, event.call) == (True, call)
    assert (call.title, call.label, call.kind, call.status) == ("", "t9", "other", "in_progress")
    assert driver.state.timeline == [call]


def test_a_late_announcement_adds_members_without_undoing_updates() -> None:
    driver = SessionDriver()
    driver.tool_call_update("t1", status="in_progress", content=[content("half")])
    driver.tool_call(
        "t1", "Run tests", kind="execute", status="pending", content=[], rawInput={"cmd": "make"}
    )
    call = driver.call_state("t1")
    assert (call.title, call.kind, call.status) == ("Run tests", "execute", "in_progress")
    assert text_of(call.content) == "half"
    assert call.raw_input == {"cmd": "make"}


def test_an_announcement_does_not_reopen_a_finished_call() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Run", kind="execute")
    driver.tool_call_update("t1", status="completed", title="Run (ok)", content=[content("result")])
    for again in ({}, {"status": "pending"}, {"status": "in_progress", "content": [content("other")]}):
        event = driver.tool_call("t1", "Run again", **again)
        assert isinstance(event, ToolCallChanged)
        assert not event.new
    call = driver.call_state("t1")
    assert (call.title, call.status, text_of(call.content)) == ("Run (ok)", "completed", "result")


def test_repeated_announcements_are_applied_as_progress() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Run", status="in_progress", content=[content("1")])
    driver.tool_call("t1", "Run", status="in_progress", content=[content("2")])
    assert text_of(driver.call_state("t1").content) == "2"
    driver.tool_call("t1", "Ran", status="completed", content=[content("3")], rawOutput=0)
    call = driver.call_state("t1")
    assert (call.title, call.status, text_of(call.content), call.raw_output) == ("Ran", "completed", "3", 0)


def test_an_update_of_a_finished_call_is_applied_without_reopening_it() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", status="failed")
    driver.tool_call_update("t1", status="in_progress", title="Late")
    assert (driver.call_state("t1").status, driver.call_state("t1").title) == ("failed", "Late")
    driver.tool_call_update("t1", status="completed")
    assert driver.call_state("t1").status == "completed"


@pytest.mark.rule("tool-call.name-kept")
def test_a_null_or_omitted_name_keeps_the_name() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Reading a.py", name="read_file")
    driver.tool_call_update("t1", name=None, status="in_progress")
    driver.tool_call_update("t1", status="completed")
    assert driver.call_state("t1").name == "read_file"
    driver.tool_call_update("t1", name="read_many")
    assert driver.call_state("t1").name == "read_many"


@pytest.mark.rule("tool-call.name-optional")
def test_the_title_is_the_label_with_or_without_a_name() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Reading a.py", name="read_file")
    driver.tool_call("t2", "Reading b.py", name=None)
    driver.tool_call("t3", "Reading c.py")
    assert [call.label for call in driver.state.tool_calls.values()] == [
        "Reading a.py",
        "Reading b.py",
        "Reading c.py",
    ]


def test_calls_still_open_when_the_turn_ends_have_ended_without_result() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1", status="in_progress")
    driver.tool_call("t2", status="completed")
    driver.end_turn()
    open_call, done = driver.call_state("t1"), driver.call_state("t2")
    assert (open_call.ended_without_result, open_call.open, open_call.status) == (True, False, "in_progress")
    assert (done.ended_without_result, done.finished) == (False, True)


def test_a_late_result_clears_the_ended_without_result_mark() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1")
    driver.end_turn()
    driver.tool_call_update("t1", status="failed", content=[content("late")])
    call = driver.call_state("t1")
    assert (call.mark, call.status, text_of(call.content)) == ("", "failed", "late")


@pytest.mark.rule("cancel.open-tool-calls-marked")
def test_cancelling_marks_open_calls_cancelled() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1", status="in_progress")
    driver.tool_call("t2", status="completed")
    driver.cancel_turn()
    assert [call.cancelled for call in driver.state.tool_calls.values()] == [True, False]
    assert driver.state.turn == "cancelling"
    driver.tool_call("t3")
    driver.end_turn("cancelled")
    assert driver.call_state("t3").cancelled
    assert not driver.call_state("t3").ended_without_result


@pytest.mark.rule("cancel.late-updates-applied")
def test_updates_after_the_cancel_are_still_applied() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1", status="in_progress")
    driver.tool_call("t2", status="in_progress")
    driver.cancel_turn()
    driver.tool_call_update("t1", status="completed", content=[content("made it")])
    driver.tool_call_update("t2", status="failed")
    made_it, stopped = driver.call_state("t1"), driver.call_state("t2")
    assert (made_it.status, made_it.cancelled, text_of(made_it.content)) == ("completed", False, "made it")
    assert (stopped.status, stopped.cancelled) == ("failed", True)


def test_each_event_carries_the_call_as_of_that_event() -> None:
    driver = SessionDriver()
    events = [
        driver.tool_call("t1", "Run"),
        driver.tool_call_update("t1", status="in_progress", content=[content("a")]),
        driver.tool_call_update("t1", status="completed", content=[content("b")]),
    ]
    seen = [
        (event.new, event.call.status, text_of(event))
        for event in events
        if isinstance(event, ToolCallChanged)
    ]
    assert seen == [(True, "pending", ""), (False, "in_progress", "a"), (False, "completed", "b")]


def test_embedded_terminals_map_to_their_tool_call() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", content=[content("x"), {"type": "terminal", "terminalId": "term-1"}])
    driver.tool_call_update("t2", content=[{"type": "terminal", "terminalId": "never made"}])
    assert driver.state.history.terminals == {"term-1": "t1", "never made": "t2"}


def test_meta_is_merged_key_by_key() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", _meta={"a": 1, "b": 2})
    driver.tool_call_update("t1", _meta={"b": 3, "c": {"d": 4}})
    driver.tool_call_update("t1", _meta=None)
    driver.tool_call_update("t1", _meta={"a": None})
    assert driver.call_state("t1").meta == {"b": 3, "c": {"d": 4}}


def test_reported_content_equals_content_built_from_schema_types() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Look", kind="read", content=[content("x")])
    assert driver.call_state("t1").content == [Content(content=TextContent(text="x"))]
