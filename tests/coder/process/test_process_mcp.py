"""MCP servers that fail or hang beside the turns of a session, seen by a client of the real agent."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.coder.process.editor import Chat, started

WAITS_AND_FAILS = """
import os, sys
if os.path.exists(sys.argv[1]):
    open(sys.argv[1]).read()
    os.remove(sys.argv[1])
sys.exit(7)
"""


@pytest.fixture
def server(tmp_path: Path, home: Path) -> dict[str, Any]:
    """Return a server that never answers, and fails when the file `gate` is opened for writing."""
    os.mkfifo(tmp_path / "gate")
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text("[mcp]\nstart_seconds = 0.1\n")
    args = ["-c", WAITS_AND_FAILS, str(tmp_path / "gate")]
    return {"name": "gone", "command": sys.executable, "args": args, "env": []}


async def new_chat(editor: Any, server: dict[str, Any]) -> Chat:
    """Open a session with one MCP server."""
    opened = await editor.call("session/new", cwd=str(editor.folder), mcpServers=[server])
    return Chat(editor, opened, editor.folder)


async def test_server_that_fails_between_turns_is_reported_in_the_next_turn(
    home: Path, project: Path, tmp_path: Path, server: dict[str, Any]
) -> None:
    """A client without notices appends what arrives between turns to the last answer, so nothing does."""
    async with started(home, project, stderr=None) as editor:
        chat = await new_chat(editor, server)
        await chat.turn("list")
        await asyncio.to_thread((tmp_path / "gate").write_text, "")
        turns = [await chat.turn("/mcp")]
        while "(stdio): failed" not in turns[-1].text:
            turns.append(await chat.turn("/mcp"))
        turns.append(await chat.turn("list"))
        [told] = [
            (turn, update)
            for turn in turns
            for update in turn.of("agent_message_chunk")
            if "MCP server gone failed" in update["content"]["text"]
        ]
        turn, notice = told
        others = [update for update in turn.of("agent_message_chunk") if update is not notice]
        assert notice["messageId"] not in {update["messageId"] for update in others}
        assert notice["content"]["text"].endswith("\n\n")


async def test_server_that_fails_between_turns_is_a_notice_for_clients_that_show_them(
    home: Path, project: Path, tmp_path: Path, server: dict[str, Any]
) -> None:
    async with started(
        home, project, capabilities={"session": {"notices": {}}}, stderr=None, edition="schema.unstable"
    ) as editor:
        chat = await new_chat(editor, server)
        await chat.turn("list")
        await asyncio.to_thread((tmp_path / "gate").write_text, "")
        notice = await chat.update("notice", title="MCP server gone failed")
        assert notice["severity"] == "warning"
        record = await chat.turn("/mcp")
        assert "MCP server gone failed" not in record.text
