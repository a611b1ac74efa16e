"""MCP servers of a gateway's clients: `accord agent` starts them only for tokens with the right."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import accord as accord_command
from tests.cli.serve.gateway_process import running_gateway

import accord
from accord.errors import RpcError
from accord.schema import McpServerStdio

CODING_AGENT = ("--", sys.executable, "-m", "accord.cli", "agent", "--model", "rehearsal")


def new_token(home: Path, *words: str) -> str:
    code, out, err = accord_command(home, "serve", "token", "new", "--plain", *words)
    assert code == 0, err
    return out.strip()


async def test_a_folder_token_runs_no_command_through_an_mcp_server(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    bound, trusted = (
        new_token(home, "--folder", str(project)),
        new_token(home, "--folder", str(project), "--allow-mcp"),
    )
    with running_gateway(home, *CODING_AGENT) as gateway:
        for scheme in ("ws", "http"):
            proof, started = tmp_path / f"{scheme}-proof", tmp_path / f"{scheme}-started"
            os.mkfifo(started)
            line = f"touch {proof}; echo > {started}"
            server = McpServerStdio("touch", "sh", ["-c", line], [])
            url = gateway.websocket.replace("ws", scheme, 1)
            async with accord.connect(url, token=bound) as agent:
                with pytest.raises(RpcError, match="may not add MCP servers") as refused:
                    await agent.new_session(project, mcp_servers=[server])
                assert refused.value.code == -32003
                session = await agent.new_session(project)
                assert "no MCP servers" in (await session.ask("/mcp")).text
                with pytest.raises(RpcError, match="may not add MCP servers"):
                    await agent.load_session(session.id, project, mcp_servers=[server])
            assert not proof.exists()
            async with accord.connect(url, token=trusted) as agent:
                session = await agent.new_session(project, mcp_servers=[server])
                await asyncio.to_thread(started.read_bytes)
                assert proof.exists()
                said = (await session.ask("/mcp")).text
                assert "`touch` (stdio)" in said
                assert f"started with `sh -c '{line}'`" in said


def test_the_right_is_listed_and_excludes_read_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    new_token(home, "--folder", str(tmp_path), "--allow-mcp")
    _, out, _ = accord_command(home, "serve", "token", "list")
    assert f"may use all agents in {tmp_path}, with MCP servers of the client" in out
    code, _, err = accord_command(home, "serve", "token", "new", "--allow-mcp", "--read-only")
    assert code == 2
    assert err.count("\n") == 1
    assert "--allow-mcp and --read-only exclude each other" in err
