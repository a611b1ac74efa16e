"""A scene: an agent of this library, and a client spoken by hand at the other end of a memory pair.

Everything the agent says is held to the schema, what a test reads and what it leaves unread.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from accord.agent import Agent, AgentConnection, AgentOptions, Turn
from accord.testing.wire import Message, RawPeer, raw_pair

EVERYTHING: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
}
"""The capabilities of a client that can do all there is."""


class Client:
    """The client's side of a scene, with the usual phrases of the protocol at hand."""

    def __init__(self, raw: RawPeer, connection: AgentConnection) -> None:
        self.raw = raw
        self.connection = connection
        self.initialized: Any = None

    async def call(self, method: str, params: Any = None) -> Any:
        """A request that must succeed: its result."""
        return await self.raw.call(method, params)

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        """A request that must fail: its error."""
        answer = await self.raw.answer_to(self.raw.ask(method, params))
        assert "error" in answer, f"{method} succeeded: {answer}"
        return answer["error"]

    async def new_session(self, cwd: str = "/home/me/app", **more: Any) -> str:
        """A new session: its id."""
        result = await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})
        return result["sessionId"]

    def prompt(self, session: str, prompt: str | list[Any] = "go", **more: Any) -> Any:
        """Begin a turn: the id of the request."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.raw.ask("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def turn(self, session: str, prompt: str | list[Any] = "go") -> tuple[list[Any], Any]:
        """A whole turn: its updates, and its result."""
        return await self.turn_of(self.prompt(session, prompt))

    async def turn_of(self, id: Any) -> tuple[list[Any], Any]:
        """The rest of a turn that has begun: its updates, and its result."""
        updates: list[Any] = []
        while True:
            message = await self.raw.next()
            if message.get("method") == "session/update":
                updates.append(message["params"]["update"])
            elif "method" not in message and message["id"] == id:
                assert "result" in message, f"the turn failed: {message}"
                return updates, message["result"]

    def cancel(self, session: str) -> None:
        """Ask the agent to end the turn."""
        self.raw.notify("session/cancel", {"sessionId": session})

    async def asked(self, method: str) -> Message:
        """The next request of the agent, which must be this one; updates before it are passed over."""
        message = await self.asked_any()
        assert message["method"] == method, message
        return message

    async def asked_any(self) -> Message:
        """The next request of the agent, whichever it is."""
        return await self.raw.until(lambda message: "id" in message and "method" in message)

    async def update(self, kind: str) -> Any:
        """The next update of this kind."""
        message = await self.raw.until(
            lambda message: (
                message.get("method") == "session/update"
                and message["params"]["update"]["sessionUpdate"] == kind
            )
        )
        return message["params"]["update"]

    def said(self, kind: str) -> list[Any]:
        """All updates of this kind heard so far."""
        return [update for update in self.updates() if update["sessionUpdate"] == kind]

    def updates(self) -> list[Any]:
        """All updates heard so far, in order."""
        return [
            message["params"]["update"]
            for message in self.raw.heard
            if message.get("method") == "session/update"
        ]

    def methods(self) -> list[str]:
        """The methods of everything the agent sent of its own accord, in order."""
        return [message["method"] for message in self.raw.heard if "method" in message]


@asynccontextmanager
async def talk(
    agent: Agent,
    *,
    capabilities: dict[str, Any] | None = None,
    initialize: bool = True,
    options: AgentOptions | None = None,
) -> AsyncGenerator[Client]:
    """A client connected to the agent, with the handshake behind it. At the end it hangs up, and all is judged."""
    ours, raw = raw_pair(hears="agent")
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
    for message in raw.heard:
        raw.judge(message)


def agent_that(answers: Callable[[Turn], Any], **more: Any) -> Agent:
    """An agent with this function for its prompts."""
    agent = Agent("scene", version="1.0", **more)
    agent.prompt(answers)
    return agent


async def silent(turn: Turn) -> None:
    """Answers a prompt without a word."""


STRICT = AgentOptions(strict=True)
