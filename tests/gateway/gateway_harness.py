"""A gateway without sockets: the tests send the messages of its clients, and those of its agent by
default.

Every message to a client is checked against the schema, because the gateway is the client's agent.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimits, LimitCounter
from accord.gateway.client_connection import ConnectionOpener, IncomingFrame, OutgoingFrame
from accord.gateway.client_version import ClientTranslation
from accord.gateway.contracts import Book, RecordMark
from accord.gateway.gateway import Gateway
from accord.gateway.hosted_agent import AgentSource
from accord.gateway.session_log import FileBook
from accord.store import MemoryStore, SharedMemory, Store
from accord.testing.raw_peer import RawPeer
from accord.wire.envelope import Message, parse_envelope
from accord.wire.memory_transport import MemoryTransport, memory_pair
from accord.wire.transport import Frame, Transport, TransportEnd

OWNER = TokenRights("t1", "owner")


class MemoryClientConnection:
    """A client connection over a memory pair. The test holds the other end.

    `translation` is set for a client in version 2, as by the HTTP server.
    """

    def __init__(self, transport: MemoryTransport, id: str) -> None:
        self.id = id
        self.transport = transport
        self.client: Any = None
        self.sent: list[tuple[OutgoingFrame, str | None]] = []
        self.marks: list[RecordMark | None] = []
        """The mark of each sent frame."""
        self._held: list[bytes] | None = None
        self.translation: ClientTranslation | None = None

    @property
    def handler(self) -> Any:
        """The gateway's end."""
        return self.client

    @property
    def unsent(self) -> int:
        return self.transport.unsent + sum(map(len, self._held or ()))

    def pause(self) -> None:
        """Stop reading: sent frames stay unsent."""
        self._held = []

    def resume(self) -> None:
        """Read again, starting with the held frames."""
        held, self._held = self._held or [], None
        for body in held:
            self.transport.send(body)

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        if self.translation is not None:
            self.translation.send_frames(frames)
        else:
            self.marks += [mark] * len(frames)
            self.transmit(frames, stream)

    def transmit(self, frames: Sequence[OutgoingFrame], stream: str | None) -> None:
        """Send frames in the client's version."""
        for frame in frames:
            self.sent.append((frame, stream))
            if self._held is not None:
                self._held.append(frame.body)
            else:
                self.transport.send(frame.body)

    def end(self, code: int, reason: str) -> None:
        self.client.on_closed(reason)

    def frames(self, frames: list[Frame]) -> None:
        messages = [
            IncomingFrame(frame, parse_envelope(frame)) for frame in frames if isinstance(frame, bytes)
        ]
        if self.translation is None:
            self.client.on_frames(messages)
        else:
            self.translation.receive(messages)

    def ended(self, end: TransportEnd) -> None:
        self.client.on_closed(end.reason)


class DrivenClient(RawPeer):
    """A client of the gateway that is driven message by message."""

    connection: MemoryClientConnection
    initialize_result: Any = None

    async def initialize(self, **capabilities: Any) -> Any:
        self.initialize_result = await self.call(
            "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities}
        )
        return self.initialize_result

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.answer_to(self.ask(method, params))
        assert "error" in answer, f"{method} succeeded: {answer}"
        return answer["error"]

    async def new(self, cwd: str, **more: Any) -> str:
        return (await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more}))["sessionId"]

    async def load(self, session: str, cwd: str) -> tuple[list[Any], Any]:
        """Load a session. Return the updates before the answer, and the answer."""
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

    async def inbox_id(self) -> str:
        """The id of the only entry in the inbox."""
        (item,) = (await self.call("_accord/inbox"))["items"]
        return item["id"]

    async def update(self) -> Any:
        return (await self.until_method("session/update"))["params"]["update"]


class DrivenAgent(RawPeer):
    """An agent behind the gateway that is driven message by message. Answers `initialize` by itself and
    checks what the gateway sends against the schema.
    """

    def __init__(self, transport: Transport, capabilities: dict[str, Any], **response: Any) -> None:
        self._response = {"protocolVersion": 1, "agentCapabilities": capabilities, **response}
        self.lines: list[Frame] = []
        """The messages as they arrived."""
        super().__init__(transport, validate="client")

    def frames(self, frames: list[Frame]) -> None:
        before = len(self.received)
        self.lines += frames
        super().frames(frames)
        for message in self.received[before:]:
            if message.get("method") == "initialize":
                self.reply(message, self._response)

    def say(self, session: str, text: str) -> None:
        self.tell(
            session, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        )

    def tell(self, session: str, update: Any) -> None:
        self.notify("session/update", {"sessionId": session, "update": update})

    async def answer_new_session(self, session: str, **more: Any) -> Message:
        """Answer the next `session/new`."""
        asked = await self.until_method("session/new")
        self.reply(asked, {"sessionId": session, **more})
        return asked


class GatewayHarness:
    """A gateway and its agents: a new `DrivenAgent` for every start of the agent program."""

    def __init__(self, gateway: Gateway, agents: "list[DrivenAgent]", agent_started: asyncio.Event) -> None:
        self.gateway = gateway
        self.agent_started = agent_started
        self.agents = agents
        self.opener: ConnectionOpener = gateway
        self.name: str = "line"
        """Begins the ids of its connections."""
        self.rights: TokenRights = OWNER
        """Those of clients that name no others."""
        self._connections = 0

    @property
    def agent(self) -> DrivenAgent:
        return self.agents[-1]

    def connect(
        self, rights: TokenRights | None = None, agent: str | None = None, validate: Any = "agent"
    ) -> DrivenClient:
        """A connected client that has sent nothing yet."""
        ours, theirs = memory_pair()
        self._connections += 1
        connection = MemoryClientConnection(ours, f"{self.name}-{self._connections}")
        connection.client = self.opener.open(connection, rights or self.rights, agent)
        ours.start(connection)
        client = DrivenClient(theirs, validate=validate)
        client.connection = connection
        return client

    async def client_v2(self, **capabilities: Any) -> "DrivenClient":
        """A connected client that is initialized in version 2."""
        client = self.connect(validate=None)
        client.connection.translation = ClientTranslation(client.connection)
        info = {"name": "v2", "version": "1"}
        params = {"protocolVersion": 2, "info": info, "capabilities": capabilities}
        client.initialize_result = await client.call("initialize", params)
        return client

    async def client(self, rights: TokenRights | None = None, **capabilities: Any) -> DrivenClient:
        """A connected client that is initialized."""
        client = self.connect(rights)
        await client.initialize(**capabilities)
        return client


async def open_session(
    harness: GatewayHarness, client: DrivenClient, cwd: str | os.PathLike[str], id: str = "s1", **more: Any
) -> str:
    """Open a session for this client and return its id."""
    asked = client.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
    await harness.agent.answer_new_session(id, **more)
    await client.answer_to(asked)
    return id


ALL: dict[str, Any] = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}


@asynccontextmanager
async def gateway_harness(
    capabilities: dict[str, Any] | None = None,
    *,
    store: Store | None = None,
    book: Book | None = None,
    limits: GatewayLimits | None = None,
    audit: AuditLog,
    start: Callable[[], Transport] | None = None,
    **more: Any,
) -> AsyncGenerator[GatewayHarness, None]:
    """A gateway with one agent: a `DrivenAgent`, unless `start` returns another transport."""
    agents: list[DrivenAgent] = []
    agent_started = asyncio.Event()

    async def start_agent(_stderr: Callable[[str], None]) -> Transport:
        if start is not None:
            return start()
        ours, theirs = memory_pair()
        agents.append(DrivenAgent(theirs, ALL if capabilities is None else capabilities))
        agent_started.set()
        return ours

    gateway = Gateway(
        [AgentSource(name="hand", start=start_agent)],
        book or FileBook(store or MemoryStore(SharedMemory())),
        limit_counter=LimitCounter(limits),
        audit=audit,
        **more,
    )
    try:
        yield GatewayHarness(gateway, agents, agent_started)
    finally:
        await gateway.aclose()
