"""The sessions screen: sessions of agents and records can be searched, resumed, forked and deleted."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tui.chat import DEMO_AGENT, KEEPER, Chat, running_chat

from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.recording import RecordedSessions
from accord.schema import AgentMessageChunk, TextContent
from accord.session import TurnEnded, TurnStarted
from accord.tui.list_screen import ConfirmScreen
from accord.tui.sessions_screen import SessionsScreen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The stored sessions of the keeper agent."""
    (tmp_path / "here").mkdir()
    (tmp_path / "away").mkdir()
    found = tmp_path / "sessions.json"
    found.write_text(
        json.dumps(
            [
                {
                    "sessionId": "old-1",
                    "cwd": str(tmp_path / "here"),
                    "title": "Fix the parser",
                    "updatedAt": "2026-03-01T10:00:00Z",
                },
                {
                    "sessionId": "old-2",
                    "cwd": str(tmp_path / "away"),
                    "title": "Write \x1b[31mdocs",
                    "updatedAt": "2026-03-02T10:00:00Z",
                },
                {
                    "sessionId": "refuse-3",
                    "cwd": str(tmp_path / "here"),
                    "title": "Locked",
                    "updatedAt": "2026-02-01T10:00:00Z",
                },
            ]
        )
    )
    return found


def running_keeper(file: Path, **more: object) -> Any:
    folder = file.parent / "here"
    env = {"KEEPER_FILE": str(file)}
    return running_chat(folder, KEEPER, env=env, name="keeper", **more)  # type: ignore[arg-type]


async def open_list(chat: Chat) -> SessionsScreen:
    """Open the list and wait until the agents have answered."""
    await chat.pilot.press("f2")
    await chat.wait_until(lambda: isinstance(chat.app.screen, SessionsScreen))
    screen = chat.app.screen
    assert isinstance(screen, SessionsScreen)
    await chat.wait_until(lambda: screen._catalog.queried_agents and str(screen.message.render()) == "")
    return screen


def rows(screen: SessionsScreen) -> list[str]:
    return [row if isinstance(row, str) else row.name for row in screen.list.rows]


async def test_the_list_shows_title_folder_time_and_agent(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        shown = rows(screen)
        assert shown[0] == "This folder"
        assert shown.index("Fix the parser") < shown.index("Locked") < shown.index("Other folders")
        assert "Write docs" in shown
        await chat.wait_until(lambda: "keeper · 2026-03-01" in chat.screen)
        assert f"Write docs  …{str(file.parent / 'away')[-35:]}" in chat.screen
        assert "\x1b" not in chat.screen
        await chat.type("zzz")
        await chat.wait_until(lambda: "No matches" in chat.screen)


async def test_a_session_is_found_and_resumed_in_a_tab(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        await chat.send("hello")
        await chat.wait_for_text("heard hello")
        screen = await open_list(chat)
        await chat.type("away docs")
        await chat.wait_until(lambda: rows(screen) == ["Write docs"])
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.app.views) == 2)
        await chat.wait_ready()
        await chat.wait_for_text("before in old-2")
        assert chat.view.start.cwd == str(file.parent / "away")
        await open_list(chat)
        await chat.type("write docs")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
        assert len(chat.app.views) == 2, "an open session must be shown in its tab"


async def test_a_session_is_forked(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        await open_list(chat)
        await chat.type("parser")
        await chat.pilot.press("ctrl+f")
        await chat.wait_for_text("before in old-1-fork")
        assert "old-1-fork" in file.read_text()


async def test_delete_asks_for_confirmation(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        await chat.type("parser")
        await chat.pilot.press("delete")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.app.screen is screen)
        assert "old-1" in file.read_text(), "the default answer must keep the session"
        await chat.pilot.press("delete")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: "Deleted at keeper" in chat.screen)
        assert "old-1" not in file.read_text()
        assert "Fix the parser" not in rows(screen)


async def test_a_refused_deletion_is_reported(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        await chat.type("locked")
        await chat.pilot.press("delete")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: "it is under a lock" in chat.screen)
        assert "Locked" in rows(screen)


async def test_an_open_session_is_marked_and_cannot_be_deleted(file: Path) -> None:
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        await chat.send("title Working on it")
        await chat.wait_until(lambda: chat.view.turns == 1 and chat.view.status.title)
        await open_list(chat)
        await chat.type("working on")
        await chat.wait_until(lambda: "● Working on it" in chat.screen)
        await chat.pilot.press("delete")
        await chat.wait_until(lambda: "close its tab first" in chat.screen)


async def test_recorded_sessions_are_listed_resumed_and_deleted(
    tmp_path: Path,
) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("title Older work")
        await chat.wait_until(lambda: chat.view.turns == 1 and chat.view.status.title)
    chosen: list[str] = []

    def choose(name: str, cwd: str, trusting: object) -> ConfiguredAgent:
        chosen.append(name)
        return ConfiguredAgent(name=name, origin="user", command=DEMO_AGENT)

    async with running_chat(tmp_path, KEEPER, name="keeper", app={"choose_agent": choose}) as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        assert "Older work" in rows(screen)
        assert "recorded here" in chat.screen
        await chat.type("older")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.view.start.name == "demo")
        await chat.wait_for_text("heard before")
        assert chosen == ["demo"]
        await chat.app.open(chat.view.start)
        await chat.app.close(chat.app.views[0])
        await chat.app.close(chat.app.views[0]) if len(chat.app.views) > 1 else None
    async with running_chat(tmp_path, KEEPER, name="keeper") as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        await chat.type("older")
        await chat.pilot.press("delete")
        await chat.wait_until(lambda: isinstance(chat.app.screen, ConfirmScreen))
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: "Deleted here" in chat.screen)
        records = RecordedSessions.open()
        assert all(one.agent != "demo" for one in records.list())
        records.close()


async def test_f5_lists_the_sessions_of_all_configured_agents(file: Path, home: Path) -> None:
    (home / "config").mkdir()
    server = {"command": KEEPER[0], "args": [KEEPER[1]], "env": {"KEEPER_FILE": str(file)}}
    (home / "config" / "acp.json").write_text(
        json.dumps({"agent_servers": {"librarian": server, "broken": {"command": "/no/such/program"}}})
    )
    async with running_chat(file.parent / "here") as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        assert "Fix the parser" not in rows(screen)
        await chat.pilot.press("f5")
        await chat.wait_until(lambda: "Fix the parser" in rows(screen))
        await chat.wait_until(lambda: "Asked" in chat.screen)
        assert "librarian" in chat.screen


async def test_a_missing_folder_is_reported(file: Path) -> None:
    (file.parent / "away").rmdir()
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        screen = await open_list(chat)
        await chat.type("docs")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "no longer exists" in str(screen.message.render()))


async def test_what_was_said_is_found_and_a_session_is_renamed_and_archived(
    file: Path, tmp_path: Path
) -> None:
    records = RecordedSessions.open()
    for session_id, text in (("r1", "Cache the grammar"), ("r2", "Something else")):
        key = f"other/{session_id}"
        records.store.create(key, str(tmp_path), agent="other")
        with records.store.journal(key) as journal:
            journal.append(TurnStarted([TextContent(f"Prompt of {session_id}")]))
            journal.append(AgentMessageChunk(TextContent(text)), TurnEnded("end_turn"))
    records.store.create("other/empty", str(tmp_path), agent="other")  # never listed
    records.close()
    async with running_keeper(file) as chat:
        await chat.wait_ready()
        await open_list(chat)
        assert "Prompt of r1" in chat.screen
        assert "empty" not in chat.screen
        await chat.type("grammar")
        for _ in range(3):
            await chat.clock.advance(1)
            await chat.pilot.pause()
        await chat.wait_until(lambda: "“Cache the grammar”" in chat.screen)
        assert "Prompt of r2" not in chat.screen
        await chat.pilot.press("ctrl+r")
        await chat.wait_until(lambda: "Title of the session" in chat.screen)
        await chat.wait_until(lambda: "Enter confirm" in chat.screen and "Ctrl+F fork" not in chat.screen)
        await chat.pilot.press("ctrl+u")
        await chat.type("Speed")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "Renamed: Speed" in chat.screen)
        await chat.pilot.press("ctrl+a")
        await chat.wait_until(lambda: "Archived: Speed" in chat.screen)
    records = RecordedSessions.open()
    recorded = records.find("r1", agent="other")
    records.close()
    assert recorded is not None
    assert (recorded.summary.title, recorded.summary.archived) == ("Speed", True)
