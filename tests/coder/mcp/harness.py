"""Runs an MCP host in a session, records its hook calls, and uses its tools as the agent loop does."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from accord.coder.mcp.host import McpHost
from accord.coder.tools.tool import ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.schema.client_requests import EnvVariable
from accord.schema.mcp import McpServer, McpServerStdio

HERE = Path(__file__).parent


class McpSession:
    """An MCP host and its hooks."""

    def __init__(self, servers: Sequence[McpServer], cwd: Path, **more: Any) -> None:
        self.failures: list[tuple[str, str]] = []
        self.asked: list[tuple[str, Any]] = []
        self.left_out_tools: dict[str, list[str]] = {}
        self.answer: Callable[[], Awaitable[tuple[str, dict[str, Any] | None]]] = self._accept
        self.shown: list[ToolProgress] = []
        self._news = asyncio.Event()
        limits = more.pop("tool_limits", None)
        self.context = ToolContext(cwd=str(cwd), sees_images=True, **({"limits": limits} if limits else {}))
        self.host = McpHost(servers, cwd=str(cwd), roots=[str(cwd)], hooks=self, **more)

    async def __aenter__(self) -> "McpSession":
        self.host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.aclose()

    async def ready(self) -> "McpSession":
        await self.host.wait_started(50)
        return self

    # -- hooks -----------------------------------------------------------------------------------------------

    def changed(self) -> None:
        self._news.set()

    def failed(self, name: str, reason: str) -> None:
        self.failures.append((name, reason))
        self._news.set()

    def left_out(self, name: str, tools: Sequence[str]) -> None:
        self.left_out_tools[name] = list(tools)
        self._news.set()

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        self.asked.append((message, schema))
        self._news.set()
        return await self.answer()

    async def elicit_url(self, message: str, url: str) -> str:
        self.asked.append((message, url))
        self._news.set()
        return (await self.answer())[0]

    async def _accept(self) -> tuple[str, dict[str, Any] | None]:
        return "accept", {"colour": "red"}

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds, checking it after every hook call."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    # -- tools -----------------------------------------------------------------------------------------------

    @property
    def status(self) -> dict[str, str]:
        return {state.name: state.status for state in self.host.states}

    async def use(self, tool: str, **arguments: Any) -> ToolOutcome:
        async def report(progress: ToolProgress) -> None:
            self.shown.append(progress)

        call = await self.host.tools[tool].prepare(arguments, self.context)
        return await call.run(report)

    async def done(self, tool: str, **arguments: Any) -> str:
        outcome = await self.use(tool, **arguments)
        assert not outcome.failed, outcome.text
        return outcome.text

    async def refused(self, tool: str, **arguments: Any) -> str:
        outcome = await self.use(tool, **arguments)
        assert outcome.failed, outcome.text
        return outcome.text


def stdio_server(name: str, script: str, *args: object, **env: str) -> McpServerStdio:
    """Return a server from a script in this folder."""
    variables = [EnvVariable(name, value) for name, value in env.items()]
    return McpServerStdio(name, sys.executable, [str(HERE / script), *map(str, args)], variables)


async def wait_for_text(path: Path, word: str) -> None:
    """Wait until another process has written the word to a file."""
    while not (path.exists() and word in path.read_text()):
        await asyncio.to_thread(os.sched_yield)


@asynccontextmanager
async def serve_app(app: Any, port: int = 0) -> AsyncGenerator[str, None]:
    """Serve an ASGI app on the loopback interface and yield its address, without a path."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


def without_discovery(app: Any) -> Any:
    """Make the app reject `server/discover`, as older servers do."""

    async def older(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"server/discover":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    return older
