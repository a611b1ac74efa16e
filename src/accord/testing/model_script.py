"""The answers, pieces and faults of a model script, and the interface of a provider's format.

A script works with the format of every provider.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

StopCause: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "tool_use"]


@dataclass(frozen=True)
class Thought:
    """Reasoning. The signature is sent in formats that have one."""

    text: str
    signature: str = "c2lnbmVk"


@dataclass(frozen=True)
class ModelToolCall:
    """A tool call. The arguments are streamed in `pieces` chunks; a string is sent unchanged."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None
    pieces: int = 3

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))

    @property
    def argument_chunks(self) -> list[str]:
        """The arguments in chunks, as they are streamed."""
        size = max(1, -(-len(self.text) // max(1, self.pieces)))
        return [self.text[start : start + size] for start in range(0, len(self.text), size)]


@dataclass(frozen=True)
class Refusal:
    """A refusal with this text."""

    text: str


@dataclass(frozen=True)
class RawBytes:
    """Bytes for the stream, sent unchanged."""

    data: bytes


@dataclass(frozen=True)
class DroppedConnection:
    """Breaks the connection. `clean=True` ends the stream early, without an error."""

    clean: bool = False


class StreamPause:
    """Pauses the stream until the test calls `release`."""

    def __init__(self) -> None:
        self._released = asyncio.Event()
        self._reached = asyncio.Event()

    def release(self) -> None:
        """Continue the stream."""
        self._released.set()

    async def reached(self) -> None:
        """Wait until the stream has reached the pause; everything before it was sent."""
        await self._reached.wait()

    async def wait(self) -> None:
        """For the server: report that the pause is reached, and wait for its release."""
        self._reached.set()
        await self._released.wait()


FaultKind: TypeAlias = Literal["auth", "context_full", "quota", "unknown_model", ""]


@dataclass(frozen=True)
class ModelFault:
    """An error in the provider's format: in place of an answer, or as a piece inside its stream."""

    status: int
    message: str = "scripted fault"
    kind: FaultKind = ""
    retry_after: float | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    """A body to send in place of the provider's format."""


@dataclass(frozen=True)
class ScriptedUsage:
    """Token counts. `input` includes cached tokens; `output` includes reasoning."""

    input: int = 10
    output: int = 5
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0


Piece: TypeAlias = (
    str | Thought | ModelToolCall | Refusal | RawBytes | DroppedConnection | StreamPause | ModelFault
)


class ModelAnswer:
    """One answer: its pieces in the order in which they are streamed."""

    def __init__(
        self, *pieces: Piece, stop: StopCause | None = None, usage: ScriptedUsage | None = None
    ) -> None:
        self.pieces: tuple[Piece, ...] = pieces
        self.usage: ScriptedUsage = ScriptedUsage() if usage is None else usage
        self._stop: StopCause | None = stop

    @property
    def stop(self) -> StopCause:
        """The scripted stop reason, or the one that follows from the pieces."""
        if self._stop is not None:
            return self._stop
        if any(isinstance(piece, Refusal) for piece in self.pieces):
            return "refusal"
        if any(isinstance(piece, ModelToolCall) for piece in self.pieces):
            return "tool_use"
        return "end_turn"


Reply: TypeAlias = ModelAnswer | ModelFault
"""An item of the script of a `ModelServer`."""


StreamFrame: TypeAlias = bytes | StreamPause | DroppedConnection
"""The next step of the server: write bytes, pause, or break the connection."""


class ModelFormat(Protocol):
    """The wire format of one provider."""

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[StreamFrame]:
        """The stream of an answer; `number` makes its ids unique on a server."""
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
