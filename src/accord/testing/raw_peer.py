"""Drive one end of a transport message by message, and record and assert the messages of both directions."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord.schema.codec import parse_json
from accord.schema.methods import notification, request
from accord.schema.validation import violations
from accord.trace.tap import TappedTransport
from accord.trace.trace_format import Side, parse_message
from accord.wire.envelope import Message, RpcCore, id_key
from accord.wire.memory_transport import MemoryTransport, memory_pair
from accord.wire.transport import Frame, Transport, TransportEnd


class WireFault(AssertionError):
    """A message violates the protocol, or is not the one that the test expected."""


class RawPeer:
    """One end of a transport. Sends any message, valid or not, and keeps the received ones in order."""

    def __init__(self, transport: Transport, *, validate: Side | None = None) -> None:
        """`validate` is the side at the other end; its messages are validated against the schema."""
        self.received: list[Message] = []
        self._transport = transport
        self._validated_side: Side | None = validate
        self._core = RpcCore[str]()  # the methods of the requests, which stay open for further answers
        self._next_index = 0
        self._next_id = 0
        self._arrival = asyncio.Event()
        transport.start(self)

    @property
    def end(self) -> TransportEnd | None:
        """Why the connection has ended; None while it is open."""
        return self._core.end

    def frames(self, frames: list[Frame]) -> None:
        """Called by the transport with received frames."""
        for frame in frames:
            assert isinstance(frame, bytes), f"an oversized frame arrived: {frame}"
            message = parse_json(frame)
            self.received.append(message)
        self._arrival.set()

    def ended(self, end: TransportEnd) -> None:
        """Called by the transport when the other side has closed it."""
        self._core.end = end
        self._arrival.set()

    def send(self, message: Message | bytes | str) -> None:
        """Send a message unchanged; a string or bytes need not be a valid message."""
        if isinstance(message, dict):
            if "method" in message and "id" in message:
                self._core.expect_response(id_key(message["id"]), message["method"])
            message = json.dumps(message)
        self._transport.send(message.encode() if isinstance(message, str) else message)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request and return its id; `answer_to` waits for the answer."""
        if id is None:
            self._next_id += 1
            id = f"raw-{self._next_id}"
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})
        return id

    async def call(self, method: str, params: Any = None) -> Any:
        """Send a request and return its result; an error answer fails the test."""
        message = await self.answer_to(self.ask(method, params))
        if "error" in message:
            raise WireFault(f"{method} was answered with {message['error']}")
        return message["result"]

    def reply(self, request: Message, result: Any) -> None:
        """Answer a received request."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, text: str = "no", **more: Any) -> None:
        """Answer a received request with an error."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text, **more}})

    async def next(self, method: str | None = None) -> Message:
        """Wait for the next message; if `method` is given, it must be this method."""
        while self._next_index >= len(self.received):
            if self.end is not None:
                raise WireFault(f"the connection is closed: {self.end.reason}")
            self._arrival.clear()
            await self._arrival.wait()
        message = self.received[self._next_index]
        self._next_index += 1
        self.validate(message)
        if method is not None and message.get("method") != method:
            raise WireFault(f"expected {method}, received {json.dumps(message)[:400]}")
        return message

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """Read messages until one matches, and return it."""
        while True:
            message = await self.next()
            if wanted(message):
                return message

    async def until_method(self, method: str) -> Message:
        """Read messages until a request or notification of this method."""
        return await self.until(lambda message: message.get("method") == method)

    async def answer_to(self, id: Any) -> Message:
        """Read messages until the answer to this request."""
        return await self.until(lambda message: "method" not in message and message.get("id") == id)

    async def wait_end(self) -> TransportEnd:
        """Wait until the other side closes the connection."""
        while self.end is None:
            self._arrival.clear()
            await self._arrival.wait()
        return self.end

    def validate(self, message: Message) -> None:
        """Raise `WireFault` if the message is invalid. Without a known side only `jsonrpc` is checked."""
        if message.get("jsonrpc") != "2.0":
            raise WireFault(f"no `jsonrpc: 2.0`: {message}")
        if self._validated_side is None:
            return
        found = schema_violations(message, self._validated_side, self._core.calls)
        if found:
            raise WireFault(f"{json.dumps(message)[:400]} violates the schema: {'; '.join(found)}")

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def schema_violations(message: Message, sender: Side, methods: Mapping[Any, str]) -> list[str]:
    """The schema violations in one message of this side.

    `methods` maps the ids of the other side's requests, as `id_key`, to their methods.
    """
    other: Side = "client" if sender == "agent" else "agent"
    name = message.get("method")
    if name is not None:
        entry = request(other, name) if "id" in message else notification(other, name)
        if entry is None:
            is_extension = name.startswith(("_", "$/"))
            return [] if is_extension else [f"{name} is not a method of the protocol"]
        return [str(item) for item in violations(entry.params, message.get("params", {}))]
    if "error" in message:
        error = message["error"]
        well_formed = isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
        return [] if well_formed and "result" not in message else ["malformed error answer"]
    entry = request(sender, methods.get(id_key(message.get("id")), ""))
    if entry is None or entry.result is None:
        return []
    return [str(item) for item in violations(entry.result, message.get("result"))]


def raw_pair(*, validate: Side | None = None) -> tuple[MemoryTransport, RawPeer]:
    """A transport for the side under test, and a `RawPeer` at its other end."""
    ours, theirs = memory_pair()
    return ours, RawPeer(theirs, validate=validate)


class WireLog:
    """The messages of both directions in order, each with the side that sent it."""

    def __init__(self) -> None:
        self.messages: list[tuple[Side, Message]] = []
        self.invalid_lines: list[bytes] = []
        """Lines that are not JSON objects."""
        self.on_message: Callable[[Side, Message], None] | None = None
        """Called with each message when it is recorded."""

    def add(self, side: Side, frame: Frame) -> None:
        """Record one frame."""
        message = parse_message(frame)
        if message is not None:
            self.messages.append((side, message))
            if self.on_message is not None:
                self.on_message(side, message)
        else:
            self.invalid_lines.append(frame if isinstance(frame, bytes) else frame.head)

    def sent_by(self, side: Side) -> list[Message]:
        """The messages of one side."""
        return [message for sender, message in self.messages if sender == side]

    def methods(self, side: Side) -> list[str]:
        """The methods of one side's requests and notifications, in order."""
        return [message["method"] for message in self.sent_by(side) if "method" in message]

    def calls(self, method: str) -> list[Any]:
        """The params of all requests and notifications of this method, of either side."""
        return [message.get("params") for _, message in self.messages if message.get("method") == method]

    def updates(self, kind: str | None = None) -> list[Any]:
        """The session updates, or those of one kind, as wire dicts."""
        updates = [params["update"] for params in self.calls("session/update")]
        return [update for update in updates if kind is None or update["sessionUpdate"] == kind]

    def assert_valid(self, side: Side = "agent") -> None:
        """Raise `WireFault` if a message of this side violates the schema."""
        if self.invalid_lines:
            raise WireFault(f"a line is not a message: {self.invalid_lines[0][:200]!r}")
        other: Side = "client" if side == "agent" else "agent"
        methods: dict[Any, str] = {}
        for sender, message in self.messages:
            if sender == other and "method" in message and "id" in message:
                methods[id_key(message["id"])] = message["method"]
            elif sender == side:
                found = schema_violations(message, side, methods)
                if found:
                    raise WireFault(f"{json.dumps(message)[:400]} violates the schema: {'; '.join(found)}")

    def assert_answered(self) -> None:
        """Raise `WireFault` unless every request of either side has exactly one answer."""
        sides: tuple[tuple[Side, Side], ...] = (("agent", "client"), ("client", "agent"))
        for side, other in sides:
            ids = [message["id"] for message in self.sent_by(side) if "method" in message and "id" in message]
            answers = Counter(
                id_key(message.get("id")) for message in self.sent_by(other) if "method" not in message
            )
            for id in ids:
                if answers[id_key(id)] != 1:
                    raise WireFault(f"the {side}'s request {id!r} has {answers[id_key(id)]} answers")


class _LogSink:
    """A trace sink that adds all frames to a log."""

    def __init__(self, log: WireLog) -> None:
        self._log = log

    def add_frames(self, sender: Side, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._log.add(sender, frame)

    def ended(self, end: TransportEnd, sender: Side) -> None:
        pass

    async def aclose(self) -> None:
        pass


class RecordingTransport(TappedTransport):
    """A transport wrapper that records the messages of both directions in `log`."""

    def __init__(self, transport: Transport, *, side: Side, log: WireLog | None = None) -> None:
        """`side` is the side that uses this transport."""
        self.log: WireLog = WireLog() if log is None else log
        super().__init__(transport, _LogSink(self.log), ours=side)
