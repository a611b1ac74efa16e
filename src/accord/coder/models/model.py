"""The seam between the loop and whatever thinks: one request in, a stream of events out."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from accord.coder.model_history import AssistantMessage, Message, TextPart, ThoughtPart, ToolUse
from accord.errors import AccordError

Effort: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final[tuple[Effort, ...]] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard a model may be asked to think. A model takes the nearest one it has."""

StopCause: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "tool_use"]

ErrorKind: TypeAlias = Literal[
    "auth", "rate", "overloaded", "bad_request", "context_full", "network", "other"
]


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]
    """The JSON Schema of its arguments."""


class ModelRequest(Struct, frozen=True):
    """Everything a model sees. The history is expected to be repaired."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: Effort | None = None
    """None leaves it to the provider."""


class TextDelta(Struct, frozen=True):
    """A piece of the answer, right behind the one before."""

    text: str


class ThoughtDelta(Struct, frozen=True):
    """A piece of what the model thinks aloud."""

    text: str


class RequestUsage(Struct, frozen=True):
    """The tokens of one request. Comes once, before `Stopped`, and with an error if the provider had said it by then."""

    input: int
    """All tokens read, with those of the cache."""
    output: int
    """All tokens written, with those of thoughts."""
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    cost: float | None = None
    """In US dollars; None where the price is not known."""


class Stopped(Struct, frozen=True):
    """The answer is complete: the last event of a stream. `message` is all of it, as the history should keep it."""

    reason: StopCause
    message: AssistantMessage
    note: str = ""
    """With a refusal: what the provider says about it."""


class Retrying(Struct, frozen=True):
    """A request failed before anything was answered, and goes out again after so many seconds."""

    attempt: int
    """The number of the attempt that comes: 2 for the first retry."""
    seconds: float
    why: str


ModelEvent: TypeAlias = TextDelta | ThoughtDelta | ToolUse | RequestUsage | Stopped | Retrying


class Model(Protocol):
    """Something that answers. Closing the stream before its end gives up the request, also at the provider."""

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        ...

    @property
    def provider(self) -> str: ...

    @property
    def sees_images(self) -> bool: ...

    @property
    def context_size(self) -> int | None:
        """How many tokens fit; None where that is not known."""
        ...

    @property
    def efforts(self) -> Sequence[Effort]:
        """The levels of thinking that can be asked for."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Text, thoughts and complete tool uses as they come, then `RequestUsage` if known, then `Stopped`.

        An async generator. Raises ModelError.
        """
        ...


class ModelError(AccordError):
    """A model gave no whole answer. One line: who, which model, what happened, what to do."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry_after: float | None = None,
        final: bool = False,
        partial: AssistantMessage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retry_after = retry_after
        """Seconds the provider asked to wait."""
        self.final = final or kind not in ("rate", "overloaded", "network")
        """Whether the same request again would fail again."""
        self.partial = partial
        """What had been answered before it failed."""


class PartialAnswer:
    """An answer as far as it came, for when it is cut off. Calls are left out: nobody knows whether they were whole."""

    def __init__(self) -> None:
        self._parts: list[tuple[type[TextPart] | type[ThoughtPart], list[str]]] = []

    def add(self, event: ModelEvent) -> None:
        """Take note of an event."""
        if isinstance(event, TextDelta | ThoughtDelta):
            kind = TextPart if isinstance(event, TextDelta) else ThoughtPart
            if not self._parts or self._parts[-1][0] is not kind:
                self._parts.append((kind, []))
            self._parts[-1][1].append(event.text)

    @property
    def message(self) -> AssistantMessage | None:
        """What came so far; None if that is nothing."""
        parts = tuple(kind("".join(pieces)) for kind, pieces in self._parts)
        return AssistantMessage(parts) if parts else None
