"""Connects to the client under test as the agent that it started, through the relay."""

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
    has_capability,
    substitute,
)
from accord.check.client.agent_responder import AgentExit, AgentResponder
from accord.check.findings import RuleId, RuleNotes
from accord.clock import Clock
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message
from accord.wire.pipes import LineFramer
from accord.wire.transport import Receiver, TransportEnd

_RELAY_PROGRAM: Final = str(Path(__file__).parent.with_name("relay_program.py"))
_MAX_HELLO_BYTES: Final = 1024 * 1024  # it contains the arguments


class AgentPipe(Protocol):
    """The stdio of one agent that the client started."""

    arguments: Sequence[str]
    """The arguments that the client added to the agent's command line."""
    login: str
    """The value of the variable that a terminal login needs."""

    def start(self, receiver: Receiver) -> None:
        """Start to deliver the client's messages."""

    def write(self, data: bytes) -> None:
        """Write to stdout."""

    def write_stderr(self, text: str) -> None:
        """Write to stderr."""

    def set_reading(self, reading: bool) -> None:
        """Stop or continue reading."""

    def exit(self, code: int | None = None) -> None:
        """Exit with a code, or be killed."""


class _Hello(Struct, frozen=True):
    """The first line of a relay."""

    token: str = ""
    words: tuple[str, ...] = ()
    login: str = ""


PipeHandler = Callable[[AgentPipe], None]


class RelayPipe(asyncio.Protocol):
    """An agent process of the client, through the relay."""

    def __init__(self, token: str, on_pipe: PipeHandler) -> None:
        self.arguments: Sequence[str] = ()
        self.login: str = ""
        self._token = token
        self._on_pipe = on_pipe
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._framer = LineFramer()
        self._hello_bytes = b""
        self._hello_received = False
        self._ended = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._hello_received:
            self._hello_bytes += data
            if b"\n" not in self._hello_bytes:
                if len(self._hello_bytes) > _MAX_HELLO_BYTES:
                    self.close()
                return
            hello_line, _, data = self._hello_bytes.partition(b"\n")
            if not self._read_hello(hello_line):
                return
        if data and self._receiver is not None:
            self._receiver.frames(self._framer.feed(data))

    def eof_received(self) -> bool:
        self._end("the client closed the agent's input")
        return True  # keeps the connection open for writing

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end("the agent's process has ended")

    def _read_hello(self, line: bytes) -> bool:
        try:
            hello = msgspec.json.decode(line, type=_Hello)
        except msgspec.MsgspecError:
            hello = _Hello()
        if not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            self.close()
            return False
        self._hello_received = True
        self.arguments = hello.words
        self.login = hello.login
        self._on_pipe(self)
        return True

    def _end(self, reason: str) -> None:
        if self._receiver is not None and not self._ended:
            self._ended = True
            remaining_frames = self._framer.finish()
            if remaining_frames:
                self._receiver.frames(remaining_frames)
            self._receiver.ended(TransportEnd(reason))

    # -- AgentPipe

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        self._send_packet(b"O", data)

    def write_stderr(self, text: str) -> None:
        self._send_packet(b"E", text.encode())

    def set_reading(self, reading: bool) -> None:
        self._send_packet(b"H", b"1" if reading else b"")

    def exit(self, code: int | None = None) -> None:
        self._send_packet(*((b"K", b"") if code is None else (b"X", bytes([code]))))

    def close(self) -> None:
        """Close the connection; the relay exits."""
        if self._transport is not None:
            self._transport.close()

    def _send_packet(self, packet_type: bytes, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packet_type + len(data).to_bytes(4, "big") + data)


class RelayListener:
    """Accepts relays. `command` is the agent's command line for the client."""

    def __init__(self, server: asyncio.Server, token: str, pipes: list[RelayPipe]) -> None:
        self._server = server
        self._pipes = pipes
        port = server.sockets[0].getsockname()[1]
        self.command: list[str] = [sys.executable, "-I", "-S", _RELAY_PROGRAM, str(port), token]
        self.address: str = ""

    async def aclose(self) -> None:
        """Stop listening and close all pipes."""
        self._server.close()
        for pipe in self._pipes:
            pipe.close()
        await asyncio.sleep(0)


async def listen_for_relays(on_pipe: PipeHandler) -> RelayListener:
    """Listen on 127.0.0.1 for relays that send a new token."""
    token = secrets.token_hex(16)
    pipes: list[RelayPipe] = []

    def new_pipe() -> RelayPipe:
        pipes.append(RelayPipe(token, on_pipe))
        return pipes[-1]

    server = await asyncio.get_running_loop().create_server(new_pipe, "127.0.0.1", 0)
    return RelayListener(server, token, pipes)


def update(kind: str, session: str = "$session", /, **members: Any) -> Message:
    """A session update, by default of the session of the case."""
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **members}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def text_chunk(text: str, **members: Any) -> Message:
    """A chunk of the agent's message."""
    return update("agent_message_chunk", content={"type": "text", "text": text}, **members)


class ClientUnderTest(CheckedConnection):
    """A connection to the client, as an agent that it started. The responder answers its requests."""

    peer_side: ClassVar[Side] = "client"
    own_side: ClassVar[Side] = "agent"
    answer_rule: ClassVar[RuleId] = "framing.client-one-answer"
    info_member: ClassVar[str] = "clientInfo"
    capabilities_member: ClassVar[str] = "clientCapabilities"

    def __init__(
        self,
        name: str,
        pipe: AgentPipe,
        responder: AgentResponder,
        notes: RuleNotes,
        timeouts: CheckTimeouts,
        clock: Clock,
    ) -> None:
        super().__init__(name, notes, timeouts, clock)
        self.pipe = pipe
        self.responder = responder
        self.exited: bool = False
        """Whether the case ended the agent; then requests are not answered."""
        pipe.start(self)

    def transmit(self, data: bytes) -> None:
        self.pipe.write(data + b"\n")

    def stop_reading(self) -> None:
        self.pipe.set_reading(False)

    def serve(self, line: WireLine) -> None:
        if self.exited:
            return
        try:
            reply = self.responder.serve(line)
        except AgentExit as agent_exit:
            self.exit(agent_exit.code)
            return
        if reply is not None:
            self.reply(line, reply)

    def ended(self, end: TransportEnd) -> None:
        """The client closed the agent's input; the agent exits unless a case says otherwise."""
        super().ended(end)
        if not self.responder.ignores_eof:
            self.pipe.exit(0)

    def describe_end(self, end: TransportEnd) -> str:
        return f"the client closed the connection ({end.reason})"

    def request_id(self, number: int) -> str:
        return f"a-{number}"

    def reply(self, request: WireLine, reply: Message) -> WireLine:
        """Answer a request, with the responder's notifications before and after it."""
        for message in self.responder.before_answer.pop(request.method, []):
            self.send(message)
        line = super().reply(request, reply)
        for message in self.responder.after_answer.pop(request.method, []):
            self.send(message)
        return line

    def send(self, message: Message | str | bytes) -> WireLine:
        """Send any text, bytes or message as one line. `$session` in a message is the case's session."""
        if isinstance(message, dict):
            message = substitute(message, {"session": self.responder.session})
        return super().send(message)

    def update(self, kind: str, session: str = "$session", /, **members: Any) -> WireLine:
        """Send a session update."""
        return self.send(update(kind, session, **members))

    def send_text(self, text: str, **more: Any) -> WireLine:
        """Send a chunk of the agent's message."""
        return self.send(text_chunk(text, **more))

    def exit(self, code: int | None = None) -> None:
        """Exit at once."""
        self.exited = True
        self.pipe.exit(code)

    async def wait_for_call(
        self, *methods: str, since: int = 0, timeout: float | None = None
    ) -> WireLine | None:
        """Wait for the client's next call of one of these methods."""
        return await self.wait_for_line(
            lambda line: line.sender == "client" and line.method in methods, since=since, timeout=timeout
        )

    async def wait_for_close(self, timeout: float | None = None) -> bool:
        """Whether the client closes this connection within the timeout."""
        await self.wait_for_line(lambda _: False, since=len(self.lines), timeout=timeout)
        return self.end is not None

    # -- common steps

    async def wait_for_prompt(self, *, rule: RuleId | None = None, since: int = 0) -> WireLine:
        """Wait for the client's prompt. Without one the case ends, and the rule, if named, is broken."""
        found = await self.wait_for_call("session/prompt", since=since)
        if found is None:
            end_reason = self.flood or (self.end.reason if self.end is not None else "")
            reason = f"the client sent no prompt{end_reason and f': {end_reason}'}"
            if rule is not None:
                self.notes.add_fail(rule, reason, *self.lines[-4:])
            raise ConnectionOver(reason)
        return found

    def end_turn(self, prompt: WireLine, reason: Any = "end_turn", **more: Any) -> WireLine:
        return self.reply(prompt, {"result": {"stopReason": reason, **more}})

    @property
    def client_capabilities(self) -> Any:
        """The client's capabilities as sent."""
        requests = self.calls("initialize")
        return at(requests[0].params, self.capabilities_member) if requests else None

    @property
    def initialize_result(self) -> Message:
        """The result of `initialize`."""
        requests = self.calls("initialize")
        answers = [
            line
            for line in self.lines
            if requests and line.sender == "agent" and line.is_answer and line.id == requests[0].id
        ]
        result = at(answers[0].message, "result") if answers else None
        return cast(Message, result) if isinstance(result, dict) else {}

    def advertises(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        return has_capability(self.client_capabilities, path)

    def calls(self, *methods: str) -> list[WireLine]:
        """The client's calls of these methods so far."""
        return [line for line in self.lines if line.sender == "client" and line.method in methods]
