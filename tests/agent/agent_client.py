"""A raw client connected to an agent over a memory pair.

Every message of the agent is checked against the schema, including those that a test does not read.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from accord.agent import Agent, AgentConnection, AgentOptions, Turn
from accord.testing.raw_peer import RawPeer, raw_pair
from accord.wire.envelope import Message

EVERYTHING: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
}
"""The capabilities of a client that supports everything."""


class Client:
    """The client's end of the connection, with the common requests of the protocol."""

    def __init__(self, raw: RawPeer, connection: AgentConnection) -> None:
        self.raw = raw
        self.connection = connection
        self.initialized: Any = None

    async def call(self, method: str, params: Any = None) -> Any:
        """Send a request that must succeed; return its result."""
        return await self.raw.call(method, params)

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request that must fail; return its error."""
        answer = await self.raw.answer_to(self.raw.ask(method, params))
        assert "error" in answer, f"{method} succeeded: {answer}"
        return answer["error"]

    async def new_session(self, cwd: str = "/home/me/app", **more: Any) -> str:
        """Open a session; return its id."""
        result = await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})
        return result["sessionId"]

    def prompt(self, session: str, prompt: str | list[Any] = "go", **more: Any) -> Any:
        """Start a turn; return the id of the request."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.raw.ask("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def turn(self, session: str, prompt: str | list[Any] = "go") -> tuple[list[Any], Any]:
        """Run a whole turn; return its updates and its result."""
        return await self.turn_of(self.prompt(session, prompt))

    async def turn_of(self, id: Any) -> tuple[list[Any], Any]:
        """Run a started turn to its end; return the remaining updates and the result."""
        updates: list[Any] = []
        while True:
            message = await self.raw.next()
            if message.get("method") == "session/update":
                updates.append(message["params"]["update"])
            elif "method" not in message and message["id"] == id:
                assert "result" in message, f"the turn failed: {message}"
                return updates, message["result"]

    def cancel(self, session: str) -> None:
        """Cancel the turn of a session."""
        self.raw.notify("session/cancel", {"sessionId": session})

    async def asked(self, method: str) -> Message:
        """Wait for the next request of the agent, which must be this one; skip the updates before it."""
        message = await self.asked_any()
        assert message["method"] == method, message
        return message

    async def asked_any(self) -> Message:
        """Wait for the next request of the agent."""
        return await self.raw.until(lambda message: "id" in message and "method" in message)

    async def update(self, kind: str) -> Any:
        """Wait for the next update of this kind."""
        message = await self.raw.until(
            lambda message: (
                message.get("method") == "session/update"
                and message["params"]["update"]["sessionUpdate"] == kind
            )
        )
        return message["params"]["update"]

    def updates_of(self, kind: str) -> list[Any]:
        """All updates of this kind received so far."""
        return [update for update in self.updates() if update["sessionUpdate"] == kind]

    def updates(self) -> list[Any]:
        """All updates received so far, in order."""
        return [
            message["params"]["update"]
            for message in self.raw.received
            if message.get("method") == "session/update"
        ]

    def methods(self) -> list[str]:
        """The methods of all requests and notifications of the agent, in order."""
        return [message["method"] for message in self.raw.received if "method" in message]


@asynccontextmanager
async def connected_client(
    agent: Agent,
    *,
    capabilities: dict[str, Any] | None = None,
    initialize: bool = True,
    options: AgentOptions | None = None,
) -> AsyncGenerator[Client]:
    """A client connected to the agent, by default initialized. Checks all messages at the end."""
    ours, raw = raw_pair(validate="agent")
    connection = agent.connect(ours, options=options)
    client = Client(raw, connection)
    try:
        if initialize:
            offered = {} if capabilities is None else {"clientCapabilities": capabilities}
            client.initialized = await client.call("initialize", {"protocolVersion": 1, **offered})
        yield client
    finally:
        await raw.aclose()
        await connection
    for message in raw.received:
        raw.validate(message)


def make_agent(answers: Callable[[Turn], Any], **more: Any) -> Agent:
    """An agent with this prompt handler."""
    agent = Agent("test-agent", version="1.0", **more)
    agent.prompt(answers)
    return agent


async def silent(turn: Turn) -> None:
    """Ends the turn without output."""


STRICT = AgentOptions(strict=True)
