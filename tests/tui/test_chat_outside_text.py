"""Text of agents, files and users is drawn as it is: never parsed as markup, never raw on the terminal."""

import ast
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.repetitions import ALL
from tests.tui.chat import Chat, running_chat
from tests.tui.test_chat_transcript import strips_of

from accord.safe_text import clean_line, one_line
from accord.tui.chat_types import Attachment
from accord.tui.list_screen import ConfirmScreen, ListScreen
from accord.tui.question_dialogs import (
    AddressDialog,
    FormDialog,
    PermissionDialog,
    QuestionDialog,
    SignInDialog,
)
from accord.tui.sessions_screen import SessionsScreen

AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "label_agent.py"))
TUI = Path(__file__).parents[2] / "src" / "accord" / "tui"

HOSTILE = {
    "closing tag": "[/api/users]",
    "unfinished tag": "[bold",
    "click": "[@click=app.exit]press me[/]",
    "nested": "[[red]]][/[/]",
    "escape sequences": "a\x1b[31mb\x1b]0;owned\x07c\x9b2Jd\x1bPe\x1b\\f",
    "control characters": "a\x00b\x08c\x0bd\x0ce\x7ff\x85g\rh",
    "direction": "a\u202eb\u2066c\u200fd\u2028e\u200bf",
    "lines": "first\nsecond\r\nthird\n\n",
    "wide": "日本語🎉👩‍👩‍👧‍👦é\u0301",
    "lone surrogate": "a\ud800b",
    "huge": "[x] " * (20_000 if ALL else 2_000),
    "blank": " ",
}
GROUPS = {
    "markup and control": (
        *("closing tag", "click", "nested"),
        *("escape sequences", "control characters", "lines", "direction", "wide", "lone surrogate"),
        "unfinished tag",
    ),
    "huge": ("huge",),
    "blank": ("blank",),
}
"""Texts that are shown together unless all repetitions run."""
TEXTS = HOSTILE if ALL else {name: " ".join(HOSTILE[one] for one in GROUPS[name]) for name in GROUPS}
EVERY_TEXT = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
RAW = "\x1b\x07\x08\x9b\x00\x7f\x85\u202e\u2066\u200f\u2028\u2029"


def chat_with(folder: Path, text: str, **more: Any) -> Any:
    env = {"LABEL_TEXT": json.dumps(text), **more.pop("env", {})}
    return running_chat(folder, AGENT, env=env, name=one_line(text) or "agent", **more)


async def look(chat: Chat) -> None:
    """Draw the screen and check that nothing raw is on it."""
    await chat.pilot.pause()
    drawn = strips_of(chat)
    assert not [char for char in RAW if char in drawn]
    assert chat.app.is_running


async def leave(chat: Chat) -> None:
    while len(chat.app.screen_stack) > 1:
        await chat.pilot.press("escape")


@EVERY_TEXT
async def test_the_transcript_panels_and_prompt_show_any_text(tmp_path: Path, text: str) -> None:
    """Messages, thoughts, tool calls, plan, notice, title, usage, commands, hints, queue, attachments."""
    (tmp_path / "file [bold").touch()
    with suppress(OSError, ValueError):  # not every text can be a file name
        (tmp_path / f"file {text}").touch()
    async with chat_with(tmp_path, text, size=(130, 40)) as chat:
        await chat.wait_ready()
        await chat.send(f"show {text}")
        await chat.wait_for_text("done ·")
        await look(chat)
        chat.view.prompt.editor.write("/")
        await chat.wait_until(lambda: chat.view.prompt.popup.open)
        await look(chat)
        chat.view.prompt.editor.write("/go ")
        await chat.wait_until(lambda: chat.view.prompt.query_one("#frame").border_subtitle is not None)
        await look(chat)
        chat.view.prompt.editor.write("@file")
        await chat.wait_until(lambda: chat.view.prompt.popup.open)
        await look(chat)
        chat.view.prompt.clear()
        chat.view.prompt.attach(Attachment(text, "/nowhere"))
        chat.view.prompt.set_hint(text)
        chat.app.notify(text)
        chat.view.note(text, "bad", text)
        await look(chat)
        chat.view.prompt.clear()
        await chat.send("fail")
        await chat.wait_for_text("✗")
        await look(chat)
        await chat.send("ask")
        await chat.send(text)
        await chat.wait_until(lambda: len(chat.view.queue) > 0 or not text.strip())
        await look(chat)


@EVERY_TEXT
async def test_questions_show_any_text_and_can_be_answered(tmp_path: Path, text: str) -> None:
    questions: dict[str, type] = {"ask": PermissionDialog, "form": FormDialog, "url": AddressDialog}
    if text.strip():  # a question without text is not asked
        questions["question"] = QuestionDialog
    async with chat_with(tmp_path, text, size=(100, 60), env={"LABEL_SIGN_IN": "1"}) as chat:
        assert isinstance(await chat.wait_for_dialog(), SignInDialog)
        await look(chat)
        await chat.pilot.press("1")
        await chat.wait_ready()
        for number, (question, kind) in enumerate(questions.items(), 1):
            await chat.send(question)
            dialog = await chat.wait_for_dialog()
            assert isinstance(dialog, kind)
            await look(chat)
            if isinstance(dialog, FormDialog):
                await dialog._send()
                await look(chat)
                dialog.set_answer(None)
            elif isinstance(dialog, QuestionDialog):
                dialog.input.value = "2"
                await chat.pilot.press("enter")
            else:
                await chat.pilot.press("1")
            await chat.wait_until(lambda number=number: chat.view.turns == number)
        assert "cannot be shown" not in chat.text


async def test_the_agent_name_is_shown_literally_in_a_question(tmp_path: Path) -> None:
    async with chat_with(tmp_path, "Agent [/beta]") as chat:
        await chat.wait_ready()
        await chat.send("ask")
        await chat.wait_for_dialog()
        assert "Agent [/beta] asks" in chat.screen


@EVERY_TEXT
async def test_every_list_and_page_shows_any_text(tmp_path: Path, text: str) -> None:
    """Sessions, models, modes, options, agents, copy, export, wire, settings, help, palette, delete."""
    async with chat_with(tmp_path, text, size=(120, 40)) as chat:
        await chat.wait_ready()
        await chat.send("show")
        await chat.wait_for_text("done ·")
        for key in ("f1", "f3", "f4", "f5", "f8", "f9", "f12", "ctrl+n", "ctrl+s", "ctrl+p"):
            await chat.pilot.press(key)
            await look(chat)
            screen = chat.app.screen
            if isinstance(screen, ListScreen):
                screen.show_message(text, bad=True)
                await chat.pilot.press("down")
                await look(chat)
            elif key == "f12":
                await chat.pilot.press("up", "enter")
                await look(chat)
            await leave(chat)
        chat.app.push_screen(ConfirmScreen(text, text, text))
        await look(chat)
        await leave(chat)
        await chat.pilot.press("f2")
        screen = chat.app.screen
        assert isinstance(screen, SessionsScreen)
        await chat.wait_until(lambda: screen._catalog.queried_agents)
        await look(chat)
        await chat.pilot.press("down", "delete")
        await look(chat)
        await leave(chat)


async def test_a_question_that_cannot_be_drawn_is_reported_and_gets_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user sees an error, the agent gets `cancelled` at once, and the chat goes on."""
    from accord.tui.parts.diff_part import RevealedTextPart

    def fail(*_: object) -> Any:
        raise ValueError("no way to draw this")

    async with chat_with(tmp_path, "text") as chat:
        await chat.wait_ready()
        with monkeypatch.context() as broken:
            broken.setattr(RevealedTextPart, "draw", fail)
            await chat.send("ask")
            await chat.wait_for_text("cannot be shown", "ValueError: no way to draw this", "answered ")
        await chat.send("ask")
        await chat.wait_for_dialog()


def test_no_widget_gets_text_that_is_parsed_as_markup() -> None:
    """Border texts come from `label`; widgets that parse markup by default are told not to."""
    found: list[str] = []
    for path in sorted(TUI.rglob("*.py")):
        file = path.relative_to(TUI)
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{file}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = {target.attr for target in targets if isinstance(target, ast.Attribute)}
                if names & {"border_title", "border_subtitle"} and not _calls(node.value, "label"):
                    found.append(f"{place}: a border text that is not a label()")
                if "tooltip" in names:
                    found.append(f"{place}: a tooltip is parsed as markup")
            elif isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                if name in ("Static", "Label", "OptionList") and "markup" not in keywords:
                    found.append(f"{place}: {name} without markup=False")
                if name in ("from_markup", "print_markup"):
                    found.append(f"{place}: parses markup")
                if name == "Button" and not isinstance(node.args[0], ast.Constant):
                    found.append(f"{place}: the text of a Button is parsed as markup")
    assert found == []


def _calls(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def test_the_hostile_texts_contain_what_they_are_named_for() -> None:
    joined = "".join(HOSTILE.values())
    assert sorted(HOSTILE) == sorted(name for group in GROUPS.values() for name in group)
    assert all(char in joined for char in "\x1b\x07\x00\u202e\u2028[]")
    assert clean_line(HOSTILE["escape sequences"]) == "abcdf"
    assert os.sep in HOSTILE["closing tag"]
