"""A gateway without sockets: the agent is spoken by hand or is one of this library, clients are spoken by hand.

Everything a client hears is held to the schema: to it, the gateway is an agent.
"""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from accord.gateway.access.audit import Audit
from accord.gateway.access.limits import Limits, Meter
from accord.gateway.access.passes import Pass
from accord.gateway.gateway import Gateway
from accord.gateway.hosted import AgentSource
from accord.gateway.line import Outgoing
from accord.gateway.logbook import Logbook
from accord.store import MemoryStore, Shelf, Store
from accord.testing.wire import Message, RawPeer
from accord.wire.memory import MemoryTransport, memory_pair
from accord.wire.transport import End, Frame, Transport

OWNER = Pass("t1", "owner")


class HandLine:
    """A line over a memory pair; the guest holds the other end."""

    def __init__(self, transport: MemoryTransport, id: str) -> None:
        self.id = id
        self.transport = transport
        self.client: Any = None
        self.sent: list[tuple[Outgoing, str | None]] = []
        self._held: list[bytes] | None = None

    @property
    def unsent(self) -> int:
        return self.transport.unsent + sum(map(len, self._held or ()))

    def pause(self) -> None:
        """Its client stops reading: what is sent stays unsent."""
        self._held = []

    def go_on(self) -> None:
        """Its client reads again."""
        held, self._held = self._held or [], None
        for body in held:
            self.transport.send(body)

    def send(self, frame: Outgoing, stream: str | None) -> None:
        self.sent.append((frame, stream))
        if self._held is not None:
            self._held.append(frame.body)
        else:
            self.transport.send(frame.body)

    def end(self, code: int, reason: str) -> None:
        self.client.gone(reason)

    def frames(self, frames: list[Frame]) -> None:
        self.client.frames([frame for frame in frames if isinstance(frame, bytes)])

    def ended(self, end: End) -> None:
        self.client.gone(end.reason)


class Guest(RawPeer):
    """A client of the gateway, spoken by hand."""

    line: HandLine
    welcome: Any = None

    async def hello(self, **capabilities: Any) -> Any:
        self.welcome = await self.call(
            "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities}
        )
        return self.welcome

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.answer_to(self.ask(method, params))
        assert "error" in answer, f"{method} succeeded: {answer}"
        return answer["error"]

    async def new(self, cwd: str, **more: Any) -> str:
        return (await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more}))["sessionId"]

    async def load(self, session: str, cwd: str) -> tuple[list[Any], Any]:
        """Load a session: the updates before the answer, and the answer."""
        id = self.ask("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []})
        return await self.updates_until(id)

    def prompt(self, session: str, text: str = "go") -> Any:
        return self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    async def updates_until(self, id: Any) -> tuple[list[Any], Any]:
        updates: list[Any] = []
        while True:
            message = await self.next()
            if message.get("method") == "session/update":
                updates.append(message["params"]["update"])
            elif "method" not in message and message.get("id") == id:
                assert "result" in message, message
                return updates, message["result"]

    async def update(self) -> Any:
        return (await self.until_method("session/update"))["params"]["update"]


class HandAgent(RawPeer):
    """An agent behind the gateway, spoken by hand; what the gateway says is held to the schema. It greets by itself."""

    def __init__(self, transport: Transport, capabilities: dict[str, Any]) -> None:
        self._capabilities = capabilities
        super().__init__(transport, hears="client")

    def frames(self, frames: list[Frame]) -> None:
        before = len(self.heard)
        super().frames(frames)
        for message in self.heard[before:]:
            if message.get("method") == "initialize":
                self.reply(message, {"protocolVersion": 1, "agentCapabilities": self._capabilities})

    def say(self, session: str, text: str) -> None:
        self.tell(
            session, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        )

    def tell(self, session: str, update: Any) -> None:
        self.notify("session/update", {"sessionId": session, "update": update})

    async def opened(self, session: str, **more: Any) -> Message:
        """Answer the next `session/new`."""
        asked = await self.until_method("session/new")
        self.reply(asked, {"sessionId": session, **more})
        return asked


class House:
    """A gateway and the agents behind it, one hand-spoken agent for every start of the program."""

    def __init__(self, gateway: Gateway, agents: "list[HandAgent]") -> None:
        self.gateway = gateway
        self.agents = agents
        self._guests = 0

    @property
    def agent(self) -> HandAgent:
        return self.agents[-1]

    def guest(self, visa: Pass = OWNER, agent: str | None = None) -> Guest:
        """A client that has come in, and said nothing yet."""
        ours, theirs = memory_pair()
        self._guests += 1
        line = HandLine(ours, f"line-{self._guests}")
        line.client = self.gateway.open(line, visa, agent)
        ours.start(line)
        guest = Guest(theirs, hears="agent")
        guest.line = line
        return guest

    async def client(self, visa: Pass = OWNER, **capabilities: Any) -> Guest:
        """A client that has been welcomed."""
        guest = self.guest(visa)
        await guest.hello(**capabilities)
        return guest


async def open_session(
    home: House, guest: Guest, cwd: str | os.PathLike[str], id: str = "s1", **more: Any
) -> str:
    """A new session of this client, as the agent answers it: its id."""
    asked = guest.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
    await home.agent.opened(id, **more)
    await guest.answer_to(asked)
    return id


ALL: dict[str, Any] = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}


@asynccontextmanager
async def house(
    capabilities: dict[str, Any] | None = None,
    *,
    store: Store | None = None,
    limits: Limits | None = None,
    audit: Audit,
    start: Callable[[], Transport] | None = None,
    **more: Any,
) -> AsyncGenerator[House, None]:
    """A gateway with one agent, which is spoken by hand unless `start` gives another."""
    agents: list[HandAgent] = []

    async def by_hand(_stderr: Callable[[str], None]) -> Transport:
        if start is not None:
            return start()
        ours, theirs = memory_pair()
        agents.append(HandAgent(theirs, ALL if capabilities is None else capabilities))
        return ours

    gateway = Gateway(
        [AgentSource(name="hand", start=by_hand)],
        Logbook(store or MemoryStore(Shelf())),
        meter=Meter(limits),
        audit=audit,
        **more,
    )
    try:
        yield House(gateway, agents)
    finally:
        await gateway.aclose()
