"""A tap on a transport: every message of both directions, in order, and what can be asserted about them."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from accord.schema.jsontext import NotJson, parse_json
from accord.testing.wire import Message, Side, WireFault, violations_in
from accord.trace.tap import Tapped
from accord.wire.transport import End, Frame, Transport

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

    def ended(self, end: End, sender: Side) -> None:
        """Nothing: a log holds messages."""

    async def aclose(self) -> None:
        """Nothing: the log is looked at afterwards."""


class Tap(Tapped):
    """A transport that passes everything on and writes it down."""

    def __init__(self, transport: Transport, *, ours: Side, log: WireLog | None = None) -> None:
        """`ours` is the side that uses this transport."""
        self.log = WireLog() if log is None else log
        super().__init__(transport, _Into(self.log), ours=ours)
