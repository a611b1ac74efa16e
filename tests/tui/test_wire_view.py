"""The wire view: the messages of a session as they cross, filtered, in full, and harmless."""

from pathlib import Path
from typing import Any

from tests.tui.chat import Chat, chatting

from accord.testing import FakeClock
from accord.tui.wire.screen import WireScreen
from accord.tui.wire.sieve import Sieve


async def wire(chat: Chat) -> WireScreen:
    await chat.pilot.press("f12")
    await chat.until(lambda: isinstance(chat.app.screen, WireScreen))
    await chat.pilot.pause()
    assert isinstance(chat.app.screen, WireScreen)
    return chat.app.screen


def names(screen: WireScreen) -> list[str]:
    return [f"{'>' if row.sender == 'client' else '<'} {row.kind} {row.method}" for row in screen.list.rows]


async def test_it_shows_direction_time_method_and_size(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(120, 40)) as chat:
        await chat.ready()
        screen = await wire(chat)
        assert names(screen) == [
            "> request initialize",
            "< answer initialize",
            "> request session/new",
            "< answer session/new",
        ]
        await chat.until(lambda: "→ initialize" in chat.screen)
        line = next(line for line in chat.screen.splitlines() if "← = initialize" in line)
        assert " B " in line
        assert "4 of 4 messages" in chat.screen
        await chat.pilot.press("f12")
        await chat.until(lambda: len(chat.app.screen_stack) == 1)


async def test_it_is_live_and_follows_until_the_mark_is_moved(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        screen = await wire(chat)
        chat.view.say(_draft("say one"))
        await chat.until(lambda: "< answer session/prompt" in names(screen))
        await chat.until(lambda: screen.list.marked is screen.list.rows[-1])
        await chat.pilot.press("up")
        marked = screen.list.marked
        chat.view.say(_draft("say two"))
        await chat.until(lambda: names(screen).count("< answer session/prompt") == 2)
        assert screen.list.marked is marked
        await chat.until(lambda: "not following" in chat.screen)
        await chat.pilot.press("ctrl+end")
        await chat.until(lambda: "not following" not in chat.screen)
        assert screen.list.marked is screen.list.rows[-1]


async def test_filters(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("fail")
        await chat.until(lambda: chat.view.turns == 1)
        screen = await wire(chat)
        for text, expected in (
            ("prompt >", ["> request session/prompt"]),
            ("!", ["< error session/prompt"]),
            ("not reachable", ["< error session/prompt"]),
            ("< -prompt -session", ["< answer initialize"]),
            ("nothing like it", []),
        ):
            screen.letters.value = text
            await chat.until(lambda expected=expected: names(screen) == expected)
        await chat.until(lambda: "Nothing fits" in chat.screen)
        await chat.pilot.press("escape")
        await chat.until(lambda: len(names(screen)) == 6)


async def test_the_marked_message_is_shown_in_full_and_can_be_copied(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(160, 50)) as chat:
        await chat.ready()
        screen = await wire(chat)
        screen.letters.value = "session/new >"
        await chat.until(lambda: len(names(screen)) == 1)
        await chat.until(lambda: '"method": "session/new",' in chat.screen and '"cwd":' in chat.screen)
        await chat.pilot.press("f8")
        assert '  "params": {\n' in chat.app.clipboard
        await chat.pilot.press("tab")
        assert chat.app.focused is screen.query_one("#whole")
        await chat.pilot.press("tab")
        assert chat.app.focused is screen.letters


async def test_a_click_marks(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        screen = await wire(chat)
        await chat.pilot.click(screen.list, offset=(10, 0))
        await chat.until(lambda: screen.list.at == 0)
        await chat.until(lambda: "client → agent · request · initialize" in chat.screen)


async def test_escapes_and_secrets_do_not_reach_the_screen(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(160, 50)) as chat:
        await chat.ready()
        await chat.say("evil")
        await chat.until(lambda: chat.view.turns == 1)
        await chat.say("say API_KEY=sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
        await chat.until(lambda: chat.view.turns == 2)
        screen = await wire(chat)
        for text in ("owned <", "prompt > redacted"):
            screen.letters.value = text
            await chat.until(lambda: len(names(screen)) >= 1)
            await chat.pilot.pause()
            assert "\x1b" not in chat.screen
            assert "\u202e" not in chat.screen
            assert "aaaaaaaa" not in chat.screen
        screen.letters.value = "aaaaaaaaaaa"
        await chat.until(lambda: names(screen) == [])


async def test_what_the_agent_wrote_to_stderr_and_its_end_are_in_it(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("die")
        await chat.until(lambda: chat.phase == "dead")
        await wire(chat)
        await chat.until(lambda: "stderr" in chat.screen and "exit" in chat.screen)


async def test_one_ring_sees_the_agent_that_is_started_again(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("die")
        await chat.until(lambda: chat.phase == "dead")
        await chat.pilot.press("ctrl+r")
        await chat.ready()
        screen = await wire(chat)
        assert names(screen).count("> request initialize") == 2


def test_a_filter_remembers_what_it_found() -> None:
    from accord.trace import Ring

    ring = Ring(clock=FakeClock())
    ring.note(
        "client", [b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"abc"}}', b"noise"]
    )
    first, second = ring.seen
    assert Sieve("cancel abc").wants(first)
    assert not Sieve("cancel abc").wants(second)
    assert Sieve("! noise").wants(second)
    assert not Sieve("<").wants(first)
    sieve = Sieve("cancel")
    assert [sieve.wants(one) for one in (first, second, first)] == [True, False, True]


def _draft(text: str) -> Any:
    from accord.tui.draft import Draft

    return Draft(text)


async def test_the_key_that_quits_is_understood_on_top_of_a_session(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.pilot.press("f12")
        await chat.until(lambda: isinstance(chat.app.screen, WireScreen))
        await chat.pilot.press("ctrl+q")
        assert chat.app._exit
