"""The list of sessions: gathered from agents and from what was recorded, searched, resumed, forked and deleted."""

import json
from pathlib import Path

import pytest
from tests.tui.chat import KEEPER, PUPPET, Chat, chatting

from accord.client.recording import Records
from accord.client.servers import Server
from accord.tui.lists.line import SureScreen
from accord.tui.stored.screen import SessionsScreen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What the keeper keeps."""
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


def keeping(file: Path, **more: object) -> object:
    return chatting(file.parent / "here", KEEPER, env={"KEEPER_FILE": str(file)}, name="keeper", **more)  # type: ignore[arg-type]


async def opened(chat: Chat) -> SessionsScreen:
    """The list, once the agents have been asked."""
    await chat.pilot.press("f2")
    await chat.until(lambda: isinstance(chat.app.screen, SessionsScreen))
    screen = chat.app.screen
    assert isinstance(screen, SessionsScreen)
    await chat.until(lambda: screen._gathered.asked and str(screen.told.render()) == "")
    return screen


def rows(screen: SessionsScreen) -> list[str]:
    return [row if isinstance(row, str) else row.name for row in screen.list.rows]


async def test_it_shows_what_the_agent_lists_with_folder_title_time_and_agent(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        screen = await opened(chat)
        shown = rows(screen)
        assert shown[0] == "This folder"
        assert shown.index("Fix the parser") < shown.index("Locked") < shown.index("Other folders")
        assert "Write docs" in shown
        await chat.until(lambda: "keeper · 2026-03-01" in chat.screen)
        assert f"Write docs  …{str(file.parent / 'away')[-35:]}" in chat.screen
        assert "\x1b" not in chat.screen


async def test_search_and_resume_in_a_tab(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        await chat.say("hello")
        await chat.shows("heard hello")
        screen = await opened(chat)
        await chat.type("away docs")
        await chat.until(lambda: rows(screen) == ["Write docs"])
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.app.views) == 2)
        await chat.ready()
        await chat.shows("before in old-2")
        assert chat.view.start.cwd == str(file.parent / "away")
        await opened(chat)
        await chat.type("write docs")
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.app.screen_stack) == 1)
        assert len(chat.app.views) == 2, "one that is open is shown"


async def test_fork(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        await opened(chat)
        await chat.type("parser")
        await chat.pilot.press("ctrl+f")
        await chat.shows("before in old-1-fork")
        assert "old-1-fork" in file.read_text()


async def test_delete_asks_first(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        screen = await opened(chat)
        await chat.type("parser")
        await chat.pilot.press("delete")
        await chat.until(lambda: isinstance(chat.app.screen, SureScreen))
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.app.screen is screen)
        assert "old-1" in file.read_text(), "the first answer keeps it"
        await chat.pilot.press("delete")
        await chat.until(lambda: isinstance(chat.app.screen, SureScreen))
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: "Deleted at keeper" in chat.screen)
        assert "old-1" not in file.read_text()
        assert "Fix the parser" not in rows(screen)


async def test_what_the_agent_will_not_delete_is_told(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        screen = await opened(chat)
        await chat.type("locked")
        await chat.pilot.press("delete")
        await chat.until(lambda: isinstance(chat.app.screen, SureScreen))
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: "it is under a lock" in chat.screen)
        assert "Locked" in rows(screen)


async def test_what_is_open_cannot_be_deleted_and_is_marked(file: Path) -> None:
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        await chat.say("title Working on it")
        await chat.until(lambda: chat.view.turns == 1 and chat.view.status.title)
        await opened(chat)
        await chat.type("working on")
        await chat.until(lambda: "● Working on it" in chat.screen)
        await chat.pilot.press("delete")
        await chat.until(lambda: "close its tab first" in chat.screen)


async def test_recorded_sessions_of_an_agent_that_cannot_list_are_shown_resumed_and_deleted(
    tmp_path: Path,
) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("title Older work")
        await chat.until(lambda: chat.view.turns == 1 and chat.view.status.title)
    chosen: list[str] = []

    def choose(name: str, cwd: str, trusting: object) -> Server:
        chosen.append(name)
        return Server(name=name, origin="user", command=PUPPET)

    async with chatting(tmp_path, KEEPER, name="keeper", app={"choose": choose}) as chat:
        await chat.ready()
        screen = await opened(chat)
        assert "Older work" in rows(screen)
        assert "recorded here" in chat.screen
        await chat.type("older")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.view.start.name == "puppet")
        await chat.shows("heard before")
        assert chosen == ["puppet"]
        await chat.app.open(chat.view.start)
        await chat.app.close(chat.app.views[0])
        await chat.app.close(chat.app.views[0]) if len(chat.app.views) > 1 else None
    async with chatting(tmp_path, KEEPER, name="keeper") as chat:
        await chat.ready()
        screen = await opened(chat)
        await chat.type("older")
        await chat.pilot.press("delete")
        await chat.until(lambda: isinstance(chat.app.screen, SureScreen))
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: "Deleted here" in chat.screen)
        records = Records.open()
        assert all(one.agent != "puppet" for one in records.list())
        records.close()


async def test_every_agent_that_is_set_up_is_asked_on_demand(file: Path, home: Path) -> None:
    (home / "config").mkdir()
    server = {"command": KEEPER[0], "args": [KEEPER[1]], "env": {"KEEPER_FILE": str(file)}}
    (home / "config" / "acp.json").write_text(
        json.dumps({"agent_servers": {"librarian": server, "broken": {"command": "/no/such/program"}}})
    )
    async with chatting(file.parent / "here") as chat:
        await chat.ready()
        screen = await opened(chat)
        assert "Fix the parser" not in rows(screen)
        await chat.pilot.press("f5")
        await chat.until(lambda: "Fix the parser" in rows(screen))
        await chat.until(lambda: "Asked" in chat.screen)
        assert "librarian" in chat.screen


async def test_a_folder_that_is_gone_is_told(file: Path) -> None:
    (file.parent / "away").rmdir()
    async with keeping(file) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        screen = await opened(chat)
        await chat.type("docs")
        await chat.pilot.press("enter")
        await chat.until(lambda: "is not there any more" in str(screen.told.render()))
