"""Slash commands of the chat, the footer, and the tools of the prompt."""

import sys
from pathlib import Path

import pytest
from tests.tui.chat import running_chat

from accord.tui.key_footer import hint_lines, key_name
from accord.tui.review_screen import ReviewScreen

LINES = [f"line {number}\n" for number in range(1, 30)]


async def test_own_commands_stand_beside_those_of_the_agent(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        assert "/ commands  @ files  ! shell  ? keys" in chat.screen
        await chat.send("commands")
        await chat.wait_until(lambda: chat.view.prompt._commands())
        await chat.wait_ready()
        await chat.type("/rev")
        labels = [one.label for one in chat.view.prompt.popup.completions]
        assert labels[:2] == ["/review", "//review"]
        chat.view.prompt.clear()
        await chat.send("//review the parser")  # two slashes: the command of the agent
        await chat.wait_for_text("heard /review the parser")
        await chat.wait_ready()
        await chat.send("/theme nord")
        await chat.wait_until(lambda: chat.app.theme == "nord")
        await chat.send("/help")
        await chat.wait_until(lambda: "commands of the chat and of the agent" in chat.screen)
        await chat.pilot.press("escape")
        await chat.send("/undo")
        await chat.wait_until(lambda: chat.view.prompt.editor.text == "/review the parser")
        chat.view.prompt.clear()
        await chat.send("wait")
        await chat.wait_for_text("waiting")
        await chat.send("/undo")
        await chat.wait_until(lambda: any("Cannot go back" in text for text in chat.notifications))


async def test_the_footer_says_what_enter_does_during_a_turn(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.type("wait")
        await chat.wait_until(lambda: "Enter send  Ctrl+J new line" in chat.screen)
        await chat.pilot.press("enter")
        await chat.wait_for_text("waiting")
        await chat.wait_until(lambda: "Esc stop  Enter queue  Alt+Enter queue" in chat.screen)
        await chat.type("later")
        await chat.pilot.press("alt+enter")
        await chat.wait_until(lambda: len(chat.view.queue) == 1)


def test_the_footer_drops_whole_keys_and_names_them_as_people_do() -> None:
    keys = [("Esc", "stop"), ("Enter", "send"), ("c", "copy")]
    assert hint_lines(keys, 19) == [keys[:1], keys[1:]]
    assert hint_lines(keys, 20) == [keys[:2], keys[2:]]
    assert hint_lines(keys, 5) == [[key] for key in keys]
    names = {
        "ctrl+pageup": "Ctrl+PgUp",
        "alt+e": "Alt+E",
        "f2": "F2",
        "escape": "Esc",
        "alt+enter,x": "Alt+Enter",
    }
    assert {key: key_name(key) for key in names} == names


async def test_the_prompt_is_put_aside_searched_and_edited_in_an_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor.py"
    lines = "import sys", "with open(sys.argv[1], 'a') as file:", "    file.write(' edited')"
    editor.write_text("\n".join(lines))
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor}")
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        for text in ("port the tests", "fix the parser"):
            await chat.send(text)
            await chat.wait_for_text(f"heard {text}")
            await chat.wait_ready()
        await chat.type("draft")
        await chat.pilot.press("alt+s")
        assert chat.view.prompt.editor.text == ""
        await chat.pilot.press("alt+s")
        assert chat.view.prompt.editor.text == "draft"
        chat.view.prompt.clear()
        await chat.pilot.press("ctrl+r")
        await chat.wait_until(lambda: "Earlier prompts" in chat.screen)
        await chat.type("tests")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.view.prompt.editor.text == "port the tests")
        monkeypatch.setattr(
            chat.view, "run_without_screen", lambda run: run()
        )  # a test has no screen to hide
        await chat.pilot.press("alt+e")
        assert chat.view.prompt.editor.text == "port the tests edited"


async def test_changes_are_reviewed_reverted_and_commented(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("def a():\n    return 1\n" + "".join(LINES))
    async with running_chat(tmp_path, size=(100, 40)) as chat:
        await chat.wait_ready()
        await chat.send(f"change {file}")
        await chat.wait_for_text("Change it")
        await chat.wait_ready()
        await chat.send("/review")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ReviewScreen) and "app.py" in chat.screen)
        assert "Changes of the last turn: 1 file, +2 −2" in chat.screen
        assert "− line 20" in chat.screen
        await chat.pilot.press("n", "n", "x")
        await chat.wait_until(lambda: "Reverted" in chat.screen)
        assert "line 20\n" in file.read_text()
        assert "return 2" in file.read_text()
        await chat.pilot.press("u")
        await chat.wait_until(lambda: "line twenty" in file.read_text())
        await chat.wait_until(lambda: "The change is back" in chat.screen)
        await chat.pilot.press("1")
        await chat.wait_until(lambda: "+2 −2" in chat.screen)
        await chat.pilot.press("n", "down", "c")
        await chat.wait_until(lambda: "Comment on app.py, line 2" in chat.screen)
        await chat.type("why?")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "▎ why?" in chat.screen and "s send 1 comment" in chat.screen)
        await chat.pilot.press("s")
        await chat.wait_for_text("heard Please address these comments", "app.py, line 2:", "why?")
