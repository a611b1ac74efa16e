"""Sessions in tabs: marks for sessions that need attention, and notifications."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_process import environment
from tests.cli.terminal import in_terminal
from tests.tui.chat import DEMO_AGENT, KEEPER, Chat, running_chat
from textual import events

from accord.schema import UsageUpdate
from accord.tui.chat_settings import ChatSettings
from accord.tui.list_screen import ConfirmScreen
from accord.tui.session_panels import usage_meter
from accord.tui.session_tabs import TabBar, desktop_notification
from accord.tui.theme import Palette


async def open_another(chat: Chat) -> None:
    """Open another session of the same agent."""
    await chat.app.open(chat.view.start)
    await chat.wait_ready()


def notices(written: list[str]) -> Callable[[str], None]:
    """Collect what is written to the terminal, without its title."""
    return lambda text: None if text.startswith("\x1b]2;") else written.append(text)


def marks(chat: Chat) -> list[str]:
    return [tab.mark for tab in chat.app.query_one(TabBar).tabs]


async def test_tabs_are_shown_with_two_or_more_sessions(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        bar = chat.app.query_one(TabBar)
        assert not bar.display
        await open_another(chat)
        await chat.wait_until(lambda: bar.display)
        assert " 1 demo" in chat.screen.splitlines()[0]
        assert " 2 demo" in chat.screen.splitlines()[0]
        assert "×" in chat.screen.splitlines()[0]


async def test_keys_and_clicks_switch_tabs(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await open_another(chat)
        first, second = chat.app.views
        await chat.type("mine")
        await chat.pilot.press("ctrl+pageup")
        assert chat.view is first
        await chat.type("other")
        assert (first.prompt.editor.text, second.prompt.editor.text) == ("other", "mine")
        await chat.pilot.press("ctrl+pagedown")
        assert chat.view is second
        await chat.pilot.press("alt+1")
        assert chat.view is first
        await chat.pilot.press("alt+9")
        assert chat.view is first
        await chat.pilot.pause()
        bar = chat.app.query_one(TabBar)
        start = next(start for start, _, id, _ in bar._click_areas if id == second.id)
        await chat.pilot.click(TabBar, offset=(start + 2, 0))
        assert chat.view is second


async def test_closing_a_tab_ends_its_agent(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await open_another(chat)
        await open_another(chat)
        first, second, third = chat.app.views
        await chat.pilot.press("alt+w")
        await chat.wait_until(lambda: chat.app.views == [first, second])
        assert chat.view is second
        assert third.chat_session is not None
        assert third.chat_session.phase == "closed"
        await chat.pilot.pause()
        end = next(
            end for _, end, id, close in chat.app.query_one(TabBar)._click_areas if id == second.id and close
        )
        await chat.pilot.click(TabBar, offset=(end - 2, 0))
        await chat.wait_until(lambda: chat.app.views == [first])
        assert not chat.app.query_one(TabBar).display


async def test_a_question_behind_another_tab_is_marked_until_it_is_answered(tmp_path: Path) -> None:
    written: list[str] = []
    async with running_chat(tmp_path, app={"write": notices(written)}) as chat:
        await chat.wait_ready()
        first = chat.view
        await chat.send("ask")
        await chat.wait_for_dialog()
        await open_another(chat)
        await chat.wait_until(lambda: marks(chat)[0] == "asks")
        assert " ?" in chat.screen.splitlines()[0]
        assert written == []
        chat.app.tabs.show(first)
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_until(lambda: first.turns == 1)
        await chat.wait_until(lambda: marks(chat) == ["", ""])
        assert written == [], "no notification must be sent while the user watches"


async def test_a_turn_that_ends_behind_another_tab_is_marked_with_a_bell(tmp_path: Path) -> None:
    written: list[str] = []
    async with running_chat(tmp_path, app={"write": notices(written)}) as chat:
        await chat.wait_ready()
        first = chat.view
        await open_another(chat)
        first.submit(_draft("hello"))
        await chat.wait_until(lambda: marks(chat)[0] == "done")
        assert written == ["\x07"]
        assert " ●" in chat.screen.splitlines()[0]
        await chat.pilot.press("alt+1")
        await chat.wait_until(lambda: marks(chat) == ["", ""])
        assert written == ["\x07"]


async def test_a_dialog_behind_another_tab_takes_no_key_until_it_was_visible(tmp_path: Path) -> None:
    written: list[str] = []
    async with running_chat(tmp_path, app={"write": notices(written)}) as chat:
        await chat.wait_ready()
        first = chat.view
        await open_another(chat)
        first.submit(_draft("ask"))
        await chat.wait_until(lambda: marks(chat)[0] == "asks")
        assert written == ["\x07"]
        for _ in range(5):
            await chat.clock.advance(1)
            await chat.pilot.pause()
        assert first.dialog is not None
        assert not first.dialog.armed
        await chat.type("1")
        assert chat.view.prompt.editor.text == "1"
        await chat.pilot.press("alt+1")
        await chat.type("1")
        assert first.prompt.editor.text == "1", "a dialog that was visible only briefly must ignore keys"
        dialog = await chat.wait_for_dialog()
        await chat.pilot.press("ctrl+pagedown", "ctrl+pageup")
        assert not dialog.armed, "a dialog must wait again after a tab switch"
        await chat.wait_for_dialog()
        await chat.pilot.press("tab", "3")  # the prompt has text
        await chat.wait_until(lambda: first.turns == 1)


async def test_a_dialog_below_another_screen_takes_no_key(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_for_dialog()
        await chat.pilot.press("f1")
        await chat.wait_until(lambda: not dialog.armed)
        for _ in range(3):
            await chat.clock.advance(1)
            await chat.pilot.pause()
        assert not dialog.armed
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_until(lambda: chat.view.turns == 1)


async def test_a_notification_is_sent_without_window_focus(tmp_path: Path) -> None:
    written: list[str] = []
    async with running_chat(tmp_path, app={"write": notices(written)}) as chat:
        await chat.wait_ready()
        await chat.send("hello")
        await chat.wait_until(lambda: chat.view.turns == 1)
        await chat.pilot.pause()
        assert written == []
        chat.app.post_message(events.AppBlur())
        await chat.wait_until(lambda: not chat.app.app_focus)
        chat.view.submit(_draft("again"))
        await chat.wait_until(lambda: written == ["\x07"])
        chat.app.post_message(events.AppFocus())
        await chat.wait_until(lambda: chat.app.app_focus)
        await chat.wait_until(lambda: chat.app.focused is chat.view.prompt.editor)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ChatSettings(notify="off"), []),
        (ChatSettings(notify="bell", notify_when="always"), ["\x07"]),
        (ChatSettings(notify="desktop", notify_when="always"), ["\x1b]9;demo: is done (fix evil)\x1b\\"]),
    ],
)
async def test_settings_select_the_kind_of_notification(
    tmp_path: Path, settings: ChatSettings, expected: list[str]
) -> None:
    written: list[str] = []
    app: dict[str, Any] = {"write": notices(written), "settings": settings}
    async with running_chat(tmp_path, app=app) as chat:
        await chat.wait_ready()
        chat.view.submit(_draft("title fix\x1b]0;owned\x07 evil"))
        await chat.wait_until(lambda: chat.view.turns == 1 and chat.view.status.title)
        await chat.wait_until(lambda: len(written) == len(expected))
        await chat.pilot.pause()
        assert [text.replace(str(tmp_path), "fix evil") for text in written] == expected


def test_terminals_with_desktop_notifications() -> None:
    assert desktop_notification({"TERM": "foot"}, "a;b", "c") == "\x1b]777;notify;a,b;c\x1b\\"
    assert desktop_notification({"TERM_PROGRAM": "WezTerm"}, "a", "b\x1b]0;x\x07c") == "\x1b]9;a: bc\x1b\\"
    assert desktop_notification({"TERM": "xterm-kitty"}, "a", "b") == "\x1b]9;a: b\x1b\\"
    assert desktop_notification({"TERM": "xterm-256color"}, "a", "b") == ""


async def test_the_current_one_of_many_tabs_stays_in_view(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER, size=(80, 24)) as chat:
        await chat.wait_ready()
        start = chat.view.start
        for _ in range(7):
            await chat.app.open(start)
        await chat.wait_until(lambda: " 8 " in chat.screen.splitlines()[0])
        assert "+2" in chat.screen.splitlines()[0]
        await chat.pilot.press("alt+1")
        await chat.wait_until(lambda: chat.screen.startswith(" 1 "))


def _draft(text: str) -> Any:
    from accord.tui.chat_types import Draft

    return Draft(text)


async def test_closing_a_tab_with_a_running_turn_asks_for_confirmation(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await open_another(chat)
        first, second = chat.app.views
        await chat.send("wait")
        await chat.wait_for_text("waiting")
        await chat.pilot.press("alt+w")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        assert chat.app.views == [first, second]
        await chat.pilot.press("alt+w")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: chat.app.views == [first])


async def test_the_dashboard_says_what_each_session_waits_for(tmp_path: Path) -> None:
    async with running_chat(tmp_path, KEEPER, size=(140, 30)) as chat:
        await chat.wait_ready()
        await chat.send("Write the guide")
        await chat.wait_until(lambda: chat.view.turns == 1)
        await open_another(chat)
        asking = chat.view
        await chat.send("edit")
        await chat.wait_for_dialog()
        await open_another(chat)
        await chat.pilot.press("alt+d")
        await chat.wait_until(lambda: "waits for your first prompt" in chat.screen)
        assert "done; waits for your next prompt" in chat.screen
        line = next(line for line in chat.screen.split("\n") if "waits for your answer" in line)
        assert "2 edit ?" in line
        assert "asks to edit" in line
        await chat.pilot.press("up", "enter")
        assert chat.view is asking
        assert len(chat.app.screen_stack) == 1


async def test_the_dashboard_closes_a_tab_and_shows_sub_agents(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(140, 30)) as chat:
        await chat.wait_ready()
        await chat.send("children")
        await chat.wait_until(lambda: chat.view.turns == 1)
        await open_another(chat)
        await chat.send("/dashboard")
        await chat.wait_until(lambda: "↳ Look at the tests" in chat.screen)
        assert "asks for an answer" in next(line for line in chat.screen.split("\n") if "↳" in line)
        await chat.pilot.press("ctrl+x")
        await chat.wait_until(lambda: len(chat.app.views) == 1)


async def test_the_dashboard_shows_sessions_of_other_programs(tmp_path: Path, home: Path) -> None:
    env = environment(home, TERM="xterm-256color", COLORTERM="truecolor", LINES="30", COLUMNS="100")
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *DEMO_AGENT, env=env) as other:
        other.expect("ready")
        other.type("ask\r")
        other.expect("one moment")
        async with running_chat(tmp_path, size=(140, 30)) as chat:
            await chat.wait_ready()
            await chat.pilot.press("alt+d")
            await chat.wait_until(lambda: "In another program (process" in chat.screen)
            await chat.wait_until(lambda: "waits for an answer" in chat.screen)


async def test_the_terminal_title_shows_the_session_and_its_state(tmp_path: Path) -> None:
    written: list[str] = []
    async with running_chat(tmp_path, app={"write": written.append}) as chat:
        await chat.wait_until(lambda: "\x1b]2;… demo\x07" in written)
        await chat.wait_ready()
        await chat.wait_until(lambda: written[-1] == "\x1b]2;demo\x07")
        await chat.send("title Fix it\x1b]0;evil\x07")
        await chat.wait_until(lambda: any("Fix it" in text for text in written))
        assert all(text.count("\x1b") == 1 for text in written if text.startswith("\x1b]2")), written
        await chat.send("ask")
        await chat.wait_until(lambda: "\x1b]2;? Fix" in written[-1])
    quiet: list[str] = []
    settings = ChatSettings(terminal_title=False)
    async with running_chat(tmp_path, app={"write": quiet.append, "settings": settings}) as chat:
        await chat.wait_ready()
        assert not quiet


def make_repository(folder: Path) -> None:
    for words in (["init", "-q", "-b", "trunk"], ["add", "."], ["commit", "-qm", "start"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        subprocess.run(git, cwd=folder, check=True)


async def test_branch_and_changed_files_are_shown_and_follow_the_turns(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("def f():\n    return 1\n")
    await asyncio.to_thread(make_repository, tmp_path)
    async with running_chat(tmp_path) as chat:
        await chat.wait_until(lambda: "trunk" in chat.screen.splitlines()[0])
        assert "±" not in chat.screen.splitlines()[0]
        await chat.wait_ready()
        await chat.send(f"change {file}")
        await chat.wait_until(lambda: "trunk ±1" in chat.screen.splitlines()[0])
        await chat.send("!git checkout -q -b other; touch new")
        await chat.wait_until(lambda: "other ±2" in chat.screen.splitlines()[0])


@pytest.mark.parametrize(
    ("budget", "shown"),
    [
        ({"used": 4.2, "limit": 5, "unit": "cost"}, "budget 84% of $5"),
        ({"used": 60_000, "limit": 50_000, "unit": "tokens"}, "budget 120% of 50k tokens"),
        ({"used": "x", "limit": 5}, ""),
        ({"used": 1, "limit": 0}, ""),
        ([], ""),
    ],
)
def test_the_usage_shows_the_budget_that_ends_first(budget: object, shown: str) -> None:
    usage = UsageUpdate(1_000, 10_000, meta={"accord": {"budget": budget}})
    text = usage_meter(usage, Palette.from_theme({}, dark=True)).plain
    assert text.endswith(shown)
    assert ("budget" in text) == bool(shown)
