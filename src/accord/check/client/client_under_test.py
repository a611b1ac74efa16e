"""Speaks to the client as the agent it started, through the relay."""

import asyncio
import hmac
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, cast

import msgspec
from msgspec import Struct

from accord.check.checked_connection import (
    CheckedConnection,
    CheckTimeouts,
    ConnectionOver,
    Message,
    Side,
    WireLine,
)
from accord.check.client.agent_responder import AgentExit, AgentResponder
from accord.check.findings import Rule, RuleNotes
from accord.clock import Clock
from accord.trace.trace_steps import at
from accord.wire.transport import LineFramer, Receiver, TransportEnd

# MERGED check.client.wire: The checker's end of one agent that a client started: what the client writes comes in, anything at all can be sent.

_RELAY: Final = str(Path(__file__).parent.with_name("relay_program.py"))
_MOST_GREETING: Final = 1024 * 1024  # the words of a command line are part of it


class AgentPipe(Protocol):
    """One running agent, seen from inside of it."""

    words: Sequence[str]
    """What the client added to the agent's command line."""
    login: str
    """The variable that a login at a terminal is to be given."""

    def start(self, receiver: Receiver) -> None:
        """Begin to deliver what the client writes."""
        ...

    def write(self, data: bytes) -> None:
        """Write to stdout, whatever it is."""
        ...

    def complain(self, text: str) -> None:
        """Write to stderr."""
        ...

    def hear(self, hears: bool) -> None:
        """Stop to read, or go on."""
        ...

    def mute(self) -> None:
        """Close stdout, and live on."""
        ...

    def die(self, code: int | None = None) -> None:
        """End at once: with a code, or killed."""
        ...


class _Hello(Struct, frozen=True):
    token: str = ""
    words: tuple[str, ...] = ()
    login: str = ""


Joined = Callable[[AgentPipe], None]


class RelayPipe(asyncio.Protocol):
    """An agent that is a process of the client's, by way of the relay."""

    def __init__(self, token: str, joined: Joined) -> None:
        self.words: Sequence[str] = ()
        self.login = ""
        self._token = token
        self._joined = joined
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._framer = LineFramer()
        self._greeting = b""
        self._greeted = False
        self._over = False

    # -- of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._greeted:
            self._greeting += data
            if b"\n" not in self._greeting:
                if len(self._greeting) > _MOST_GREETING:
                    self.close()
                return
            first, _, data = self._greeting.partition(b"\n")
            if not self._welcome(first):
                return
        if data and self._receiver is not None:
            self._receiver.frames(self._framer.feed(data))

    def eof_received(self) -> bool:
        self._end("the client closed the agent's input")
        return True  # what is left to say may still go out

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end("the agent's process is gone")

    def _welcome(self, line: bytes) -> bool:
        try:
            hello = msgspec.json.decode(line, type=_Hello)
        except msgspec.MsgspecError:
            hello = _Hello()
        if not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            self.close()
            return False
        self._greeted = True
        self.words = hello.words
        self.login = hello.login
        self._joined(self)
        return True

    def _end(self, reason: str) -> None:
        if self._receiver is not None and not self._over:
            self._over = True
            rest = self._framer.finish()
            if rest:
                self._receiver.frames(rest)
            self._receiver.ended(TransportEnd(reason))

    # -- the agent

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        self._packet(b"O", data)

    def complain(self, text: str) -> None:
        self._packet(b"E", text.encode())

    def hear(self, hears: bool) -> None:
        self._packet(b"H", b"1" if hears else b"")

    def mute(self) -> None:
        self._packet(b"C", b"")

    def die(self, code: int | None = None) -> None:
        self._packet(*((b"K", b"") if code is None else (b"X", bytes([code]))))

    def close(self) -> None:
        """Hang up; the relay ends with it."""
        if self._transport is not None:
            self._transport.close()

    def _packet(self, what: bytes, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(what + len(data).to_bytes(4, "big") + data)


class RelayListener:
    """Where relays come in. `command` is what the client has to start."""

    def __init__(self, server: asyncio.Server, token: str) -> None:
        self._server = server
        self.wires: list[RelayPipe] = []
        port = server.sockets[0].getsockname()[1]
        self.command = [sys.executable, "-I", "-S", _RELAY, str(port), token]

    async def aclose(self) -> None:
        """Let nobody in any more, and send home who is there."""
        self._server.close()
        for wire in self.wires:
            wire.close()
        await asyncio.sleep(0)


async def open_door(joined: Joined) -> RelayListener:
    """Listen on this machine alone, for those who know the token."""
    token = secrets.token_hex(16)
    wires: list[RelayPipe] = []

    def enter() -> RelayPipe:
        wires.append(RelayPipe(token, joined))
        return wires[-1]

    server = await asyncio.get_running_loop().create_server(enter, "127.0.0.1", 0)
    door = RelayListener(server, token)
    door.wires = wires
    return door


# MERGED check.client.part: The part of the agent in one connection: the checker is the agent that the client started, and sends what a scene wants.


class ClientUnderTest(CheckedConnection):
    """One agent that the client started. Requests of the client are served by the desk as they come."""

    peer: ClassVar[Side] = "client"
    own: ClassVar[Side] = "agent"
    owed: ClassVar[Rule] = 12

    def __init__(
        self,
        name: str,
        wire: AgentPipe,
        desk: AgentResponder,
        ledger: RuleNotes,
        bounds: CheckTimeouts,
        clock: Clock,
    ) -> None:
        super().__init__(name, ledger, bounds, clock)
        self.wire = wire
        self.desk = desk
        self.dead = False
        """Whether it died on our own stage: nothing is owed to it any more."""
        wire.start(self)

    def transmit(self, data: bytes) -> None:
        self.wire.write(data + b"\n")

    def hush(self) -> None:
        self.wire.hear(False)

    def serve(self, line: WireLine) -> None:
        if self.dead:
            return
        try:
            reply = self.desk.serve(line)
        except AgentExit as death:
            self.die(death.code)
            return
        if reply is not None:
            self.reply(line, reply)

    def ended(self, end: TransportEnd) -> None:
        """The client let go of us. An agent goes with its input."""
        super().ended(end)
        if not self.desk.stays:
            self.wire.die(0)

    def gone(self, end: TransportEnd) -> str:
        return f"the client let go of the agent ({end.reason})"

    def fresh(self, number: int) -> str:
        return f"a-{number}"

    def reply(self, request: WireLine, reply: Message) -> WireLine:
        """Answer a request of the client; what the desk wants to be sent around it goes around it."""
        for message in self.desk.before.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        line = super().reply(request, reply)
        for message in self.desk.after.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        return line

    def update(self, kind: str, session: str | None = None, /, **members: Any) -> WireLine:
        """Send a session update."""
        return self.notify(
            "session/update",
            {
                "sessionId": self.desk.session if session is None else session,
                "update": {"sessionUpdate": kind, **members},
            },
        )

    def say(self, text: str, **more: Any) -> WireLine:
        """Say something to the user."""
        return self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)

    def die(self, code: int | None = None) -> None:
        """End at once."""
        self.dead = True
        self.wire.die(code)

    async def hears(self, *methods: str, since: int = 0, bound: float | None = None) -> WireLine | None:
        """The client's next call of one of these methods."""
        return await self.until(
            lambda line: line.sender == "client" and line.method in methods, since=since, bound=bound
        )

    async def left(self, bound: float | None = None) -> bool:
        """Whether the client lets go of this agent in time."""
        await self.until(lambda _: False, since=len(self.lines), bound=bound)
        return self.end is not None

    # -- the usual phrases

    async def prompted(self, *, owes: Rule | None = None, since: int = 0) -> WireLine:
        """The client's prompt. Where none comes the scene is over, by this rule if one is named."""
        found = await self.hears("session/prompt", since=since)
        if found is None:
            told = self.flood or (self.end.reason if self.end is not None else "")
            why = f"no prompt came{told and f': {told}'}"
            if owes is not None:
                self.ledger.broken(owes, why, [line.shown for line in self.lines[-4:]])
            raise ConnectionOver(why)
        return found

    def stop(self, prompt: WireLine, reason: Any = "end_turn", **more: Any) -> WireLine:
        """End the turn."""
        return self.reply(prompt, {"result": {"stopReason": reason, **more}})

    @property
    def offered(self) -> Any:
        """The client's capabilities as it sent them."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        return None if asked is None else at(asked.params, "clientCapabilities")

    @property
    def initialized(self) -> Message:
        """What `initialize` was answered with here."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        answers = [
            line
            for line in self.lines
            if asked is not None and line.sender == "agent" and line.is_answer and line.id == asked.id
        ]
        found = at(answers[0].message, "result") if answers else None
        return cast(Message, found) if isinstance(found, dict) else {}

    def has(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    def calls(self, *methods: str) -> list[WireLine]:
        """The client's calls of these methods so far."""
        return [line for line in self.lines if line.sender == "client" and line.method in methods]
