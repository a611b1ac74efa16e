"""MCP servers of a session, with an example agent that starts and initializes them."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent

from accord.agent import Agent, AgentSession, Turn
from accord.schema import McpServerStdio

SERVER = str(Path(__file__).parent / "programs" / "mcp_server.py")


async def start_server(server: McpServerStdio, cwd: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start a server and exchange the MCP `initialize` request with it."""
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        env={variable.name: variable.value for variable in server.env},
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    answer: Any = json.loads(await process.stdout.readline())
    info = answer["result"]["serverInfo"]
    return process, f"{info['name']} {info['title']}"


def agent_with_mcp() -> Agent:
    async def lists(turn: Turn) -> None:
        for _, name in turn.session.data:
            await turn.say(name)

    agent = make_agent(lists)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.data = []
        for server in session.mcp_servers:
            assert isinstance(server, McpServerStdio)
            try:
                session.data.append(await start_server(server, session.cwd))
            except OSError as error:
                await session.notice(f"MCP server {server.name} does not start", error.strerror)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        for process, _ in session.data:
            process.stdin.close()
            await process.wait()

    return agent


@pytest.mark.parametrize("reads", ["never", "in the handler", "from the request", "in the turn"])
async def test_servers_that_the_agent_drops_are_logged(reads: str, caplog: pytest.LogCaptureFixture) -> None:
    """Once per session, after the first turn, and only if no handler asked for them."""

    async def reply(turn: Turn) -> None:
        if reads == "in the turn":
            assert [one.name for one in turn.session.mcp_servers] in (["docs", "tickets"], [])
        await turn.say("hello")

    agent = make_agent(reply)

    @agent.new_session
    def begin(session: AgentSession) -> None:
        if reads == "in the handler":
            assert [one.name for one in session.mcp_servers] in (["docs", "tickets"], [])
        elif reads == "from the request":
            assert session.request.mcp_servers is not None

    async with connected_client(agent) as client:
        params = {"cwd": "/a", "mcpServers": [server("docs"), server("tickets")]}
        session = (await client.call("session/new", params))["sessionId"]
        empty = (await client.call("session/new", {"cwd": "/a", "mcpServers": []}))["sessionId"]
        assert caplog.messages == [], "a handler may still read them in the first turn"
        for id in (session, session, empty):
            prompt = {"sessionId": id, "prompt": [{"type": "text", "text": "hi"}]}
            await client.call("session/prompt", prompt)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (1 if reads == "never" else 0)
    assert all("'docs', 'tickets'" in one and "session.mcp_servers" in one for one in warnings)


def server(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "command": sys.executable,
        "args": [SERVER, "--for", name],
        "env": [{"name": "SERVER_NAME", "value": name.upper()}],
    }


@pytest.mark.rule("session.stdio-mcp-server", "session.every-mcp-server", "session.broken-mcp-server")
async def test_every_listed_server_is_started_and_a_broken_one_is_reported(tmp_path: Path) -> None:
    broken = {"name": "broken", "command": "/nonexistent/mcp", "args": [], "env": []}
    async with connected_client(agent_with_mcp()) as client:
        session = await client.new_session(str(tmp_path), mcpServers=[server("db"), broken, server("web")])
        (notice, *updates), _ = await client.turn(session)
        await client.call("session/close", {"sessionId": session})
    assert [update["content"]["text"] for update in updates] == ["DB --for db", "WEB --for web"]
    assert notice["content"]["text"] == "MCP server broken does not start: No such file or directory\n\n"
