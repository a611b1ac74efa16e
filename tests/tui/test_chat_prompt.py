"""Writing prompts: lines, history, commands, files, attachments, the shell."""

import base64
from pathlib import Path

from tests.tui.chat import Chat, chatting
from textual.events import Key, Paste

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def paste(chat: Chat, text: str) -> None:
    chat.view.prompt.editor.post_message(Paste(text))
    await chat.pilot.pause()


async def test_other_enters_make_a_line(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.type("one")
        await chat.pilot.press("ctrl+j")
        await chat.type("two")
        await chat.pilot.press("alt+enter")
        await chat.type("three\\")
        await chat.pilot.press("enter")
        await chat.type("four")
        assert chat.view.prompt.editor.text == "one\ntwo\nthree\nfour"


async def test_what_was_said_comes_back_also_the_next_time(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("first")
        await chat.say("second")
        await chat.type("draft")
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "second"
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "first"
        await chat.pilot.press("down", "down")
        assert chat.view.prompt.editor.text == "draft"
    async with chatting(tmp_path) as chat:
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "second"


async def test_commands_of_the_agent_are_completed_with_their_hints(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("commands")
        await chat.until(lambda: chat.view.prompt._commands())
        await chat.ready()
        await chat.type("/co")
        await chat.until(lambda: "/compact  Shorten the context" in chat.screen)
        await chat.pilot.press("tab")
        assert chat.view.prompt.editor.text == "/compact "
        await chat.until(lambda: "what to keep" in chat.screen)


async def test_files_are_found_by_letters_and_go_along(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "application.py").write_text("print()")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "app.log").write_text("noise")
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.type("look at @app")
        await chat.until(lambda: chat.view.prompt.popup.open)
        assert [one.label for one in chat.view.prompt.popup.completions] == ["src/application.py"]
        await chat.pilot.press("enter")
        assert chat.view.prompt.editor.text == "look at @src/application.py "
        await chat.pilot.press("enter")
        await chat.shows("with resource: heard look at")


async def test_a_pasted_path_attaches_the_file_and_backspace_takes_it_off(tmp_path: Path) -> None:
    picture = tmp_path / "a picture.png"
    picture.write_bytes(PICTURE)
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await paste(chat, str(picture).replace(" ", "\\ "))
        await chat.until(lambda: "⊕ a picture.png" in chat.screen)
        await chat.pilot.press("backspace")
        await chat.until(lambda: "⊕" not in chat.screen)
        await paste(chat, f"'{picture}'")
        await chat.say("see")
        await chat.shows("with image: heard see")


async def test_pasted_text_is_text(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await paste(chat, "two\r\nlines")
        assert chat.view.prompt.editor.text == "two\nlines"
        assert not chat.view.prompt.attachments


async def test_a_command_of_the_user_runs_here_and_can_be_handed_over(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("!printf '\\033[32mgreen\\033[0m\\n'; exit 3")
        await chat.shows("green", "exit code 3")
        await chat.pilot.press("ctrl+g")
        await chat.until(lambda: "⊕ ! printf" in chat.screen)
        await chat.say("say see:")
        await chat.shows("see:", "green")
        assert "(exit code 3)" in chat.text.split("▌")[-1]


async def test_ctrl_c_empties_the_prompt_and_the_text_is_not_lost(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.type("keep me")
        await chat.pilot.press("ctrl+c")
        assert chat.view.prompt.editor.text == ""
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "keep me"


async def test_keys_right_behind_enter_belong_to_the_next_prompt(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        editor = chat.view.prompt.editor
        for key, char in (("h", "h"), ("i", "i"), ("enter", "\r"), ("1", "1")):
            editor.post_message(Key(key, char))
        await chat.shows("heard hi")
        await chat.until(lambda: editor.text == "1")
        assert "hi1" not in chat.text
