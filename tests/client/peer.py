"""A scripted agent spoken by hand, and a client connected to it over memory. Everything the client sends is judged by the strict walk."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from accord.client import (
    ClientEvent,
    ClientSession,
    RemoteAgent,
    connect_transport,
)
from accord.testing.wire import Message, RawPeer
from accord.wire.memory import memory_pair
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
"""The capabilities of an agent that can do all there is."""


class Peer(RawPeer):
    """The agent's side of the wire."""

    def __init__(self, transport: Any, *, judged: bool = True) -> None:
        self.lines: list[bytes] = []
        self.agent: RemoteAgent
        super().__init__(transport, hears="client" if judged else None)

    def frames(self, frames: list[Frame]) -> None:
        """What the transport brings; the lines are kept as they came."""
        self.lines += [frame for frame in frames if isinstance(frame, bytes)]
        super().frames(frames)

    def update(self, session_id: str, tag: str, /, **members: Any) -> None:
        """Send a `session/update`."""
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": tag, **members}})

    def say(self, text: str, session_id: str = "s1", **members: Any) -> None:
        """Send a piece of the agent's message."""
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text}, **members)

    async def greet(self, capabilities: dict[str, Any] | None = None, **more: Any) -> Message:
        """Hear `initialize` and answer it; returns what was heard."""
        asked = await self.next("initialize")
        answer: dict[str, Any] = {"protocolVersion": 1, **more}
        if capabilities is not None:
            answer["agentCapabilities"] = capabilities
        self.reply(asked, answer)
        return asked

    async def open(self, session_id: str = "s1", **more: Any) -> Message:
        """Hear `session/new` and answer it; returns what was heard."""
        asked = await self.next("session/new")
        self.reply(asked, {"sessionId": session_id, **more})
        return asked

    async def answered(self, method: str, params: Any, *, id: Any = None) -> Any:
        """Ask the client something and give its result."""
        message = await self.answer_to(self.ask(method, params, id=id))
        assert "result" in message, message
        return message["result"]

    async def refused(self, method: str, params: Any, *, id: Any = None) -> Any:
        """Ask the client something that it refuses, and give the error."""
        message = await self.answer_to(self.ask(method, params, id=id))
        assert "error" in message, message
        return message["error"]

    async def drain(self) -> None:
        """Wait while the client does not read."""
        await self._transport.drain()

    def judge_the_rest(self) -> None:
        """Hold to the schema what the test did not read."""
        for message in self.heard:
            self.judge(message)

    async def end_turn(self, prompt: Message, reason: str = "end_turn", **more: Any) -> None:
        """Answer a prompt."""
        self.reply(prompt, {"stopReason": reason, **more})


@asynccontextmanager
async def connected(
    capabilities: dict[str, Any] | None = None,
    *,
    handlers: Any = None,
    options: Any = None,
    judged: Any = True,
    **answer: Any,
) -> AsyncGenerator[tuple[RemoteAgent, Peer]]:
    """A client and the scripted agent it is connected to; the agent offers everything unless told otherwise."""
    ours, theirs = memory_pair()
    peer = Peer(theirs, judged=judged)
    offered = EVERYTHING if capabilities is None else capabilities
    agent, _ = await both(
        connect_transport(ours, handlers=handlers, options=options).__aenter__(),
        peer.greet(offered, **answer),
    )
    peer.agent = agent
    try:
        yield agent, peer
    finally:
        await agent.aclose()
        peer.judge_the_rest()


@asynccontextmanager
async def in_session(
    capabilities: Any = None,
    *,
    cwd: Any = "/project",
    handlers: Any = None,
    options: Any = None,
    judged: Any = True,
    **opened: Any,
) -> AsyncGenerator[tuple[ClientSession, Peer]]:
    """The same with the session `s1` open; `opened` is what the agent says of it."""
    async with connected(capabilities, handlers=handlers, options=options, judged=judged) as (agent, peer):
        session, _ = await both(agent.new_session(cwd), peer.open("s1", **opened))
        yield session, peer


async def both(ours: Awaitable[A], theirs: Awaitable[B]) -> tuple[A, B]:
    """What one side does and what the other does meanwhile."""
    return await asyncio.gather(ours, theirs)


async def all_of(events: AsyncIterator[E]) -> list[E]:
    """Everything an iterator gives."""
    return [event async for event in events]


class Watching:
    """A turn that somebody iterates over, in a task of its own; `events` grows as they come."""

    def __init__(self, events: AsyncIterator[ClientEvent]) -> None:
        self.events: list[Any] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._watch(events))

    async def _watch(self, events: AsyncIterator[ClientEvent]) -> None:
        async for event in events:
            self.events.append(event)
            self._news.set()

    async def until(self, kind: type[E]) -> E:
        """The first event of this type, once it has come."""
        while True:
            found = [event for event in self.events if isinstance(event, kind)]
            if found:
                return found[0]
            assert not self._task.done(), f"the iteration ended without {kind.__name__}"
            self._news.clear()
            await self._news.wait()

    async def end(self) -> list[Any]:
        """All events, once the iteration has ended; raises what it raised."""
        await self._task
        return self.events

    async def leave(self) -> None:
        """Cancel the task that iterates."""
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
    """The names of the events' types."""
    return [type(event).__name__ for event in events]
