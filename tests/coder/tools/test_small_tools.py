"""Plans, questions, sub-agents and leaving plan mode: tools that act through the session."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.coder.tools.harness import ToolHarness, text_in

from accord.coder.tools import built_in_tools
from accord.coder.tools.tool import Report, ToolOutcome, ToolProgress, text_outcome
from accord.coder.tools.tool_context import Delegation, UserQuestion
from accord.schema.updates import PlanEntry


async def test_plan_is_passed_on_completely(project: Path) -> None:
    shown: list[Sequence[PlanEntry]] = []

    async def show(entries: Sequence[PlanEntry]) -> None:
        shown.append(entries)

    harness = ToolHarness(project, set_plan=show)
    entries = [{"content": "a", "status": "completed"}, {"content": "b", "priority": "high"}]
    call = await harness.prepare("plan", {"entries": entries})
    assert (call.title, call.category) == ("Plan: 1 of 2 steps completed", "read-only")
    outcome = await harness.run(call)
    assert outcome.text == "The plan is shown: 1 of 2 steps completed."
    assert shown == [[PlanEntry("a", "medium", "completed"), PlanEntry("b", "high", "pending")]]


async def test_question_is_passed_on(project: Path) -> None:
    asked: list[UserQuestion] = []

    async def ask(question: UserQuestion) -> str | None:
        asked.append(question)
        return "red"

    harness = ToolHarness(project, ask_user=ask)
    call = await harness.prepare("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
    assert call.title == "Ask: Which colour?"
    assert (await harness.run(call)).text == "red"
    assert asked == [UserQuestion("Which colour?", ("red", "blue"))]


async def test_unavailable_user(project: Path, harness: ToolHarness) -> None:
    async def no_answer(question: UserQuestion) -> str | None:
        return None

    for user_tools in (harness, ToolHarness(project, ask_user=no_answer)):
        outcome = await user_tools.done("ask_user", question="?")
        assert outcome.text == "(user unavailable)"
        assert outcome.raw_output == {"answer": None}


async def test_subagent_reports_progress_and_returns_its_outcome(project: Path) -> None:
    async def delegate(task: Delegation, report: Report) -> ToolOutcome:
        assert task == Delegation("Count files", "How many files are there?")
        await report(ToolProgress(title="Count files (counting)"))
        return text_outcome("42")

    harness = ToolHarness(project, delegate=delegate)
    call = await harness.prepare(
        "agent", {"prompt": "How many files are there?", "description": "Count files"}
    )
    assert (call.title, call.category) == ("Delegate: Count files", "execute")
    assert (await harness.run(call)).text == "42"
    assert harness.shown == [ToolProgress(title="Count files (counting)")]


async def test_leaving_plan_mode_previews_the_plan(project: Path) -> None:
    agreed: list[str] = []

    async def leave(plan: str) -> str:
        agreed.append(plan)
        return "ask"

    harness = ToolHarness(project, leave_plan_mode=leave)
    call = await harness.prepare("leave_plan_mode", {"plan": "1. do it"})
    assert text_in(await call.preview()) == "1. do it"
    assert agreed == []
    assert (await harness.run(call)).text == "The user agreed. The mode is ask now: begin with the plan."
    assert agreed == ["1. do it"]


async def test_missing_session_features_are_reported(harness: ToolHarness) -> None:
    assert "no sub-agents" in await harness.refused("agent", prompt="x")
    assert "cannot be shown" in await harness.refused("plan", entries=["a"])
    assert "not in plan mode" in await harness.refused("leave_plan_mode", plan="x")


async def test_exception_in_a_tool_is_a_failed_outcome(project: Path) -> None:
    async def broken(question: UserQuestion) -> str | None:
        raise ZeroDivisionError

    text = await ToolHarness(project, ask_user=broken).refused("ask_user", question="?")
    assert text == "ask_user failed because of an internal error (ZeroDivisionError)."


def test_documented_tools_match_the_code() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "tools.md").read_text()
    for name, tool in built_in_tools().items():
        row = re.search(rf"^\| `{name}` \| (.*?) \| (\w+) \| ([\w-]+) \|$", page, re.MULTILINE)
        assert row, name
        needed, _, others = row[1].partition("[")
        required = set(tool.schema.get("required", ()))
        assert set(re.findall(r"`(\w+)`", needed)) == required
        assert set(re.findall(r"`(\w+)`", others)) == tool.schema["properties"].keys() - required
        assert (row[2], row[3]) == (tool.kind, tool.category)


def test_tool_kinds_and_categories() -> None:
    assert {name: (tool.kind, tool.category) for name, tool in built_in_tools().items()} == {
        "read_file": ("read", "read-only"),
        "list_files": ("read", "read-only"),
        "glob": ("search", "read-only"),
        "grep": ("search", "read-only"),
        "write_file": ("edit", "write"),
        "edit_file": ("edit", "write"),
        "delete_file": ("delete", "write"),
        "move_file": ("move", "write"),
        "bash": ("execute", "execute"),
        "job": ("execute", "read-only"),
        "web_fetch": ("fetch", "read-only"),
        "web_search": ("search", "read-only"),
        "agent": ("execute", "execute"),
        "skill": ("read", "read-only"),
        "plan": ("think", "read-only"),
        "leave_plan_mode": ("switch_mode", "write"),
        "ask_user": ("other", "read-only"),
    }
