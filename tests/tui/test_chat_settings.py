"""The settings file and screen, themes, key bindings, and the layout of diffs."""

import json
import os
import re
from pathlib import Path

import pytest
from tests.tui.chat import Chat, running_chat

from accord.errors import UsageError
from accord.tui.actions import ACTIONS, HelpScreen
from accord.tui.background_color import BackgroundColor, detect_background, parse_reply, query_terminal
from accord.tui.chat_settings import (
    SETTINGS,
    ChatSettings,
    read_settings,
    settings_file,
    themes,
    write_setting,
)
from accord.tui.list_screen import ListScreen
from accord.tui.option_screens import SettingsScreen

NAMES = [action.name for action in ACTIONS]


def write_settings_file(text: str) -> Path:
    path = settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_are_used() -> None:
    assert read_settings(NAMES) == ChatSettings()
    write_settings_file("")
    assert read_settings(NAMES) == ChatSettings()


def test_settings_are_read_from_the_file(home: Path) -> None:
    path = write_settings_file(
        '{"theme": "nord", "diffs": "below", "notify": "off", "mouse": false, "keys": {"wire": "ctrl+l"}}'
    )
    assert path == home / "config" / "chat.json"
    found = read_settings(NAMES)
    assert found == ChatSettings(
        theme="nord", diffs="below", notify="off", mouse=False, keys={"wire": "ctrl+l"}
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"theme": "pink"}', 'theme: invalid value "pink"; use one of auto, dark, light, '),
        ('{"theme": 3}', "theme: invalid value 3; use one of auto"),
        ('{"mouse": "yes"}', 'mouse: invalid value "yes"; use true or false'),
        ('{"them": "dark"}', "unknown setting them; did you mean theme?"),
        (
            '{"zoom": 2}',
            "unknown setting zoom; use one of theme, diffs, notify, notifyWhen, terminalTitle, mouse, keys",
        ),
        ('{"keys": {"wyre": "f9"}}', "keys: unknown action wyre; did you mean wire?"),
        ('{"keys": {"wire": 9}}', "keys.wire: invalid key 9; write it as f9 or ctrl+y"),
        ('{"keys": []}', "keys: expected an object"),
        ("[]", "expected an object"),
        ('{"theme"', "invalid JSON: "),
        ('{"a": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"), "unknown setting a"),
    ],
)
def test_an_invalid_file_is_refused_with_path_key_and_reason(text: str, why: str) -> None:
    path = write_settings_file(text)
    with pytest.raises(UsageError, match=re.escape(f"{path}: {why}")):
        read_settings(NAMES)


def test_a_file_that_is_too_long_or_unreadable_is_refused() -> None:
    path = write_settings_file(" " * 300_000)
    with pytest.raises(UsageError, match="larger than"):
        read_settings(NAMES)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="cannot read the file"):
        read_settings(NAMES)


def test_writing_one_setting_keeps_the_others() -> None:
    path = write_settings_file('{"theme": "nord", "keys": {"wire": "f11"}}')
    write_setting("notify", "bell")
    assert json.loads(path.read_text()) == {
        "version": 1,
        "theme": "nord",
        "keys": {"wire": "f11"},
        "notify": "bell",
    }
    path.unlink()
    write_setting("mouse", False)
    assert json.loads(path.read_text()) == {"version": 1, "mouse": False}
    assert path.stat().st_mode & 0o077 == 0


async def test_the_settings_screen_applies_and_writes_a_change(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f9")
        screen = await wait_for_settings(chat)
        assert [row.name for row in screen.list.rows] == [one.title for one in SETTINGS]
        await chat.type("theme")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: type(chat.app.screen) is ListScreen)
        await chat.type("solarized-l")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.app.theme == "solarized-light")
        assert json.loads(settings_file().read_text()) == {"version": 1, "theme": "solarized-light"}
        await chat.wait_until(lambda: chat.app.screen is screen)
        await chat.pilot.press("escape")
        await chat.type("mouse")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.app.settings.mouse is False)
        assert json.loads(settings_file().read_text())["mouse"] is False


async def wait_for_settings(chat: Chat) -> SettingsScreen:
    await chat.wait_until(lambda: isinstance(chat.app.screen, SettingsScreen))
    await chat.pilot.pause()
    assert isinstance(chat.app.screen, SettingsScreen)
    return chat.app.screen


async def test_a_setting_applies_when_the_file_cannot_be_written(tmp_path: Path, home: Path) -> None:
    (home / "config").write_text("in the way")
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f9")
        screen = await wait_for_settings(chat)
        await chat.type("mouse")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "cannot be written" in str(screen.message.render()))
        assert chat.app.settings.mouse is False


@pytest.mark.parametrize(
    ("theme", "dark", "expected"),
    [
        ("auto", True, "textual-dark"),
        ("auto", False, "textual-light"),
        ("auto", None, "textual-dark"),
        ("light", True, "textual-light"),
        ("dark", False, "textual-dark"),
        ("nord", False, "nord"),
    ],
)
async def test_the_theme_setting_selects_the_theme(
    tmp_path: Path, theme: str, dark: bool | None, expected: str
) -> None:
    async with running_chat(tmp_path, app={"settings": ChatSettings(theme=theme), "dark": dark}) as chat:
        assert chat.app.theme == expected


async def test_every_theme_can_be_drawn(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("say # Words\n\n```python\nx = 1\n```")
        await chat.wait_for_text("Words")
        for name in themes():
            chat.app.set_setting("theme", name)
            await chat.pilot.pause()
            assert "Words" in chat.text


async def test_a_custom_key_replaces_the_default(tmp_path: Path) -> None:
    settings = ChatSettings(keys={"settings": "ctrl+l"})
    async with running_chat(tmp_path, size=(100, 80), app={"settings": settings}) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f9")
        assert len(chat.app.screen_stack) == 1
        await chat.pilot.press("ctrl+l")
        await wait_for_settings(chat)
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        await chat.pilot.press("f1")
        await chat.wait_until(lambda: isinstance(chat.app.screen, HelpScreen))
        await chat.wait_until(lambda: "ctrl+l" in chat.screen)


async def test_a_question_mark_in_an_empty_prompt_shows_the_keys(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(100, 80)) as chat:
        await chat.wait_ready()
        await chat.pilot.press("question_mark")
        await chat.wait_until(lambda: isinstance(chat.app.screen, HelpScreen))
        await chat.wait_until(lambda: "F12" in chat.screen and "Wire view" in chat.screen)
        await chat.pilot.press("question_mark")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        await chat.type("why")
        await chat.pilot.press("question_mark")
        assert chat.view.prompt.editor.text == "why?"
        await chat.pilot.press("f1")
        await chat.wait_until(lambda: isinstance(chat.app.screen, HelpScreen))
        await chat.pilot.press("f1")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)


@pytest.mark.parametrize(("width", "first"), [(180, "auto"), (100, "auto")])
async def test_f10_toggles_side_by_side_diffs(tmp_path: Path, width: int, first: str) -> None:
    async with running_chat(tmp_path, size=(width, 40)) as chat:
        await chat.wait_ready()
        await chat.send("edit")
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_until(lambda: chat.view.turns == 1)
        chat.view.toggle_item()
        beside = width == 180

        def side_by_side() -> bool:
            return any("return 1" in line and "return 2" in line for line in chat.text.splitlines())

        await chat.wait_until(lambda: "return 2" in chat.text)
        assert side_by_side() == beside
        await chat.pilot.press("f10")
        await chat.wait_until(lambda: side_by_side() != beside)
        assert chat.app.settings.diffs == ("below" if beside else "beside")
        await chat.pilot.press("f10")
        await chat.wait_until(lambda: side_by_side() == beside)


# -- terminal background ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;4c", BackgroundColor(False)),
        (b"\x1b]11;rgb:1e/1e/2e\x07\x1b[?6c", BackgroundColor(True)),
        (b"\x1b[?6c", BackgroundColor(None)),
        (b"", BackgroundColor(None)),
        (b"he\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?6cllo", BackgroundColor(True, "hello")),
        ("é\x1b[A".encode(), BackgroundColor(None, "é")),
    ],
)
def test_terminal_responses_are_parsed(data: bytes, expected: BackgroundColor) -> None:
    assert parse_reply(data) == expected


def test_asking_the_terminal_restores_its_state() -> None:
    import termios

    master, slave = os.openpty()
    try:
        before = termios.tcgetattr(slave)
        os.set_blocking(master, False)
        assert query_terminal(slave, slave, timeout=0) == BackgroundColor(None)
        assert b"]11;?" in os.read(master, 100)
        assert termios.tcgetattr(slave) == before
        os.write(master, b"typed ahead\n")
        assert query_terminal(slave, slave, timeout=0) == BackgroundColor(None)
        assert os.read(master, 100) == b"typed ahead\r\n", (
            "only the echo must be written when input is pending"
        )
    finally:
        os.close(master)
        os.close(slave)


def test_the_environment_gives_the_background_of_a_dumb_terminal() -> None:
    assert detect_background({"TERM": "dumb", "COLORFGBG": "0;15"}) == BackgroundColor(False)
    assert detect_background({"TERM": "dumb", "COLORFGBG": "15;default;0"}) == BackgroundColor(True)
    assert detect_background({"TERM": "dumb"}) == BackgroundColor(None)
