"""The wire view: the messages of a session, live, filtered, in full, without escape sequences."""

from pathlib import Path
from typing import Any

from tests.tui.chat import Chat, running_chat

from accord.testing import FakeClock
from accord.tui.wire_screen import FrameFilter, WireScreen


async def open_wire_view(chat: Chat) -> WireScreen:
    await chat.pilot.press("f12")
    await chat.wait_until(lambda: isinstance(chat.app.screen, WireScreen))
    await chat.pilot.pause()
    assert isinstance(chat.app.screen, WireScreen)
    return chat.app.screen


def names(screen: WireScreen) -> list[str]:
    return [f"{'>' if row.sender == 'client' else '<'} {row.kind} {row.method}" for row in screen.list.rows]


async def test_the_list_shows_direction_method_and_size(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(120, 40)) as chat:
        await chat.wait_ready()
        screen = await open_wire_view(chat)
        assert names(screen) == [
            "> request initialize",
            "< answer initialize",
            "> request session/new",
            "< answer session/new",
        ]
        await chat.wait_until(lambda: "→ initialize" in chat.screen)
        line = next(line for line in chat.screen.splitlines() if "← = initialize" in line)
        assert " B " in line
        assert "4 of 4 messages" in chat.screen
        await chat.pilot.press("f12")
        await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)


async def test_the_list_follows_new_messages_until_the_selection_moves(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        screen = await open_wire_view(chat)
        chat.view.submit(_draft("say one"))
        await chat.wait_until(lambda: "< answer session/prompt" in names(screen))
        await chat.wait_until(lambda: screen.list.selected is screen.list.rows[-1])
        await chat.pilot.press("up")
        marked = screen.list.selected
        chat.view.submit(_draft("say two"))
        await chat.wait_until(lambda: names(screen).count("< answer session/prompt") == 2)
        assert screen.list.selected is marked
        await chat.wait_until(lambda: "not following" in chat.screen)
        await chat.pilot.press("ctrl+end")
        await chat.wait_until(lambda: "not following" not in chat.screen)
        assert screen.list.selected is screen.list.rows[-1]


async def test_the_list_is_filtered(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("fail")
        await chat.wait_until(lambda: chat.view.turns == 1)
        screen = await open_wire_view(chat)
        for text, expected in (
            ("prompt >", ["> request session/prompt"]),
            ("!", ["< error session/prompt"]),
            ("not reachable", ["< error session/prompt"]),
            ("< -prompt -session", ["< answer initialize"]),
            ("nothing like it", []),
        ):
            screen.filter_input.value = text
            await chat.wait_until(lambda expected=expected: names(screen) == expected)
        await chat.wait_until(lambda: "No matches" in chat.screen)
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: len(names(screen)) == 6)


async def test_the_selected_message_is_shown_in_full_and_can_be_copied(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(160, 50)) as chat:
        await chat.wait_ready()
        screen = await open_wire_view(chat)
        screen.filter_input.value = "session/new >"
        await chat.wait_until(lambda: len(names(screen)) == 1)
        await chat.wait_until(lambda: '"method": "session/new",' in chat.screen and '"cwd":' in chat.screen)
        await chat.pilot.press("f8")
        assert '  "params": {\n' in chat.app.clipboard
        await chat.pilot.press("tab")
        assert chat.app.focused is screen.query_one("#whole")
        await chat.pilot.press("tab")
        assert chat.app.focused is screen.filter_input


async def test_a_click_selects_a_message(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        screen = await open_wire_view(chat)
        await chat.pilot.click(screen.list, offset=(10, 0))
        await chat.wait_until(lambda: screen.list.selected_index == 0)
        await chat.wait_until(lambda: "client → agent · request · initialize" in chat.screen)


async def test_escape_sequences_and_secrets_are_not_shown(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(160, 50)) as chat:
        await chat.wait_ready()
        await chat.send("evil")
        await chat.wait_until(lambda: chat.view.turns == 1)
        await chat.send("say API_KEY=sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
        await chat.wait_until(lambda: chat.view.turns == 2)
        screen = await open_wire_view(chat)
        for text in ("owned <", "prompt > redacted"):
            screen.filter_input.value = text
            await chat.wait_until(lambda: len(names(screen)) >= 1)
            await chat.pilot.pause()
            assert "\x1b" not in chat.screen
            assert "\u202e" not in chat.screen
            assert "aaaaaaaa" not in chat.screen
        screen.filter_input.value = "aaaaaaaaaaa"
        await chat.wait_until(lambda: names(screen) == [])


async def test_stderr_and_exit_of_the_agent_are_listed(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("die")
        await chat.wait_until(lambda: chat.phase == "dead")
        await open_wire_view(chat)
        await chat.wait_until(lambda: "stderr" in chat.screen and "exit" in chat.screen)


async def test_messages_of_a_restarted_agent_are_listed(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("die")
        await chat.wait_until(lambda: chat.phase == "dead")
        await chat.pilot.press("ctrl+r")
        await chat.wait_ready()
        screen = await open_wire_view(chat)
        assert names(screen).count("> request initialize") == 2


def test_a_filter_matches_methods_and_text() -> None:
    from accord.trace import FrameRing

    ring = FrameRing(clock=FakeClock())
    ring.add_frames(
        "client", [b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"abc"}}', b"noise"]
    )
    first, second = ring.entries
    assert FrameFilter("cancel abc").matches(first)
    assert not FrameFilter("cancel abc").matches(second)
    assert FrameFilter("! noise").matches(second)
    assert not FrameFilter("<").matches(first)
    sieve = FrameFilter("cancel")
    assert [sieve.matches(one) for one in (first, second, first)] == [True, False, True]


def _draft(text: str) -> Any:
    from accord.tui.chat_types import Draft

    return Draft(text)


async def test_ctrl_q_quits_from_the_wire_view(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.pilot.press("f12")
        await chat.wait_until(lambda: isinstance(chat.app.screen, WireScreen))
        await chat.pilot.press("ctrl+q")
        assert chat.app._exit
