"""Answers, pieces and faults of a model script; the interface to a provider's format."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

# MERGED testing.models.script: What a script is made of: answers with their pieces, and faults. The same script plays in every provider's format.

StopCause: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "tool_use"]


@dataclass(frozen=True)
class Thought:
    """Something thought aloud. The signature comes with it where the format has one."""

    text: str
    signature: str = "c2lnbmVk"


@dataclass(frozen=True)
class ModelToolCall:
    """A call of a tool. Arguments given as text go out as they are, however malformed; they come in several pieces."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None
    pieces: int = 3

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))

    @property
    def split(self) -> list[str]:
        """The arguments as they are streamed."""
        size = max(1, -(-len(self.text) // max(1, self.pieces)))
        return [self.text[start : start + size] for start in range(0, len(self.text), size)]


@dataclass(frozen=True)
class Refusal:
    """The model declines, in these words."""

    text: str


@dataclass(frozen=True)
class RawBytes:
    """Bytes for the stream, as they are."""

    data: bytes


@dataclass(frozen=True)
class DroppedConnection:
    """The connection breaks here. A clean drop ends the stream in good order, but too early."""

    clean: bool = False


class StreamPause:
    """The stream waits here until the test opens the gate."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._reached = asyncio.Event()

    def open(self) -> None:
        """Let the stream go on."""
        self._open.set()

    async def reached(self) -> None:
        """Return when the stream has come to the gate: everything before it was sent."""
        await self._reached.wait()

    async def passed(self) -> None:
        """For the server: come to the gate and wait."""
        self._reached.set()
        await self._open.wait()


FaultKind: TypeAlias = Literal["auth", "context_full", "quota", "unknown_model", ""]


@dataclass(frozen=True)
class ModelFault:
    """An error in place of an answer, in the provider's shape; as a piece of an answer it comes inside the stream."""

    status: int
    message: str = "scripted fault"
    kind: FaultKind = ""
    retry_after: float | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    """In place of the provider's shape."""


@dataclass(frozen=True)
class ScriptedUsage:
    """Usage. `input` counts everything read, with the cache; `output` everything written, with thoughts."""

    input: int = 10
    output: int = 5
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0


Piece: TypeAlias = (
    str | Thought | ModelToolCall | Refusal | RawBytes | DroppedConnection | StreamPause | ModelFault
)


class ModelAnswer:
    """One answer: text, thoughts, calls and faults, in the order in which they are streamed."""

    def __init__(
        self, *pieces: Piece, stop: StopCause | None = None, usage: ScriptedUsage | None = None
    ) -> None:
        self.pieces = pieces
        self.usage = ScriptedUsage() if usage is None else usage
        self._stop: StopCause | None = stop

    @property
    def stop(self) -> StopCause:
        """The stop reason: as scripted, else what the pieces make of it."""
        if self._stop is not None:
            return self._stop
        if any(isinstance(piece, Refusal) for piece in self.pieces):
            return "refusal"
        if any(isinstance(piece, ModelToolCall) for piece in self.pieces):
            return "tool_use"
        return "end_turn"


Reply: TypeAlias = ModelAnswer | ModelFault


# MERGED testing.models.format: The seam between a script and one provider's wire format.

Frame: TypeAlias = bytes | StreamPause | DroppedConnection
"""What the server does next: write this, wait here, break off here."""


class ModelFormat(Protocol):
    """How one provider says things."""

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[Frame]:
        """The stream of an answer; `number` tells the answers of a server apart."""
        ...

    def error(self, fault: ModelFault) -> dict[str, Any]:
        """The body of an error."""
        ...

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        """The list of models."""
        ...


def event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
