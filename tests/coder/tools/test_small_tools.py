"""Plans, questions, sub-agents and leaving plan mode: the tools that hand on to the session."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.coder.tools.scene import Desk, text_in

from accord.coder.tools import built_in_tools
from accord.coder.tools.context import Delegation, Question
from accord.coder.tools.tool import Progress, Report, ToolOutcome, said
from accord.schema.plans import PlanEntry


async def test_a_plan_is_shown_whole(project: Path) -> None:
    shown: list[Sequence[PlanEntry]] = []

    async def show(entries: Sequence[PlanEntry]) -> None:
        shown.append(entries)

    desk = Desk(project, set_plan=show)
    entries = [{"content": "a", "status": "completed"}, {"content": "b", "priority": "high"}]
    call = await desk.prepare("plan", {"entries": entries})
    assert (call.title, call.category) == ("Plan: 1 of 2 steps completed", "read-only")
    outcome = await desk.run(call)
    assert outcome.text == "The plan is shown: 1 of 2 steps completed."
    assert shown == [[PlanEntry("a", "medium", "completed"), PlanEntry("b", "high", "pending")]]


async def test_the_user_is_asked(project: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> str | None:
        asked.append(question)
        return "red"

    desk = Desk(project, ask_user=ask)
    call = await desk.prepare("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
    assert call.title == "Ask: Which colour?"
    assert (await desk.run(call)).text == "red"
    assert asked == [Question("Which colour?", ("red", "blue"))]


async def test_a_user_who_cannot_be_asked(project: Path, desk: Desk) -> None:
    async def nobody(question: Question) -> str | None:
        return None

    for somebody in (desk, Desk(project, ask_user=nobody)):
        outcome = await somebody.done("ask_user", question="?")
        assert outcome.text == "(user unavailable)"
        assert outcome.raw_output == {"answer": None}


async def test_a_task_is_handed_to_a_sub_agent_which_shows_its_progress(project: Path) -> None:
    async def delegate(task: Delegation, report: Report) -> ToolOutcome:
        assert task == Delegation("Count files", "How many files are there?")
        await report(Progress(title="Count files (counting)"))
        return said("42")

    desk = Desk(project, delegate=delegate)
    call = await desk.prepare("agent", {"prompt": "How many files are there?", "description": "Count files"})
    assert (call.title, call.category) == ("Delegate: Count files", "execute")
    assert (await desk.run(call)).text == "42"
    assert desk.shown == [Progress(title="Count files (counting)")]


async def test_leaving_plan_mode_shows_the_plan_in_the_question(project: Path) -> None:
    agreed: list[str] = []

    async def leave(plan: str) -> str:
        agreed.append(plan)
        return "ask"

    desk = Desk(project, leave_plan_mode=leave)
    call = await desk.prepare("leave_plan_mode", {"plan": "1. do it"})
    assert text_in(await call.preview()) == "1. do it"
    assert agreed == []
    assert (await desk.run(call)).text == "The user agreed. The mode is ask now: begin with the plan."
    assert agreed == ["1. do it"]


async def test_what_is_not_there_is_said(desk: Desk) -> None:
    assert "no sub-agents" in await desk.refused("agent", prompt="x")
    assert "cannot be shown" in await desk.refused("plan", entries=["a"])
    assert "not in plan mode" in await desk.refused("leave_plan_mode", plan="x")


async def test_a_defect_in_a_tool_is_an_outcome_not_the_end_of_the_turn(project: Path) -> None:
    async def broken(question: Question) -> str | None:
        raise ZeroDivisionError

    text = await Desk(project, ask_user=broken).refused("ask_user", question="?")
    assert text == "ask_user failed by a defect of its own (ZeroDivisionError)."


def test_the_page_tells_the_tools_as_they_are() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "tools.md").read_text()
    for name, tool in built_in_tools().items():
        row = re.search(rf"^\| `{name}` \| (.*?) \| (\w+) \| ([\w-]+) \|$", page, re.MULTILINE)
        assert row, name
        needed, _, others = row[1].partition("[")
        required = set(tool.schema.get("required", ()))
        assert set(re.findall(r"`(\w+)`", needed)) == required
        assert set(re.findall(r"`(\w+)`", others)) == tool.schema["properties"].keys() - required
        assert (row[2], row[3]) == (tool.kind, tool.category)


def test_kinds_and_categories_are_those_of_the_reference() -> None:
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
        "agent": ("execute", "execute"),
        "plan": ("think", "read-only"),
        "leave_plan_mode": ("switch_mode", "write"),
        "ask_user": ("other", "read-only"),
    }
