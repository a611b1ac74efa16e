"""Taking something along: a message or a block of code by the clipboard and the file beside it, the session as Markdown."""

from pathlib import Path

import pytest
from tests.tui.chat import Chat, chatting

from accord.tui.copying import MOST, copied_file
from accord.tui.lists.line import LineScreen
from accord.tui.lists.screen import ListScreen

ANSWER = "say Two ways:\n\n```python\nprint(1)\n\nprint(2)\n```\n\nor\n\n```sh\nmake\n```\n"


async def answered(chat: Chat, prompt: str) -> None:
    await chat.ready()
    await chat.say(prompt)
    await chat.until(lambda: chat.view.turns == 1)


async def test_an_answer_without_code_is_copied_at_once_and_is_in_the_file(
    tmp_path: Path, home: Path
) -> None:
    async with chatting(tmp_path) as chat:
        await answered(chat, "say Just words")
        await chat.pilot.press("f8")
        assert chat.app.clipboard == "Just words"
        assert copied_file() == home / "data" / "chat" / "copied.txt"
        assert copied_file().read_text() == "Just words"
        assert copied_file().stat().st_mode & 0o077 == 0
        await chat.until(lambda: chat.told == [f"Copied 10 characters; also in {copied_file()}"])


async def test_of_an_answer_with_code_one_chooses(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await answered(chat, ANSWER)
        await chat.pilot.press("f8")
        await chat.until(lambda: isinstance(chat.app.screen, ListScreen))
        await chat.until(lambda: "Code 1 (python)" in chat.screen)
        assert "Code 2 (sh)" in chat.screen
        assert "3 lines" in chat.screen
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: chat.app.clipboard.strip() == "print(1)\n\nprint(2)")
        await chat.pilot.press("f8")
        await chat.until(lambda: isinstance(chat.app.screen, ListScreen))
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.app.clipboard == ANSWER.removeprefix("say "))


async def test_the_marked_message_is_the_one_that_is_copied(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await answered(chat, "say Just words")
        await chat.pilot.press("f6", "k", "k", "k")
        assert chat.view.transcript.marked is not None
        await chat.pilot.press("f8")
        assert chat.app.clipboard == "say Just words"


async def test_nothing_to_copy_and_nothing_to_export_are_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["/no/such/agent"]) as chat:
        await chat.until(lambda: chat.phase == "failed")
        await chat.pilot.press("f8", "ctrl+s")
        await chat.until(lambda: chat.told == ["Nothing to copy yet", "There is no session yet"])


async def test_what_is_too_long_for_a_terminal_is_in_the_file_alone(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        chat.app.copy_to_clipboard("x" * (MOST + 1))
        assert chat.app.clipboard == ""
        assert len(copied_file().read_text()) == MOST + 1
        await chat.until(lambda: "too many for the clipboard" in "".join(chat.told))


async def test_a_file_that_cannot_be_written_does_not_keep_anybody_from_copying(
    tmp_path: Path, home: Path
) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        (home / "data" / "chat").parent.mkdir(exist_ok=True)
        (home / "data" / "chat").write_text("in the way")
        chat.app.copy_to_clipboard("hello")
        assert chat.app.clipboard == "hello"
        await chat.until(lambda: "cannot be written" in "".join(chat.told))


async def test_the_session_is_exported_to_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await answered(chat, "title Fix: the/parser")
        await chat.say("say Some **bold** words")
        await chat.until(lambda: chat.view.turns == 2)
        await chat.pilot.press("ctrl+s")
        await chat.until(lambda: isinstance(chat.app.screen, LineScreen))
        screen = chat.app.screen
        assert isinstance(screen, LineScreen)
        assert screen.line.value == str(tmp_path / "fix-the-parser.md")
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.app.screen_stack) == 1)
        text = (tmp_path / "fix-the-parser.md").read_text()
        assert text.startswith("# Fix: the/parser\n")
        assert "Some **bold** words" in text
        await chat.pilot.press("ctrl+s")
        await chat.until(lambda: isinstance(chat.app.screen, LineScreen))
        again = chat.app.screen
        assert isinstance(again, LineScreen)
        assert again.line.value == str(tmp_path / "fix-the-parser-2.md")
        again.line.value = str(tmp_path / "fix-the-parser.md")
        await chat.pilot.press("enter")
        await chat.until(lambda: "is there already" in str(again.told.render()))
        again.line.value = str(tmp_path / "nowhere" / "x.md")
        await chat.pilot.press("enter")
        await chat.until(lambda: "cannot be written" in str(again.told.render()))
        await chat.pilot.press("escape")
        await chat.until(lambda: len(chat.app.screen_stack) == 1)


@pytest.mark.parametrize("title", ["../../etc", "....", "\x1b]0;x\x07"])
async def test_a_title_cannot_lead_the_export_out_of_the_folder(tmp_path: Path, title: str) -> None:
    async with chatting(tmp_path) as chat:
        await answered(chat, f"title {title}")
        await chat.pilot.press("ctrl+s")
        await chat.until(lambda: isinstance(chat.app.screen, LineScreen))
        screen = chat.app.screen
        assert isinstance(screen, LineScreen)
        assert Path(screen.line.value).parent == tmp_path
        assert "\x1b" not in screen.line.value
