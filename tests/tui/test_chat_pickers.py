"""Screens to pick models, modes, options and agents: by key, by mouse, by the command palette, by filter."""

import json
import sys
from pathlib import Path

import pytest
from tests.tui.chat import DEMO_AGENT, KEEPER, Chat, running_chat
from textual.app import App

from accord.errors import UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.tui.list_screen import ListScreen
from accord.tui.option_screens import OptionsScreen, ValuesScreen
from accord.tui.sessions_screen import AgentsScreen


def shown(chat: Chat) -> list[str]:
    """The rows of the list on the screen, with headings."""
    screen = chat.app.screen
    assert isinstance(screen, ListScreen)
    return [row if isinstance(row, str) else row.name for row in screen.list.rows]


async def wait_for_list(chat: Chat, kind: type = ListScreen) -> ListScreen:
    """Wait for a list on the screen and return it."""
    await chat.wait_until(lambda: isinstance(chat.app.screen, kind) and chat.app.screen.is_mounted)
    await chat.pilot.pause()
    assert isinstance(chat.app.screen, ListScreen)
    return chat.app.screen


async def wait_closed(chat: Chat) -> None:
    await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)


def setting(chat: Chat, id: str) -> str | bool:
    assert chat.view.chat_session is not None
    session = chat.view.chat_session.session
    assert session is not None
    return next(picker.current for picker in session.state.settings.pickers if picker.id == id)


async def test_a_model_is_picked_in_its_group(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.wait_until(lambda: "Small 2" in chat.screen)
        await chat.pilot.press("f3")
        await wait_for_list(chat, ValuesScreen)
        assert shown(chat)[:4] == ["Fast ones", "Tiny 1", "Small 2", "Able ones"]
        assert "▸ ● Small 2  quick and cheap" in chat.screen
        await chat.pilot.press("down", "enter")
        await wait_closed(chat)
        assert setting(chat, "model") == "large"
        await chat.wait_until(lambda: "Large 3" in chat.screen)


async def test_typing_filters_the_list_and_esc_clears_the_filter_first(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f3")
        screen = await wait_for_list(chat, ValuesScreen)
        await chat.type("lar 3")
        await chat.wait_until(lambda: shown(chat) == ["Large 3"])
        assert "Enter choose  Esc clear the filter" in chat.screen
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: len(shown(chat)) == 6)
        await chat.wait_until(lambda: "Enter choose  Esc close" in chat.screen)
        assert chat.app.screen is screen
        await chat.pilot.press("escape")
        await wait_closed(chat)
        assert setting(chat, "model") == "small"


async def test_the_footer_shows_the_keys_of_the_screen_on_top_and_ctrl_z_works_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended: list[str] = []
    monkeypatch.setattr(
        App, "action_suspend_process", lambda app: suspended.append(type(app.screen).__name__)
    )
    session_keys = "Ctrl+R rename", "Ctrl+F fork", "Ctrl+X delete", "Ctrl+A archive", "Ctrl+E export"
    keys = {
        "f1": ("Esc close", "PgUp PgDn scroll"),
        "f2": ("Enter continue", "Esc close", *session_keys),
        "f3": ("Enter choose", "Esc close"),
        "f9": ("Enter change", "Esc close"),
        "f12": ("Esc close", "Tab scroll the message", "Ctrl+End follow", "F8 copy"),
        "alt+d": ("Enter go there", "Ctrl+X close the tab"),
        "alt+v": ("x revert", "c comment", "m commit", "Esc close", "1 2 3 turn, session, all", "Tab file"),
        "ctrl+p": ("Enter run", "Esc close"),
    }
    async with running_chat(tmp_path, KEEPER, size=(80, 24)) as chat:
        await chat.wait_ready()
        for key, expected in keys.items():
            await chat.wait_until(lambda: "/ commands" in chat.screen)
            await chat.pilot.press(key)
            await chat.wait_until(lambda expected=expected: all(text in chat.screen for text in expected))
            assert "/ commands  @ files" not in chat.screen
            await chat.pilot.press("ctrl+z")
            await chat.wait_until(lambda: len(suspended) == 1)
            assert suspended.pop() != "MainScreen"
            await chat.pilot.press("escape")
            await wait_closed(chat)


async def test_a_refusal_of_the_agent_is_one_line_without_escape_sequences(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f3")
        screen = await wait_for_list(chat, ValuesScreen)
        await chat.type("huge")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "your plan" in chat.screen)
        assert chat.app.screen is screen
        assert "Model was not changed: your plan does not have it evil" in chat.screen
        assert "second line" not in chat.screen
        assert "\x1b" not in chat.screen
        assert "owned" not in chat.screen
        assert setting(chat, "model") == "small"


async def test_modes_and_other_options_are_picked(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f4")
        await wait_for_list(chat, ValuesScreen)
        assert shown(chat) == ["Ask first", "Just code"]
        await chat.type("just")
        await chat.pilot.press("enter")
        await wait_closed(chat)
        assert setting(chat, "mode") == "code"
        await chat.pilot.press("f5")
        screen = await wait_for_list(chat, OptionsScreen)
        assert shown(chat) == ["Model", "Mode", "Use the web", "Effort"]
        await chat.type("web")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: setting(chat, "web") is True)
        await chat.wait_until(lambda: any(row.right == "on" for row in screen.list.rows))
        await chat.pilot.press("escape")
        await chat.type("effort")
        await chat.pilot.press("enter")
        await wait_for_list(chat, ValuesScreen)
        await chat.pilot.press("down", "enter")
        await wait_for_list(chat, OptionsScreen)
        await chat.wait_until(lambda: [row.right for row in screen.all_rows][-1] == "High")
        assert setting(chat, "effort") == "high"


async def test_a_click_picks_and_a_click_outside_closes(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f3")
        screen = await wait_for_list(chat, ValuesScreen)
        await chat.pilot.click(screen.list, offset=(6, 1))
        await wait_closed(chat)
        assert setting(chat, "model") == "tiny"
        await chat.pilot.press("f3")
        await wait_for_list(chat, ValuesScreen)
        await chat.pilot.click(offset=(1, 1))
        await wait_closed(chat)


async def test_the_command_palette_opens_the_options(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER) as chat:
        await chat.wait_ready()
        await chat.pilot.press("ctrl+p")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 2)
        await chat.type("agent options")
        await chat.wait_until(lambda: "Agent options" in chat.screen)
        await chat.pilot.press("down", "enter")
        await wait_for_list(chat, OptionsScreen)


async def test_an_agent_without_settings_shows_a_notice(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f3", "f5")
        expected = ["The agent does not offer a choice of models", "The agent has no options"]
        await chat.wait_until(lambda: chat.notifications == expected)


async def test_another_agent_replaces_an_unused_session(tmp_path: Path, home: Path) -> None:
    (home / "config").mkdir()
    other = {"command": sys.executable, "args": [DEMO_AGENT[1]], "description": "the other one"}
    (home / "config" / "acp.json").write_text(json.dumps({"agent_servers": {"other": other}}))

    def choose(name: str, cwd: str, trusting: object) -> ConfiguredAgent:
        return ConfiguredAgent(name=name, origin="user", command=DEMO_AGENT)

    async with running_chat(tmp_path, KEEPER, app={"choose_agent": choose}) as chat:
        await chat.wait_ready()
        await chat.pilot.press("ctrl+n")
        await wait_for_list(chat, AgentsScreen)
        await chat.wait_until(lambda: "other" in shown(chat))
        assert shown(chat)[0] == "Keeper"
        await chat.type("other one")
        await chat.pilot.press("enter")
        await wait_closed(chat)
        await chat.wait_until(lambda: chat.view.start.name == "other" and len(chat.app.views) == 1)
        await chat.wait_ready()
        await chat.send("hello")
        await chat.wait_for_text("heard hello")
        await chat.pilot.press("ctrl+n")
        await wait_for_list(chat, AgentsScreen)
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.app.views) == 2)
        assert chat.view.start.name == "other"
        await chat.wait_ready()


async def test_an_unknown_agent_is_reported_in_its_tab(tmp_path: Path) -> None:
    def choose(name: str, cwd: str, trusting: object) -> ConfiguredAgent:
        raise UsageError(f"unknown agent {name!r}")

    async with running_chat(tmp_path, KEEPER, app={"choose_agent": choose}) as chat:
        await chat.wait_ready()
        await chat.send("hello")
        await chat.wait_for_text("heard hello")
        await chat.pilot.press("ctrl+n")
        await wait_for_list(chat, AgentsScreen)
        await chat.wait_until(lambda: len(shown(chat)) > 1)
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: len(chat.app.views) == 2 and chat.phase == "failed")
        await chat.wait_for_text("unknown agent")
