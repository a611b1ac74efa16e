"""A raw agent that the test controls, and a client connected to it over memory.

Every message of the client is checked against the schema.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from accord.client import ClientEvent, ClientSession, RemoteAgent, connect_transport
from accord.testing.raw_peer import RawPeer
from accord.wire.envelope import Message
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Frame

A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E")

EVERYTHING: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True, "acp": True},
    "sessionCapabilities": {
        "list": {},
        "delete": {},
        "additionalDirectories": {},
        "resume": {},
        "close": {},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
        "systemPrompt": {"mode": {"override": {}}},
    },
    "auth": {"logout": {}, "status": {}},
    "providers": {},
}
"""The capabilities of an agent that supports everything."""


class RawAgent(RawPeer):
    """The agent's end of the connection."""

    def __init__(self, transport: Any, *, checked: bool = True) -> None:
        self.lines: list[bytes] = []
        self.agent: RemoteAgent
        super().__init__(transport, validate="client" if checked else None)

    def frames(self, frames: list[Frame]) -> None:
        """Receive frames from the transport and keep the raw lines."""
        self.lines += [frame for frame in frames if isinstance(frame, bytes)]
        super().frames(frames)

    def update(self, session_id: str, tag: str, /, **members: Any) -> None:
        """Send a `session/update`."""
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": tag, **members}})

    def say(self, text: str, session_id: str = "s1", **members: Any) -> None:
        """Send a chunk of an agent message."""
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text}, **members)

    async def initialize(self, capabilities: dict[str, Any] | None = None, **more: Any) -> Message:
        """Receive `initialize` and answer it; return the request."""
        asked = await self.next("initialize")
        answer: dict[str, Any] = {"protocolVersion": 1, **more}
        if capabilities is not None:
            answer["agentCapabilities"] = capabilities
        self.reply(asked, answer)
        return asked

    async def open(self, session_id: str = "s1", **more: Any) -> Message:
        """Receive `session/new` and answer it; return the request."""
        asked = await self.next("session/new")
        self.reply(asked, {"sessionId": session_id, **more})
        return asked

    async def result_of(self, method: str, params: Any, *, id: Any = None) -> Any:
        """Send a request to the client and return its result."""
        message = await self.answer_to(self.ask(method, params, id=id))
        assert "result" in message, message
        return message["result"]

    async def error_of(self, method: str, params: Any, *, id: Any = None) -> Any:
        """Send a request that the client must refuse, and return the error."""
        message = await self.answer_to(self.ask(method, params, id=id))
        assert "error" in message, message
        return message["error"]

    async def drain(self) -> None:
        """Wait until the client has read what was sent."""
        await self._transport.drain()

    def check_unread(self) -> None:
        """Check the messages that the test did not read against the schema."""
        for message in self.received:
            self.validate(message)

    async def end_turn(self, prompt: Message, reason: str = "end_turn", **more: Any) -> None:
        """Answer a prompt."""
        self.reply(prompt, {"stopReason": reason, **more})


@asynccontextmanager
async def connected(
    capabilities: dict[str, Any] | None = None,
    *,
    handlers: Any = None,
    options: Any = None,
    checked: Any = True,
    **answer: Any,
) -> AsyncGenerator[tuple[RemoteAgent, RawAgent]]:
    """A client and the raw agent it is connected to. The agent supports everything by default."""
    ours, theirs = memory_pair()
    peer = RawAgent(theirs, checked=checked)
    offered = EVERYTHING if capabilities is None else capabilities
    agent, _ = await both(
        connect_transport(ours, handlers=handlers, options=options).__aenter__(),
        peer.initialize(offered, **answer),
    )
    peer.agent = agent
    try:
        yield agent, peer
    finally:
        await agent.aclose()
        peer.check_unread()


@asynccontextmanager
async def in_session(
    capabilities: Any = None,
    *,
    cwd: Any = "/project",
    handlers: Any = None,
    options: Any = None,
    checked: Any = True,
    **opened: Any,
) -> AsyncGenerator[tuple[ClientSession, RawAgent]]:
    """A client with the open session `s1`, and its raw agent; `opened` extends the session/new response."""
    async with connected(capabilities, handlers=handlers, options=options, checked=checked) as (agent, peer):
        session, _ = await both(agent.new_session(cwd), peer.open("s1", **opened))
        yield session, peer


async def both(ours: Awaitable[A], theirs: Awaitable[B]) -> tuple[A, B]:
    """Run the two sides concurrently and return both results."""
    return await asyncio.gather(ours, theirs)


async def collect(events: AsyncIterator[E]) -> list[E]:
    """Collect all items of an iterator."""
    return [event async for event in events]


class EventCollector:
    """Iterates over events in a separate task; `events` grows as they arrive."""

    def __init__(self, events: AsyncIterator[ClientEvent]) -> None:
        self.events: list[Any] = []
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._collect(events))

    async def _collect(self, events: AsyncIterator[ClientEvent]) -> None:
        async for event in events:
            self.events.append(event)
            self._changed.set()

    async def until(self, kind: type[E]) -> E:
        """Wait for the first event of this type."""
        while True:
            found = [event for event in self.events if isinstance(event, kind)]
            if found:
                return found[0]
            assert not self._task.done(), f"the iteration ended without {kind.__name__}"
            self._changed.clear()
            await self._changed.wait()

    async def end(self) -> list[Any]:
        """Wait for the end of the iteration and return all events; raises what the iteration raised."""
        await self._task
        return self.events

    async def cancel(self) -> None:
        """Cancel the iterating task."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def options(*named: str) -> list[dict[str, str]]:
    """Permission options by `id:kind`."""
    return [
        {"optionId": id, "name": id.title(), "kind": kind} for id, kind in (name.split(":") for name in named)
    ]


YES_NO = options("yes:allow_once", "always:allow_always", "no:reject_once", "never:reject_always")


def kinds(events: Iterable[Any]) -> list[str]:
    """The type names of the events."""
    return [type(event).__name__ for event in events]
