"""A running agent that is sent JSON-RPC lines, as an editor does."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from accord.testing.model_server import ModelServer
from benchmarks.coder.agents import CodingAgent
from benchmarks.processes import Reading, read

LIMIT = 64 * 1024 * 1024
TIMEOUT = 60.0


class AgentProcess:
    """`async with AgentProcess(agent, server, home) as process`. Every wait has a timeout."""

    def __init__(self, agent: CodingAgent, server: ModelServer, home: Path) -> None:
        self.agent = agent
        agent.write_files(server, home)
        self._env = agent.env(server, home)
        self._home = home
        self._ids = 0
        self.updates = 0

    async def __aenter__(self) -> Self:
        self.started = time.perf_counter()
        self._process = await asyncio.create_subprocess_exec(
            *self.agent.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._env,
            cwd=self._home,
            limit=LIMIT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def usage(self) -> Reading:
        """Read its processor time and memory."""
        return read(self._process.pid)

    def request(self, method: str, params: Any) -> int:
        """Send a request and return its id."""
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result."""
        return await self.result(self.request(method, params))

    async def result(self, number: int) -> Any:
        """Wait for the result of a request."""
        while True:
            message = await self.next()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{self.agent.title}: {message['error']}")
                return message["result"]

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Wait for the first message that fulfills the condition."""
        while not wanted(message := await self.next()):
            pass
        return message

    async def next(self) -> Any:
        """Wait for the next message."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), TIMEOUT)
        if not line:
            raise RuntimeError(f"{self.agent.title} has exited")
        if b'"session/update"' in line:
            self.updates += 1
        return json.loads(line)

    async def initialize(self) -> None:
        """Send `initialize` as a client without files and terminals."""
        client = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        await self.call("initialize", client)

    async def new_session(self, cwd: Path) -> str:
        """Open a session."""
        return (await self.call("session/new", {"cwd": str(cwd), "mcpServers": []}))["sessionId"]

    def prompt(self, session: str, text: str = "go") -> int:
        """Start a turn and return the id of the request."""
        return self.request(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        )

    def answer(self, message: Any, kind: str = "allow_once") -> None:
        """Answer a permission request with the option of this kind."""
        option = next(option for option in message["params"]["options"] if option["kind"] == kind)
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        self._send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


def is_permission_request(message: Any) -> bool:
    return message.get("method") == "session/request_permission"
