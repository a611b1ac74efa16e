"""Plans, compactions, notices, replays: what stands where in the history, and what does not belong there."""

from typing import Any, Union, get_args

import pytest
from tests.session.scene import Scene, text

from accord.schema import PlanMarkdown, TextContent, Unknown
from accord.schema.codec import encode, exact
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


def compaction(scene: Scene, compaction_id: str = "k1") -> CompactionState:
    return scene.state.history.compactions[compaction_id]


def test_entries_stand_in_the_order_of_first_sight() -> None:
    scene = Scene()
    scene.user("Hi", "u")
    scene.says("plan", entries=entries("a"))
    scene.agent("Hello", "m")
    scene.call("t1")
    scene.says("compaction_update", compactionId="k1", status="in_progress")
    scene.says("plan", entries=entries("a", "b"))
    scene.patch("t1", status="completed")
    scene.agent("!", "m")
    assert scene.order == ["Hi", "PlanState", "Hello!", "ToolCallState", "CompactionState"]


@pytest.mark.rule(204)
def test_a_plan_replaces_the_one_before() -> None:
    scene = Scene()
    scene.says("plan", entries=entries("a", "b", "c"))
    scene.says("plan", entries=entries("x", "y"))
    assert [entry.content for entry in scene.state.plan] == ["x", "y"]
    scene.says("plan", entries=[])
    assert scene.state.plan == []
    assert len(scene.state.timeline) == 1


@pytest.mark.rule(286)
def test_plans_are_told_apart_by_id_and_removed_one_by_one() -> None:
    scene = Scene()
    scene.agent("First,")
    scene.says("plan_update", plan={"type": "items", "planId": "p1", "entries": entries("a")})
    scene.says("plan_update", plan={"type": "markdown", "planId": "p2", "content": "# Two"})
    scene.says("plan_update", plan={"type": "items", "planId": "p1", "entries": entries("b")})
    plans = scene.state.history.plans
    assert list(plans) == ["p1", "p2"]
    assert [entry.content for entry in scene.state.plan] == ["b"]
    scene.says("plan_removed", planId="p1")
    scene.says("plan_removed", planId="never was")
    assert list(plans.values()) == [PlanState("p2", PlanMarkdown(plan_id="p2", content="# Two"))]
    assert scene.order == ["First,", "PlanState"]


@pytest.mark.rule(294)
def test_compaction_patches_keep_clear_replace_and_append() -> None:
    scene = Scene()
    scene.says("compaction_update", compactionId="k1", status="in_progress", summary=[text("A")], error="e")
    scene.says("compaction_summary_chunk", compactionId="k1", content=text("B"))
    scene.says("compaction_update", compactionId="k1", status="in_progress")
    assert (compaction(scene).text, compaction(scene).error) == ("AB", "e")
    scene.says("compaction_update", compactionId="k1", status="in_progress", summary=[text("C")], error=None)
    assert (compaction(scene).text, compaction(scene).error) == ("C", None)
    scene.says("compaction_update", compactionId="k1", status="completed", summary=None)
    assert (compaction(scene).blocks, compaction(scene).status) == ((), "completed")
    scene.says("compaction_summary_chunk", compactionId="k1", content=text("D"))
    scene.says("compaction_update", compactionId="k1", status="completed", summary=[])
    assert compaction(scene).blocks == ()


@pytest.mark.rule(317)
def test_a_summary_chunk_begins_a_compaction_and_chunks_append_in_order() -> None:
    scene = Scene()
    scene.says("compaction_summary_chunk", compactionId="k1", content=text("Kept: "))
    scene.says("compaction_summary_chunk", compactionId="k1", content=text("all."))
    assert (compaction(scene).status, compaction(scene).text) == ("in_progress", "Kept: all.")
    scene.says("compaction_update", compactionId="k1", status="completed")
    assert (compaction(scene).status, compaction(scene).text) == ("completed", "Kept: all.")
    assert len(scene.state.timeline) == 1


@pytest.mark.rule(319)
def test_unknown_compaction_statuses_are_kept_and_the_first_may_be_the_last() -> None:
    scene = Scene()
    scene.says("compaction_update", compactionId="k1", status="_x")
    scene.says("compaction_update", compactionId="k2", status="completed")
    assert [one.status for one in scene.state.history.compactions.values()] == ["_x", "completed"]


@pytest.mark.rule(290)
def test_notices_are_at_hand_idle_or_mid_turn_whatever_their_severity() -> None:
    scene = Scene()
    for severity in ("info", "_x", "error"):
        scene.says("notice", severity=severity, title=f"a {severity} one")
    scene.prompts()
    scene.says("notice", severity="warning", title="mid-turn", description="MCP server down")
    assert [notice.severity for notice in scene.state.notices] == ["info", "_x", "error", "warning"]
    assert scene.state.turn == "running"


@pytest.mark.rule(315, 316)
def test_notices_are_no_part_of_the_history_and_bounded() -> None:
    scene = Scene()
    scene.agent("Hi")
    before = scene.state.snapshot()
    for count in range(1000):
        scene.says("notice", severity="info", title=str(count))
    scene.agent("!")
    assert scene.order == ["Hi!"]
    assert len(scene.state.notices) == 100
    assert scene.state.notices[-1].title == "999"
    assert len(scene.state.snapshot()) == len(before)


@pytest.mark.rule(108)
def test_a_replayed_history_appears_once() -> None:
    scene = Scene()

    def conversation() -> None:
        scene.user("Hi")
        scene.agent("Hello")
        scene.call("t1", status="in_progress")
        scene.agent("Done")

    conversation()
    scene.state.apply(ReplayStarted())
    conversation()
    scene.state.apply(ReplayEnded())
    scene.agent("live")
    assert scene.order == ["Hi", "Hello", "ToolCallState", "Done", "live"]
    assert scene.the_call("t1").ended_without_result


@pytest.mark.dialect(60)
def test_a_load_without_replay_keeps_the_own_transcript() -> None:
    scene = Scene()
    scene.agent("Kept")
    scene.state.apply(ReplayStarted())
    scene.says("session_info_update", title="T")
    scene.state.apply(ReplayEnded())
    assert scene.order == ["Kept"]


def test_what_a_turn_brought_can_be_told_from_what_was_there() -> None:
    scene = Scene()
    scene.says("plan_update", plan={"type": "markdown", "planId": "p", "content": "x"})
    scene.agent("before")
    scene.prompts("go")
    scene.agent("now")
    scene.says("plan_removed", planId="p")
    assert scene.state.history.latest_turn == scene.state.messages[1:]


def test_a_snapshot_holds_what_a_transcript_needs() -> None:
    scene = Scene()
    scene.prompts("Fix it")
    scene.thought("hm")
    scene.agent("On it.")
    scene.call("t1", "Edit", kind="edit", status="in_progress", rawInput={"a": None})
    scene.cancels()
    scene.answers("cancelled")
    scene.says("plan", entries=entries("a"))
    scene.says("session_info_update", title="Bug")
    scene.says("usage_update", used=1, size=2)
    again = replayed(scene.state.snapshot())
    assert again.timeline == scene.state.timeline
    assert again.messages[0].blocks == (TextContent(text="Fix it"),)
    assert again.tool_calls["t1"].cancelled
    assert (again.title, again.usage, again.cwd) == ("Bug", scene.state.usage, "/home/me/app")
    assert again.snapshot() == scene.state.snapshot()


def test_events_survive_being_written_down() -> None:
    scene = Scene()
    scene.says("plan_update", plan={"type": "markdown", "planId": "p", "content": "x"})
    asked = scene.asks("1", toolCallId="t1", title="Run", rawInput=[1])
    removed = scene.says("plan_removed", planId="p")
    scene.agent("On it.")
    scene.says("subagent_update", sessionId="c", state={"state": "idle"})
    events = [
        TurnStarted(),
        asked,
        PermissionAnswered("1"),
        removed,
        *scene.state.snapshot(),
        TurnCancelling(),
    ]
    readable = Union[tuple(kind for kind in get_args(Event) if kind is not Unknown)]
    assert [exact(readable, encode(event)) for event in events] == events


def replayed(events: list[Event]) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state
