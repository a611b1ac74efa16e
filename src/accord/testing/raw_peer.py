"""One end of a transport driven message by message; the log of both directions and its assertions."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from accord.schema.codec import NotJson, parse_json
from accord.schema.methods import notification, request
from accord.schema.validation import violations
from accord.trace.tap import TappedTransport
from accord.wire.memory_transport import MemoryTransport, memory_pair
from accord.wire.transport import Frame, Transport, TransportEnd

# MERGED testing.wire: The wire by hand: one end of a transport that a test reads and writes message by message.
#
# `RawPeer` sends exactly what it is told (valid or not) and keeps everything it hears in order. Given a side, it also
# judges every message it hears by the strict walk of `accord.schema`, so that a test fails on anything invalid.

Message = dict[str, Any]
Side = Literal["agent", "client"]


class WireFault(AssertionError):
    """What was heard is not what the protocol allows, or not what the test expected."""


class RawPeer:
    """One end of a transport, spoken by hand."""

    def __init__(self, transport: Transport, *, hears: Side | None = None) -> None:
        """`hears` names the side at the other end; its messages are then held to the schema."""
        self.heard: list[Message] = []
        self.end: TransportEnd | None = None
        self._transport = transport
        self._hears: Side | None = hears
        self._asked: dict[Any, str] = {}
        self._read = 0
        self._next_id = 0
        self._news = asyncio.Event()
        transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """What the transport brings."""
        for frame in frames:
            assert isinstance(frame, bytes), f"an oversized frame arrived: {frame}"
            message = parse_json(frame)
            self.heard.append(message)
        self._news.set()

    def ended(self, end: TransportEnd) -> None:
        """The other side is gone."""
        self.end = end
        self._news.set()

    def send(self, message: Message | bytes | str) -> None:
        """Send a message as it is; text and bytes go out without a look."""
        if isinstance(message, dict):
            if "method" in message and "id" in message:
                self._asked[_hashable(message["id"])] = message["method"]
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

    def reply(self, asked: Message, result: Any) -> None:
        """Answer a request that was heard."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def refuse(self, asked: Message, code: int, text: str = "no", **more: Any) -> None:
        """Answer a request that was heard with an error."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": text, **more}})

    async def next(self, method: str | None = None) -> Message:
        """The next message, in order; with a method it must be that one."""
        while self._read >= len(self.heard):
            if self.end is not None:
                raise WireFault(f"nothing more comes: {self.end.reason}")
            self._news.clear()
            await self._news.wait()
        message = self.heard[self._read]
        self._read += 1
        self.judge(message)
        if method is not None and message.get("method") != method:
            raise WireFault(f"expected {method}, heard {json.dumps(message)[:400]}")
        return message

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """Read on to the first message that fits."""
        while True:
            message = await self.next()
            if wanted(message):
                return message

    async def until_method(self, method: str) -> Message:
        """Read on to the next call or notification of this method."""
        return await self.until(lambda message: message.get("method") == method)

    async def answer_to(self, id: Any) -> Message:
        """Read on to the answer to this request."""
        return await self.until(lambda message: "method" not in message and message.get("id") == id)

    async def wait_end(self) -> TransportEnd:
        """Return how the other side ended."""
        while self.end is None:
            self._news.clear()
            await self._news.wait()
        return self.end

    def judge(self, message: Message) -> None:
        """Hold one message to the envelope rules and, when the side is known, to the schema."""
        if message.get("jsonrpc") != "2.0":
            raise WireFault(f"no jsonrpc 2.0: {message}")
        if self._hears is None:
            return
        found = violations_in(message, self._hears, self._asked)
        if found:
            raise WireFault(f"{json.dumps(message)[:400]} breaks the schema: {'; '.join(found)}")

    async def aclose(self) -> None:
        """Hang up."""
        await self._transport.aclose()


def violations_in(message: Message, sender: Side, asked: dict[Any, str]) -> list[str]:
    """What the strict walk finds in one message of this side; `asked` maps the other side's request ids to methods."""
    other: Side = "client" if sender == "agent" else "agent"
    name = message.get("method")
    if name is not None:
        entry = request(other, name) if "id" in message else notification(other, name)
        if entry is None:
            legal = name.startswith(("_", "$/"))
            return [] if legal else [f"{name} is no method of the protocol"]
        return [str(item) for item in violations(entry.params, message.get("params", {}))]
    if "error" in message:
        error = message["error"]
        sound = isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
        return [] if sound and "result" not in message else ["malformed error answer"]
    entry = request(sender, asked.get(_hashable(message.get("id")), ""))
    if entry is None or entry.result is None:
        return []
    return [str(item) for item in violations(entry.result, message.get("result"))]


def raw_pair(*, hears: Side | None = None) -> tuple[MemoryTransport, RawPeer]:
    """A transport for the side under test, and the hand-spoken peer at its other end."""
    ours, theirs = memory_pair()
    return ours, RawPeer(theirs, hears=hears)


def _hashable(id: Any) -> Any:
    return id if isinstance(id, (str, int, float, type(None))) else repr(id)


# MERGED testing.tap: A tap on a transport: every message of both directions, in order, and what can be asserted about them.

Direction = Literal["sent", "received"]


class WireLog:
    """Messages as they crossed, each with the side that sent it."""

    def __init__(self) -> None:
        self.messages: list[tuple[Side, Message]] = []
        self.noise: list[bytes] = []
        """Lines that were no JSON object."""
        self.listener: Callable[[Side, Message], None] | None = None
        """Told of every message as it passes."""

    def note(self, side: Side, frame: Frame) -> None:
        """Take down one frame."""
        try:
            message = parse_json(frame) if isinstance(frame, bytes) else None
        except NotJson:
            message = None
        if isinstance(message, dict):
            noted = cast(Message, message)
            self.messages.append((side, noted))
            if self.listener is not None:
                self.listener(side, noted)
        else:
            self.noise.append(frame if isinstance(frame, bytes) else frame.head)

    def of(self, side: Side) -> list[Message]:
        """What one side sent."""
        return [message for sender, message in self.messages if sender == side]

    def methods(self, side: Side) -> list[str]:
        """The methods one side called or notified, in order."""
        return [message["method"] for message in self.of(side) if "method" in message]

    def calls(self, method: str) -> list[Any]:
        """The parameters of every call or notification of this method, whichever side sent it."""
        return [message.get("params") for _, message in self.messages if message.get("method") == method]

    def updates(self, kind: str | None = None) -> list[Any]:
        """The session updates, or those of one kind, as they were on the wire."""
        updates = [params["update"] for params in self.calls("session/update")]
        return [update for update in updates if kind is None or update["sessionUpdate"] == kind]

    def assert_valid(self, side: Side = "agent") -> None:
        """Everything this side sent is valid under the schema."""
        if self.noise:
            raise WireFault(f"a line that is no message: {self.noise[0][:200]!r}")
        other: Side = "client" if side == "agent" else "agent"
        asked: dict[Any, str] = {}
        for sender, message in self.messages:
            if sender == other and "method" in message and "id" in message:
                asked[message["id"]] = message["method"]
            elif sender == side:
                found = violations_in(message, side, asked)
                if found:
                    raise WireFault(f"{json.dumps(message)[:400]} breaks the schema: {'; '.join(found)}")

    def assert_answered(self) -> None:
        """Every request of either side has exactly one answer."""
        sides: tuple[tuple[Side, Side], ...] = (("agent", "client"), ("client", "agent"))
        for side, other in sides:
            asked = [message["id"] for message in self.of(side) if "method" in message and "id" in message]
            answers = Counter(
                repr(message.get("id")) for message in self.of(other) if "method" not in message
            )
            for id in asked:
                if answers[repr(id)] != 1:
                    raise WireFault(f"the {side}'s request {id!r} has {answers[repr(id)]} answers")


class _Into:
    """A sink that writes everything down in a log."""

    def __init__(self, log: WireLog) -> None:
        self._log = log

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._log.note(sender, frame)

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Nothing: a log holds messages."""

    async def aclose(self) -> None:
        """Nothing: the log is looked at afterwards."""


class RecordingTransport(TappedTransport):
    """A transport that passes everything on and writes it down."""

    def __init__(self, transport: Transport, *, ours: Side, log: WireLog | None = None) -> None:
        """`ours` is the side that uses this transport."""
        self.log = WireLog() if log is None else log
        super().__init__(transport, _Into(self.log), ours=ours)
