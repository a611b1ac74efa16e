"""The checker's end of one agent that a client started: what the client writes comes in, anything at all can be sent."""

import asyncio
import hmac
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from accord.wire.framing import LineFramer
from accord.wire.transport import End, Receiver

_RELAY: Final = str(Path(__file__).with_name("relay.py"))
_MOST_GREETING: Final = 1024 * 1024  # the words of a command line are part of it


class Wire(Protocol):
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


Joined = Callable[[Wire], None]


class RelayWire(asyncio.Protocol):
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
            self._receiver.ended(End(reason))

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


class Door:
    """Where relays come in. `command` is what the client has to start."""

    def __init__(self, server: asyncio.Server, token: str) -> None:
        self._server = server
        self.wires: list[RelayWire] = []
        port = server.sockets[0].getsockname()[1]
        self.command = [sys.executable, "-I", "-S", _RELAY, str(port), token]

    async def aclose(self) -> None:
        """Let nobody in any more, and send home who is there."""
        self._server.close()
        for wire in self.wires:
            wire.close()
        await asyncio.sleep(0)


async def open_door(joined: Joined) -> Door:
    """Listen on this machine alone, for those who know the token."""
    token = secrets.token_hex(16)
    wires: list[RelayWire] = []

    def enter() -> RelayWire:
        wires.append(RelayWire(token, joined))
        return wires[-1]

    server = await asyncio.get_running_loop().create_server(enter, "127.0.0.1", 0)
    door = Door(server, token)
    door.wires = wires
    return door
