"""The client that the checker plays answers every request of an agent."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.check.silent_peers import receive, silent_agent

from accord.check.agent.client_responder import Reply
from accord.trace.wire_line import WireLine


async def answers(folder: Path, method: str, **params: Any) -> dict[str, Any]:
    """The answer to one request."""
    agent = silent_agent(folder)
    receive(agent, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    await agent.close()
    assert agent.lines[-1].sender == "client"
    return agent.lines[-1].message or {}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("\0x", -32602),
        ("../outside.txt", -32602),
        ("missing.txt", -32002),
        ("folder", -32603),
        ("a" * 5000, -32603),
        ("latin.txt", -32603),
        ("pipe", -32603),
        ("notes.txt/inner", -32603),
        ("big.txt", -32603),
        ("loop", -32602),
    ],
)
async def test_a_file_that_cannot_be_read_is_an_error(path: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("one\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    message = await answers(tmp_path, "fs/read_text_file", path=f"{tmp_path}/{path}")
    assert message["error"]["code"] == code


@pytest.mark.parametrize(
    ("path", "content", "code"),
    [
        ("\0x", "x", -32602),
        ("../outside.txt", "x", -32602),
        ("folder", "x", -32603),
        ("a" * 5000, "x", -32603),
        ("notes.txt/inner", "x", -32603),
        ("pipe", "x", -32603),
        ("new.txt", 5, -32602),
    ],
)
async def test_a_file_that_cannot_be_written_is_an_error(
    path: str, content: Any, code: int, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("one\n")
    os.mkfifo(tmp_path / "pipe")
    message = await answers(tmp_path, "fs/write_text_file", path=f"{tmp_path}/{path}", content=content)
    assert message["error"]["code"] == code


async def test_files_are_read_and_written(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "notes.txt")
    message = await answers(tmp_path, "fs/write_text_file", path=path, content="one\ntwo\nthree\n")
    assert message["result"] == {}
    message = await answers(tmp_path, "fs/read_text_file", path=path, line=2, limit=1)
    assert message["result"] == {"content": "two\n"}


async def test_a_handler_that_fails_is_an_internal_error(tmp_path: Path) -> None:
    def fail(line: WireLine) -> Reply:
        raise RuntimeError(line.method)

    agent = silent_agent(tmp_path)
    agent.responder.overrides["terminal/create"] = fail
    receive(agent, {"jsonrpc": "2.0", "id": 1, "method": "terminal/create", "params": {}})
    await agent.close()
    assert (agent.lines[-1].message or {})["error"] == {
        "code": -32603,
        "message": "terminal/create cannot be served here: RuntimeError",
    }
