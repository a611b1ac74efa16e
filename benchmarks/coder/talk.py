"""One running agent, spoken to line by line as an editor does, with the times at which things came."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from accord.testing.models import ModelServer

from ..processes import Reading, read
from .agents import CodingAgent

LIMIT = 64 * 1024 * 1024
PATIENCE = 60.0


class Talk:
    """`async with Talk(agent, server, home) as talk`. Every wait is bounded."""

    def __init__(self, agent: CodingAgent, server: ModelServer, home: Path) -> None:
        self.agent = agent
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
        """What it has used so far."""
        return read(self._process.pid)

    def ask(self, method: str, params: Any) -> int:
        """Send a request; its id."""
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result."""
        return await self.result(self.ask(method, params))

    async def result(self, number: int, hear: Callable[[Any], None] | None = None) -> Any:
        """The result of a request; `hear` sees what comes before it."""
        while True:
            message = await self.next()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{self.agent.title}: {message['error']}")
                return message["result"]
            if hear is not None:
                hear(message)

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """The next message of this sort."""
        while not wanted(message := await self.next()):
            pass
        return message

    async def next(self) -> Any:
        """The next message."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        if not line:
            raise RuntimeError(f"{self.agent.title} is gone")
        if b'"session/update"' in line:
            self.updates += 1
        return json.loads(line)

    async def initialize(self) -> None:
        """The handshake, as a client without files and terminals."""
        client = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        await self.call("initialize", client)

    async def new_session(self, cwd: Path) -> str:
        """A new session."""
        return (await self.call("session/new", {"cwd": str(cwd), "mcpServers": []}))["sessionId"]

    def prompt(self, session: str, text: str = "go") -> int:
        """Begin a turn."""
        return self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    def answer(self, message: Any, kind: str = "allow_once") -> None:
        """Answer a permission question with the option of this kind."""
        option = next(option for option in message["params"]["options"] if option["kind"] == kind)
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        self._send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


def asks(message: Any) -> bool:
    """Whether the agent asks for permission."""
    return message.get("method") == "session/request_permission"
