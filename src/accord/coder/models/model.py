"""The contract between the agent loop and a model: one request in, a stream of events out."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from accord.coder.model_history import AssistantMessage, Message, TextPart, ToolUse
from accord.errors import AccordError

Effort: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final[tuple[Effort, ...]] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model may think, from least to most. A model uses the nearest level that it has."""

StopCause: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "tool_use"]

ErrorKind: TypeAlias = Literal[
    "auth", "rate", "overloaded", "bad_request", "context_full", "network", "other"
]


class ToolSpec(Struct, frozen=True):
    """The description of a tool that the model gets."""

    name: str
    description: str
    schema: dict[str, Any]
    """The JSON Schema of its arguments."""


class ModelRequest(Struct, frozen=True):
    """Everything a model sees. The history must already be repaired."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: Effort | None = None
    """None means the provider's default."""
    cache_key: str = ""
    """The same for requests with a common beginning, so that the provider finds it in its cache."""


class TextDelta(Struct, frozen=True):
    """The next piece of the answer's text."""

    text: str


class ThoughtDelta(Struct, frozen=True):
    """The next piece of the model's visible reasoning."""

    text: str


class RequestUsage(Struct, frozen=True):
    """The tokens of one request.

    Sent once, before `Stopped`. Before an error, it is sent if the provider has reported it by then.
    """

    input: int
    """All input tokens, cached ones included."""
    output: int
    """All output tokens, reasoning included."""
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    cost: float | None = None
    """In US dollars; None if the price is unknown."""


class Stopped(Struct, frozen=True):
    """The last event of a stream. `message` is the complete answer, ready for the history."""

    reason: StopCause
    message: AssistantMessage
    refusal_text: str = ""
    """The provider's explanation of a refusal."""
    response_id: str = ""
    response_model: str = ""
    """The model that answered, if the provider says so: often the name with a date."""


class Retrying(Struct, frozen=True):
    """A request failed. It is sent again after `seconds`, and its answer begins anew."""

    attempt: int
    """The number of the next attempt: 2 for the first retry."""
    seconds: float
    reason: str
    began: bool = False
    """Whether a part of the answer had arrived."""
    next_model: str = ""
    """The model that is asked instead, if it is another one."""


ModelEvent: TypeAlias = TextDelta | ThoughtDelta | ToolUse | RequestUsage | Stopped | Retrying


class Model(Protocol):
    """A language model. Closing the stream early also cancels the request at the provider."""

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
        """The size of the context window in tokens; None if unknown."""
        ...

    @property
    def efforts(self) -> Sequence[Effort]:
        """The levels of thinking that a request may ask for."""
        ...

    @property
    def max_tools(self) -> int | None:
        """How many tools a request may have; None if unknown."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield text, thoughts and complete tool calls as they arrive, then `RequestUsage` if known, then
        `Stopped`.

        Raises ModelError.
        """
        ...


class ModelError(AccordError):
    """A model gave no complete answer. The message names provider, model, problem and remedy in one line."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        final: bool = False,
        partial_answer: AssistantMessage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retry_after: float | None = retry_after
        """Seconds the provider asked to wait."""
        self.status: int | None = status
        """The HTTP status of the provider's error."""
        self.final: bool = final or kind not in ("rate", "overloaded", "network")
        """Whether a retry of the same request would fail again."""
        self.partial_answer: AssistantMessage | None = partial_answer
        """The part of the answer that arrived before the failure."""


class AnswerDraft:
    """Collects the text of an answer that may break off.

    Leaves out tool calls, which may be incomplete, and thoughts: their signature comes at their end, and
    providers refuse thoughts without one.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, event: ModelEvent) -> None:
        """Append the text of an event."""
        if isinstance(event, TextDelta):
            self._texts.append(event.text)

    @property
    def message(self) -> AssistantMessage | None:
        """The answer so far; None if it is empty."""
        return AssistantMessage((TextPart("".join(self._texts)),)) if self._texts else None
