"""Copying a message or a code block to the clipboard and a file, and exporting the session as Markdown."""

from pathlib import Path

import pytest
from tests.tui.chat import Chat, running_chat

from accord.tui.export import MAX_CLIPBOARD, copied_file
from accord.tui.list_screen import ListScreen, TextInputScreen

ANSWER = "say Two ways:\n\n```python\nprint(1)\n\nprint(2)\n```\n\nor\n\n```sh\nmake\n```\n"


async def send_and_wait(chat: Chat, prompt: str) -> None:
    await chat.wait_ready()
    await chat.send(prompt)
    await chat.wait_until(lambda: chat.view.turns == 1)


async def test_an_answer_without_code_is_copied_to_clipboard_and_file(tmp_path: Path, home: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await send_and_wait(chat, "say Just words")
        await chat.pilot.press("f8")
        assert chat.app.clipboard == "Just words"
        assert copied_file() == home / "data" / "chat" / "copied.txt"
        assert copied_file().read_text() == "Just words"
        assert copied_file().stat().st_mode & 0o077 == 0
        await chat.wait_until(
            lambda: chat.notifications == [f"Copied 10 characters; also in {copied_file()}"]
        )


async def test_an_answer_with_code_offers_its_code_blocks(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await send_and_wait(chat, ANSWER)
        await chat.pilot.press("f8")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ListScreen))
        await chat.wait_until(lambda: "Code 1 (python)" in chat.screen)
        assert "Code 2 (sh)" in chat.screen
        assert "3 lines" in chat.screen
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: chat.app.clipboard.strip() == "print(1)\n\nprint(2)")
        await chat.pilot.press("f8")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ListScreen))
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.app.clipboard == ANSWER.removeprefix("say "))


async def test_the_selected_message_is_copied(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await send_and_wait(chat, "say Just words")
        await chat.pilot.press("f6", "k", "k", "k")
        assert chat.view.transcript.selected is not None
        await chat.pilot.press("f8")
        assert chat.app.clipboard == "say Just words"


async def test_copy_and_export_without_content_show_a_notice(tmp_path: Path) -> None:
    async with running_chat(tmp_path, ["/no/such/agent"]) as chat:
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.pilot.press("f8", "ctrl+s")
        await chat.wait_until(
            lambda: chat.notifications == ["Nothing to copy yet", "There is no session yet"]
        )


async def test_a_text_too_long_for_the_clipboard_is_only_in_the_file(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        chat.app.copy_to_clipboard("x" * (MAX_CLIPBOARD + 1))
        assert chat.app.clipboard == ""
        assert len(copied_file().read_text()) == MAX_CLIPBOARD + 1
        await chat.wait_until(lambda: "too long for the terminal clipboard" in "".join(chat.notifications))


async def test_copying_works_when_the_file_cannot_be_written(tmp_path: Path, home: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        (home / "data" / "chat").parent.mkdir(exist_ok=True)
        (home / "data" / "chat").write_text("in the way")
        chat.app.copy_to_clipboard("hello")
        assert chat.app.clipboard == "hello"
        await chat.wait_until(lambda: "cannot write" in "".join(chat.notifications))


async def test_the_session_is_exported_to_a_new_file(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await send_and_wait(chat, "title Fix: the/parser")
        await chat.send("say Some **bold** words")
        await chat.wait_until(lambda: chat.view.turns == 2)
        await chat.pilot.press("ctrl+s")
        await chat.wait_until(lambda: isinstance(chat.app.screen, TextInputScreen))
        screen = chat.app.screen
        assert isinstance(screen, TextInputScreen)
        assert screen.text_input.value == str(tmp_path / "fix-the-parser.md")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        text = (tmp_path / "fix-the-parser.md").read_text()
        assert text.startswith("# Fix: the/parser\n")
        assert "Some **bold** words" in text
        await chat.pilot.press("ctrl+s")
        await chat.wait_until(lambda: isinstance(chat.app.screen, TextInputScreen))
        again = chat.app.screen
        assert isinstance(again, TextInputScreen)
        assert again.text_input.value == str(tmp_path / "fix-the-parser-2.md")
        again.text_input.value = str(tmp_path / "fix-the-parser.md")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "already exists" in str(again.message.render()))
        again.text_input.value = str(tmp_path / "nowhere" / "x.md")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "cannot write" in str(again.message.render()))
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)


@pytest.mark.parametrize("title", ["../../etc", "....", "\x1b]0;x\x07"])
async def test_a_title_cannot_move_the_export_out_of_the_folder(tmp_path: Path, title: str) -> None:
    async with running_chat(tmp_path) as chat:
        await send_and_wait(chat, f"title {title}")
        await chat.pilot.press("ctrl+s")
        await chat.wait_until(lambda: isinstance(chat.app.screen, TextInputScreen))
        screen = chat.app.screen
        assert isinstance(screen, TextInputScreen)
        assert Path(screen.text_input.value).parent == tmp_path
        assert "\x1b" not in screen.text_input.value
