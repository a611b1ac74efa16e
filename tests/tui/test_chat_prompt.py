"""Writing prompts: new lines, history, commands, files, attachments, shell commands."""

import base64
from pathlib import Path

import pytest
from tests.tui.chat import Chat, running_chat
from textual.events import Key, Paste

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def paste(chat: Chat, text: str) -> None:
    chat.view.prompt.editor.post_message(Paste(text))
    await chat.pilot.pause()


async def test_ctrl_j_and_backslash_insert_a_line(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.type("one")
        await chat.pilot.press("ctrl+j")
        await chat.type("two")
        await chat.pilot.press("shift+enter")
        await chat.type("three\\")
        await chat.pilot.press("enter")
        await chat.type("four")
        assert chat.view.prompt.editor.text == "one\ntwo\nthree\nfour"


async def test_the_prompt_history_is_kept_for_the_next_start(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("first")
        await chat.send("second")
        await chat.type("draft")
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "second"
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "first"
        await chat.pilot.press("down", "down")
        assert chat.view.prompt.editor.text == "draft"
    async with running_chat(tmp_path) as chat:
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "second"


async def test_commands_of_the_agent_are_completed_with_their_hints(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("commands")
        await chat.wait_until(lambda: chat.view.prompt._commands())
        await chat.wait_ready()
        await chat.type("/com")
        await chat.wait_until(lambda: "/compact  Shorten the context" in chat.screen)
        await chat.pilot.press("tab")
        assert chat.view.prompt.editor.text == "/compact "
        await chat.wait_until(lambda: "what to keep" in chat.screen)


async def test_files_are_found_by_letters_and_attached(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "application.py").write_text("print()")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "app.log").write_text("noise")
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.type("look at @app")
        await chat.wait_until(lambda: "Tab complete" in chat.screen)  # the footer follows the list
        await chat.wait_until(lambda: chat.view.prompt.popup.open)
        assert [one.label for one in chat.view.prompt.popup.completions] == ["src/application.py"]
        await chat.pilot.press("enter")
        assert chat.view.prompt.editor.text == "look at @src/application.py "
        await chat.pilot.press("enter")
        await chat.wait_for_text("with resource: heard look at")


async def test_a_pasted_path_attaches_the_file_and_backspace_removes_it(tmp_path: Path) -> None:
    picture = tmp_path / "a picture.png"
    picture.write_bytes(PICTURE)
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await paste(chat, str(picture).replace(" ", "\\ "))
        await chat.wait_until(lambda: "⊕ a picture.png" in chat.screen)
        await chat.pilot.press("backspace")
        await chat.wait_until(lambda: "⊕" not in chat.screen)
        await paste(chat, f"'{picture}'")
        await chat.send("see")
        await chat.wait_for_text("with image: heard see")


async def test_pasted_text_is_inserted(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await paste(chat, "two\r\nlines")
        assert chat.view.prompt.editor.text == "two\nlines"
        assert not chat.view.prompt.attachments


async def test_a_shell_command_runs_locally_and_its_output_can_be_attached(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("!printf '\\033[32mgreen\\033[0m\\n'; exit 3")
        await chat.wait_for_text("green", "exit code 3")
        await chat.pilot.press("ctrl+g")
        await chat.wait_until(lambda: "⊕ ! printf" in chat.screen)
        await chat.send("say see:")
        await chat.wait_for_text("see:", "green")
        assert "(exit code 3)" in chat.text.split("▌")[-1]


async def test_ctrl_c_clears_the_prompt_and_keeps_it_in_the_history(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.type("keep me")
        await chat.pilot.press("ctrl+c")
        assert chat.view.prompt.editor.text == ""
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == "keep me"


async def test_keys_typed_after_enter_belong_to_the_next_prompt(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        editor = chat.view.prompt.editor
        for key, char in (("h", "h"), ("i", "i"), ("enter", "\r"), ("1", "1")):
            editor.post_message(Key(key, char))
        await chat.wait_for_text("heard hi")
        await chat.wait_until(lambda: editor.text == "1")
        assert "hi1" not in chat.text


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("a b x backspace c left left z", "azbc"),
        ("o l d ctrl+u n e w", "new"),
        ("a ctrl+c b", "b"),
        ("a alt+s b", "b"),
        ("slash t h e enter", "/theme "),
    ],
)
async def test_keys_that_come_at_once_keep_their_order(tmp_path: Path, keys: str, expected: str) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        names = keys.split()
        if names[0] == "slash":
            await chat.pilot.press(names.pop(0))  # the list of commands is open
            await chat.wait_until(lambda: chat.view.prompt.popup.open)
        for name in names:
            chat.app.post_message(Key(name, name if len(name) == 1 else None))
        await chat.wait_until(lambda: chat.view.prompt.editor.text == expected)
