"""Choosing what an agent lets one choose, and other agents: by key, by mouse, by the palette, found by a few letters."""

import sys
from pathlib import Path

from tests.tui.chat import KEEPER, PUPPET, Chat, chatting

from accord.client.servers import Server
from accord.errors import UsageError
from accord.tui.agents import AgentsScreen
from accord.tui.lists.screen import ListScreen
from accord.tui.pickers import OptionsScreen, ValuesScreen


def shown(chat: Chat) -> list[str]:
    """The rows of the list on the screen, headings included."""
    screen = chat.app.screen
    assert isinstance(screen, ListScreen)
    return [row if isinstance(row, str) else row.name for row in screen.list.rows]


async def listed(chat: Chat, kind: type = ListScreen) -> ListScreen:
    """Wait for a list on the screen."""
    await chat.until(lambda: isinstance(chat.app.screen, kind) and chat.app.screen.is_mounted)
    await chat.pilot.pause()
    assert isinstance(chat.app.screen, ListScreen)
    return chat.app.screen


async def closed(chat: Chat) -> None:
    await chat.until(lambda: len(chat.app.screen_stack) == 1)


def setting(chat: Chat, id: str) -> str | bool:
    assert chat.view.conversation is not None
    session = chat.view.conversation.session
    assert session is not None
    return next(picker.current for picker in session.state.settings.pickers if picker.id == id)


async def test_a_model_is_chosen_in_its_group(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.until(lambda: "Small 2" in chat.screen)
        await chat.pilot.press("f3")
        await listed(chat, ValuesScreen)
        assert shown(chat)[:4] == ["Fast ones", "Tiny 1", "Small 2", "Able ones"]
        assert "▸ ● Small 2  quick and cheap" in chat.screen
        await chat.pilot.press("down", "enter")
        await closed(chat)
        assert setting(chat, "model") == "large"
        await chat.until(lambda: "Large 3" in chat.screen)


async def test_a_few_letters_find_it_and_esc_takes_them_away_first(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.pilot.press("f3")
        screen = await listed(chat, ValuesScreen)
        await chat.type("lar3")
        await chat.until(lambda: shown(chat) == ["Large 3"])
        await chat.pilot.press("escape")
        await chat.until(lambda: len(shown(chat)) == 6)
        assert chat.app.screen is screen
        await chat.pilot.press("escape")
        await closed(chat)
        assert setting(chat, "model") == "small"


async def test_what_the_agent_refuses_is_one_line_without_escapes(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.pilot.press("f3")
        screen = await listed(chat, ValuesScreen)
        await chat.type("huge")
        await chat.pilot.press("enter")
        await chat.until(lambda: "your plan" in chat.screen)
        assert chat.app.screen is screen
        assert "Model is as it was: your plan does not have it evil" in chat.screen
        assert "second line" not in chat.screen
        assert "\x1b" not in chat.screen
        assert "owned" not in chat.screen
        assert setting(chat, "model") == "small"


async def test_modes_and_every_other_option(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.pilot.press("f4")
        await listed(chat, ValuesScreen)
        assert shown(chat) == ["Ask first", "Just code"]
        await chat.type("just")
        await chat.pilot.press("enter")
        await closed(chat)
        assert setting(chat, "mode") == "code"
        await chat.pilot.press("f5")
        screen = await listed(chat, OptionsScreen)
        assert shown(chat) == ["Model", "Mode", "Use the web", "Effort"]
        await chat.type("web")
        await chat.pilot.press("enter")
        await chat.until(lambda: setting(chat, "web") is True)
        await chat.until(lambda: any(row.right == "on" for row in screen.list.rows))
        await chat.pilot.press("escape")
        await chat.type("effort")
        await chat.pilot.press("enter")
        await listed(chat, ValuesScreen)
        await chat.pilot.press("down", "enter")
        await listed(chat, OptionsScreen)
        await chat.until(lambda: [row.right for row in screen.all_rows][-1] == "High")
        assert setting(chat, "effort") == "high"


async def test_a_click_chooses_and_a_click_beside_closes(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.pilot.press("f3")
        screen = await listed(chat, ValuesScreen)
        await chat.pilot.click(screen.list, offset=(6, 1))
        await closed(chat)
        assert setting(chat, "model") == "tiny"
        await chat.pilot.press("f3")
        await listed(chat, ValuesScreen)
        await chat.pilot.click(offset=(1, 1))
        await closed(chat)


async def test_the_palette_of_commands_has_them(tmp_path: Path) -> None:
    async with chatting(tmp_path, KEEPER) as chat:
        await chat.ready()
        await chat.pilot.press("ctrl+p")
        await chat.until(lambda: len(chat.app.screen_stack) == 2)
        await chat.type("options of")
        await chat.until(lambda: "Options of the agent" in chat.screen)
        await chat.pilot.press("down", "enter")
        await listed(chat, OptionsScreen)


async def test_an_agent_without_settings_says_so(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.pilot.press("f3", "f5")
        expected = ["The agent lets nobody choose a model", "The agent has nothing to set"]
        await chat.until(lambda: chat.told == expected)


async def test_another_agent_takes_the_place_of_an_unused_session(tmp_path: Path, home: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "acp.json").write_text(
        f'{{"agent_servers": {{"other": {{"command": "{sys.executable}", "args": ["{PUPPET[1]}"], "description": "the other one"}}}}}}'
    )

    def choose(name: str, cwd: str, trusting: object) -> Server:
        return Server(name=name, origin="user", command=PUPPET)

    async with chatting(tmp_path, KEEPER, app={"choose": choose}) as chat:
        await chat.ready()
        await chat.pilot.press("ctrl+n")
        await listed(chat, AgentsScreen)
        await chat.until(lambda: "other" in shown(chat))
        assert shown(chat)[0] == "Keeper"
        await chat.type("other one")
        await chat.pilot.press("enter")
        await closed(chat)
        await chat.until(lambda: chat.view.start.name == "other" and len(chat.app.views) == 1)
        await chat.ready()
        await chat.say("hello")
        await chat.shows("heard hello")
        await chat.pilot.press("ctrl+n")
        await listed(chat, AgentsScreen)
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.app.views) == 2)
        assert chat.view.start.name == "other"
        await chat.ready()


async def test_an_agent_that_is_not_there_is_told_of_in_its_own_tab(tmp_path: Path) -> None:
    def choose(name: str, cwd: str, trusting: object) -> Server:
        raise UsageError(f"no agent is called {name!r}")

    async with chatting(tmp_path, KEEPER, app={"choose": choose}) as chat:
        await chat.ready()
        await chat.say("hello")
        await chat.shows("heard hello")
        await chat.pilot.press("ctrl+n")
        await listed(chat, AgentsScreen)
        await chat.until(lambda: len(shown(chat)) > 1)
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: len(chat.app.views) == 2 and chat.phase == "failed")
        await chat.shows("no agent is called")
