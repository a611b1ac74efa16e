"""Plans, compactions, notices and replays: their place in the timeline, and what stays out of it."""

from typing import Any, Union, get_args

import pytest
from tests.session.session_driver import SessionDriver, text

from accord.schema import PlanMarkdown, TextContent, Unknown
from accord.schema.codec import decode_strict, encode
from accord.session import (
    CompactionState,
    Event,
    PermissionAnswered,
    PlanState,
    ReplayEnded,
    ReplayStarted,
    SessionState,
    TurnCancelling,
    TurnStarted,
)


def entries(*contents: str) -> list[dict[str, Any]]:
    return [{"content": content, "priority": "high", "status": "pending"} for content in contents]


def compaction(driver: SessionDriver, compaction_id: str = "k1") -> CompactionState:
    return driver.state.history.compactions[compaction_id]


def test_timeline_items_are_ordered_by_first_appearance() -> None:
    driver = SessionDriver()
    driver.user_text("Hi", "u")
    driver.update("plan", entries=entries("a"))
    driver.agent_text("Hello", "m")
    driver.tool_call("t1")
    driver.update("compaction_update", compactionId="k1", status="in_progress")
    driver.update("plan", entries=entries("a", "b"))
    driver.tool_call_update("t1", status="completed")
    driver.agent_text("!", "m")
    assert driver.timeline_summary == ["Hi", "PlanState", "Hello!", "ToolCallState", "CompactionState"]


@pytest.mark.rule("plan.replaced")
def test_a_plan_replaces_the_previous_plan() -> None:
    driver = SessionDriver()
    driver.update("plan", entries=entries("a", "b", "c"))
    driver.update("plan", entries=entries("x", "y"))
    assert [entry.content for entry in driver.state.plan] == ["x", "y"]
    driver.update("plan", entries=[])
    assert driver.state.plan == []
    assert len(driver.state.timeline) == 1


@pytest.mark.rule("plan.by-id")
def test_plans_are_updated_and_removed_by_id() -> None:
    driver = SessionDriver()
    driver.agent_text("First,")
    driver.update("plan_update", plan={"type": "items", "planId": "p1", "entries": entries("a")})
    driver.update("plan_update", plan={"type": "markdown", "planId": "p2", "content": "# Two"})
    driver.update("plan_update", plan={"type": "items", "planId": "p1", "entries": entries("b")})
    plans = driver.state.history.plans
    assert list(plans) == ["p1", "p2"]
    assert [entry.content for entry in driver.state.plan] == ["b"]
    driver.update("plan_removed", planId="p1")
    driver.update("plan_removed", planId="never was")
    assert list(plans.values()) == [PlanState("p2", PlanMarkdown(plan_id="p2", content="# Two"))]
    assert driver.timeline_summary == ["First,", "PlanState"]


@pytest.mark.rule("compaction.patch")
def test_compaction_updates_keep_clear_replace_and_append() -> None:
    driver = SessionDriver()
    driver.update(
        "compaction_update", compactionId="k1", status="in_progress", summary=[text("A")], error="e"
    )
    driver.update("compaction_summary_chunk", compactionId="k1", content=text("B"))
    driver.update("compaction_update", compactionId="k1", status="in_progress")
    assert (compaction(driver).text, compaction(driver).error) == ("AB", "e")
    driver.update(
        "compaction_update", compactionId="k1", status="in_progress", summary=[text("C")], error=None
    )
    assert (compaction(driver).text, compaction(driver).error) == ("C", None)
    driver.update("compaction_update", compactionId="k1", status="completed", summary=None)
    assert (compaction(driver).blocks, compaction(driver).status) == ((), "completed")
    driver.update("compaction_summary_chunk", compactionId="k1", content=text("D"))
    driver.update("compaction_update", compactionId="k1", status="completed", summary=[])
    assert compaction(driver).blocks == ()


@pytest.mark.rule("compaction.chunk-creates")
def test_a_summary_chunk_starts_a_compaction_and_chunks_append_in_order() -> None:
    driver = SessionDriver()
    driver.update("compaction_summary_chunk", compactionId="k1", content=text("Kept: "))
    driver.update("compaction_summary_chunk", compactionId="k1", content=text("all."))
    assert (compaction(driver).status, compaction(driver).text) == ("in_progress", "Kept: all.")
    driver.update("compaction_update", compactionId="k1", status="completed")
    assert (compaction(driver).status, compaction(driver).text) == ("completed", "Kept: all.")
    assert len(driver.state.timeline) == 1


@pytest.mark.rule("compaction.unknown-status")
def test_unknown_and_final_statuses_are_accepted_in_the_first_compaction_update() -> None:
    driver = SessionDriver()
    driver.update("compaction_update", compactionId="k1", status="_x")
    driver.update("compaction_update", compactionId="k2", status="completed")
    assert [one.status for one in driver.state.history.compactions.values()] == ["_x", "completed"]


@pytest.mark.rule("notice.unknown-severity")
def test_notices_of_any_severity_are_kept_idle_or_during_a_turn() -> None:
    driver = SessionDriver()
    for severity in ("info", "_x", "error"):
        driver.update("notice", severity=severity, title=f"a {severity} one")
    driver.start_turn()
    driver.update("notice", severity="warning", title="mid-turn", description="MCP server down")
    assert [notice.severity for notice in driver.state.notices] == ["info", "_x", "error", "warning"]
    assert driver.state.turn == "running"


@pytest.mark.rule("notice.not-stored", "notice.unadvertised")
def test_notices_are_bounded_and_not_part_of_the_history() -> None:
    driver = SessionDriver()
    driver.agent_text("Hi")
    before = driver.state.snapshot()
    for count in range(1000):
        driver.update("notice", severity="info", title=str(count))
    driver.agent_text("!")
    assert driver.timeline_summary == ["Hi!"]
    assert len(driver.state.notices) == 100
    assert driver.state.notices[-1].title == "999"
    assert len(driver.state.snapshot()) == len(before)


@pytest.mark.rule("session.load-shown-as-history")
def test_a_replay_replaces_the_history() -> None:
    driver = SessionDriver()

    def conversation() -> None:
        driver.user_text("Hi")
        driver.agent_text("Hello")
        driver.tool_call("t1", status="in_progress")
        driver.agent_text("Done")

    conversation()
    driver.state.apply(ReplayStarted())
    conversation()
    driver.state.apply(ReplayEnded())
    driver.agent_text("live")
    assert driver.timeline_summary == ["Hi", "Hello", "ToolCallState", "Done", "live"]
    assert driver.call_state("t1").ended_without_result


@pytest.mark.dialect(60)
def test_a_load_without_replay_keeps_the_local_transcript() -> None:
    driver = SessionDriver()
    driver.agent_text("Kept")
    driver.state.apply(ReplayStarted())
    driver.update("session_info_update", title="T")
    driver.state.apply(ReplayEnded())
    assert driver.timeline_summary == ["Kept"]


def test_latest_turn_holds_only_the_items_of_that_turn() -> None:
    driver = SessionDriver()
    driver.update("plan_update", plan={"type": "markdown", "planId": "p", "content": "x"})
    driver.agent_text("before")
    driver.start_turn("go")
    driver.agent_text("now")
    driver.update("plan_removed", planId="p")
    assert driver.state.history.latest_turn == driver.state.messages[1:]


def test_a_snapshot_restores_timeline_title_usage_and_cwd() -> None:
    driver = SessionDriver()
    driver.start_turn("Fix it")
    driver.thought_text("hm")
    driver.agent_text("On it.")
    driver.tool_call("t1", "Edit", kind="edit", status="in_progress", rawInput={"a": None})
    driver.cancel_turn()
    driver.end_turn("cancelled")
    driver.update("plan", entries=entries("a"))
    driver.update("session_info_update", title="Bug")
    driver.update("usage_update", used=1, size=2)
    again = replayed(driver.state.snapshot())
    assert again.timeline == driver.state.timeline
    assert again.messages[0].blocks == (TextContent(text="Fix it"),)
    assert again.tool_calls["t1"].cancelled
    assert (again.title, again.usage, again.cwd) == ("Bug", driver.state.usage, "/home/me/app")
    assert again.snapshot() == driver.state.snapshot()


def test_events_survive_encoding_and_decoding() -> None:
    driver = SessionDriver()
    driver.update("plan_update", plan={"type": "markdown", "planId": "p", "content": "x"})
    asked = driver.ask_permission("1", toolCallId="t1", title="Run", rawInput=[1])
    removed = driver.update("plan_removed", planId="p")
    driver.agent_text("On it.")
    driver.update("subagent_update", sessionId="c", state={"state": "idle"})
    events = [
        TurnStarted(),
        asked,
        PermissionAnswered("1"),
        removed,
        *driver.state.snapshot(),
        TurnCancelling(),
    ]
    readable = Union[tuple(kind for kind in get_args(Event) if kind is not Unknown)]
    assert [decode_strict(readable, encode(event)) for event in events] == events


def replayed(events: list[Event]) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state
