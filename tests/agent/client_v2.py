"""A raw client in version 2, connected to an agent over a memory pair.

Every message of the agent is validated against the official schema of version 2.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.interop.wire_record import official_faults

from accord.agent import Agent, AgentConnection, AgentOptions
from accord.testing.raw_peer import RawPeer, WireFault
from accord.wire.envelope import Message, id_key
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport


class OfficialPeerV2(RawPeer):
    """A raw client that validates the messages of an agent."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.asked: dict[Any, str] = {}

    def send(self, message: Message | bytes | str) -> None:
        if isinstance(message, dict) and "method" in message and "id" in message:
            self.asked[id_key(message["id"])] = message["method"]
        super().send(message)

    async def call_unchecked(self, method: str, params: Any) -> Message:
        """Send a request and return the whole answer, which need not be of version 2."""
        id = self.ask(method, params)
        self.asked[id_key(id)] = "_unchecked"
        return await self.answer_to(id)

    def updates(self, kind: str) -> list[Any]:
        """The received updates of one kind."""
        updates = [m["params"]["update"] for m in self.received if m.get("method") == "session/update"]
        return [update for update in updates if update["sessionUpdate"] == kind]

    def validate(self, message: Message) -> None:
        if message.get("id", 0) is None:
            return  # an error for a message whose id could not be used
        faults = list(official_faults(message, "agent", self.asked, "schema.unstable", 2))
        if faults:
            raise WireFault(f"{faults} in {message}")


class ClientV2:
    """A client in version 2, with the common requests."""

    def __init__(self, raw: OfficialPeerV2, connection: AgentConnection) -> None:
        self.raw = raw
        self.connection = connection

    async def initialize(self, version: int = 2, **capabilities: Any) -> Any:
        """Call `initialize` and return the result."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "info": info, "capabilities": capabilities}
        return await self.raw.call("initialize", params)

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request that must succeed; return its result."""
        return await self.raw.call(method, params)

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request that must fail; return its error."""
        answer = await self.raw.answer_to(self.raw.ask(method, params))
        assert "error" in answer, f"{method} succeeded: {answer}"
        return answer["error"]

    async def new_session(self, **more: Any) -> str:
        """Open a session; return its id."""
        return (await self.call("session/new", cwd="/home/me/app", **more))["sessionId"]

    def prompt(self, session: str, text: str = "go") -> Any:
        """Send a prompt; return the id of the request."""
        return self.raw.ask(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        )

    async def until_idle(self) -> list[Any]:
        """The messages until the session is idle: updates without their session, other messages whole."""
        messages: list[Any] = []
        while True:
            message = await self.raw.next()
            if message.get("method") != "session/update":
                messages.append(message)
                continue
            update = message["params"]["update"]
            messages.append(update)
            if update["sessionUpdate"] == "state_update" and update["state"] == "idle":
                return messages


@asynccontextmanager
async def client_v2(agent: Agent, *, strict: bool = False) -> AsyncGenerator[ClientV2]:
    """Connect a client that has not called `initialize` yet."""
    ours, theirs = memory_pair()
    connection = agent.connect(ours, options=AgentOptions(strict=strict))
    peer = OfficialPeerV2(theirs)
    try:
        yield ClientV2(peer, connection)
    finally:
        await connection.aclose()
