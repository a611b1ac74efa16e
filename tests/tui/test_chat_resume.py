"""`accord chat --continue` and `--session`: the history comes from the agent, or else from the record."""

import json
import sys
from pathlib import Path

from tests.tui.chat import running_chat
from tests.tui.test_chat_command import chat as chat_without_terminal

AGENTS = Path(__file__).parent / "agents"
WORKER = (sys.executable, str(AGENTS / "worker.py"))
KEEPER = (sys.executable, str(AGENTS / "keeper.py"))


async def test_a_history_that_the_agent_does_not_replay_comes_from_the_record(tmp_path: Path) -> None:
    async with running_chat(tmp_path, WORKER) as chat:
        await chat.wait_ready()
        await chat.send("think of something")
        await chat.wait_for_text("thought it over", "done")
        await chat.send("tool")
        await chat.wait_for_text("✓ Read it")
        await chat.wait_ready()
    async with running_chat(tmp_path, WORKER, newest=True) as chat:
        await chat.wait_ready()
        await chat.wait_for_text(
            "▌ think of something", "▸ Thought", "thought it over", "▌ tool", "✓ Read it"
        )
        assert chat.text.index("▌ think of something") < chat.text.index("▌ tool")
        await chat.send("more")
        await chat.wait_for_text("heard more")
    async with running_chat(tmp_path, WORKER, session="s1") as chat:
        await chat.wait_ready()
        await chat.wait_for_text("▌ think of something", "▌ tool", "heard more")
        assert chat.text.count("heard more") == 1


async def test_an_interrupted_turn_is_ended_when_the_session_continues(tmp_path: Path) -> None:
    async with running_chat(tmp_path, WORKER) as chat:
        await chat.wait_ready()
        await chat.send("wait")
        await chat.wait_for_text("waiting")
    async with running_chat(tmp_path, WORKER, newest=True) as chat:
        await chat.wait_ready()
        await chat.wait_for_text("▌ wait", "waiting")
        await chat.send("again")
        await chat.wait_for_text("heard again")


async def test_continue_loads_the_newest_session_that_the_agent_lists(tmp_path: Path) -> None:
    sessions_file = tmp_path / "kept.json"
    listed = [
        {"sessionId": "older", "cwd": str(tmp_path), "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "newer", "cwd": str(tmp_path), "updatedAt": "2026-02-01T00:00:00Z"},
        {"sessionId": "elsewhere", "cwd": "/", "updatedAt": "2026-03-01T00:00:00Z"},
    ]
    sessions_file.write_text(json.dumps(listed))
    async with running_chat(tmp_path, KEEPER, newest=True, env={"KEEPER_FILE": str(sessions_file)}) as chat:
        await chat.wait_ready()
        await chat.wait_for_text("before in newer", "and the answer")


async def test_continue_without_sessions_shows_a_notice(tmp_path: Path) -> None:
    async with running_chat(tmp_path, WORKER, newest=True) as chat:
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_until(
            lambda: "has no session in" in chat.screen and "Ctrl+R try again" in chat.screen
        )


def test_continue_works_without_a_terminal(tmp_path: Path, home: Path) -> None:
    first = chat_without_terminal(tmp_path, home, "say one\n", "--", *WORKER)
    assert first.returncode == 0, first.stderr
    again = chat_without_terminal(tmp_path, home, "say two\n", "--continue", "--", *WORKER)
    assert again.returncode == 0, again.stderr
    assert "two" in again.stdout
    other = tmp_path / "other"
    other.mkdir()
    none = chat_without_terminal(other, home, "say three\n", "--continue", "--", *WORKER)
    assert none.returncode != 0
    assert "has no session in" in none.stderr
