"""Sessions that are taken up again: the newest of the folder, with what the agent tells of it, else with what was recorded here."""

import json
import sys
from pathlib import Path

from tests.tui.chat import chatting
from tests.tui.test_chat_command import chat as chat_plainly

AGENTS = Path(__file__).parent / "agents"
WORKER = (sys.executable, str(AGENTS / "worker.py"))
KEEPER = (sys.executable, str(AGENTS / "keeper.py"))


async def test_what_an_agent_does_not_tell_again_is_shown_from_our_own_records(tmp_path: Path) -> None:
    async with chatting(tmp_path, WORKER) as chat:
        await chat.ready()
        await chat.say("think of something")
        await chat.shows("thought it over", "done")
        await chat.say("tool")
        await chat.shows("✓ read Read it")
        await chat.ready()
    async with chatting(tmp_path, WORKER, newest=True) as chat:
        await chat.ready()
        await chat.shows("▌ think of something", "▸ Thought", "thought it over", "▌ tool", "✓ read Read it")
        assert chat.text.index("▌ think of something") < chat.text.index("▌ tool")
        await chat.say("more")
        await chat.shows("heard more")
    async with chatting(tmp_path, WORKER, session="s1") as chat:
        await chat.ready()
        await chat.shows("▌ think of something", "▌ tool", "heard more")
        assert chat.text.count("heard more") == 1


async def test_a_turn_that_was_broken_off_is_over_when_it_is_shown_again(tmp_path: Path) -> None:
    async with chatting(tmp_path, WORKER) as chat:
        await chat.ready()
        await chat.say("wait")
        await chat.shows("waiting")
    async with chatting(tmp_path, WORKER, newest=True) as chat:
        await chat.ready()
        await chat.shows("▌ wait", "waiting")
        await chat.say("again")
        await chat.shows("heard again")


async def test_the_newest_that_the_agent_lists_is_taken_up(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    listed = [
        {"sessionId": "older", "cwd": str(tmp_path), "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "newer", "cwd": str(tmp_path), "updatedAt": "2026-02-01T00:00:00Z"},
        {"sessionId": "elsewhere", "cwd": "/", "updatedAt": "2026-03-01T00:00:00Z"},
    ]
    kept.write_text(json.dumps(listed))
    async with chatting(tmp_path, KEEPER, newest=True, env={"KEEPER_FILE": str(kept)}) as chat:
        await chat.ready()
        await chat.shows("before in newer", "and the answer")


async def test_where_there_was_none_it_is_said(tmp_path: Path) -> None:
    async with chatting(tmp_path, WORKER, newest=True) as chat:
        await chat.until(lambda: chat.phase == "failed")
        await chat.until(lambda: "has no session of" in chat.screen and "Ctrl+R tries again" in chat.screen)


def test_the_option_continues_without_a_terminal_too(tmp_path: Path, home: Path) -> None:
    first = chat_plainly(tmp_path, home, "say one\n", "--", *WORKER)
    assert first.returncode == 0, first.stderr
    again = chat_plainly(tmp_path, home, "say two\n", "--continue", "--", *WORKER)
    assert again.returncode == 0, again.stderr
    assert "two" in again.stdout
    other = tmp_path / "other"
    other.mkdir()
    none = chat_plainly(other, home, "say three\n", "--continue", "--", *WORKER)
    assert none.returncode != 0
    assert "has no session of" in none.stderr
