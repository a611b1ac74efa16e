"""The messages between agent and model, free of provider and protocol shapes, and the history they form."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accord.errors import UsageError

# MERGED coder.messages: What was said between the agent and its model, free of any provider's and any protocol version's shape.
#
# The session log keeps these as they are; `repair` makes any list of them one that every provider accepts. Data that only
# its provider understands (signatures of thoughts, ids of items) travels in `opaque` and goes back to that provider alone.

Opaque: TypeAlias = dict[str, Any]


class TextPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Words."""

    text: str
    opaque: Opaque | None = None


class ImagePart(Struct, frozen=True, tag_field="type", tag="image"):
    """A picture, as the bytes of its file."""

    data: bytes
    mime_type: str


class ThoughtPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="thought"):
    """What a model thought aloud, or the sealed form of it."""

    text: str
    opaque: Opaque | None = None


class ToolUse(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_use"):
    """A model's call of a tool. Arguments that were no JSON object are kept as the text that came."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    opaque: Opaque | None = None


Part: TypeAlias = TextPart | ImagePart
"""What people and tools say to a model."""

AnswerPart: TypeAlias = TextPart | ThoughtPart | ToolUse
"""What a model says."""


class UserMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="user"):
    """What the user says to the model."""

    parts: tuple[Part, ...]
    note: bool = False
    """Whether it is a word of the agent itself, between the steps of a turn, and no prompt."""


class AssistantMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="assistant"):
    """What the model answered. `provider` and `opaque` say whom the opaque data of the parts belongs to."""

    parts: tuple[AnswerPart, ...]
    provider: str | None = None
    opaque: Opaque | None = None


class ToolResult(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="tool"):
    """What came of one tool use."""

    id: str
    name: str
    parts: tuple[Part, ...]
    failed: bool = False


Message: TypeAlias = UserMessage | AssistantMessage | ToolResult

INTERRUPTED: Final = "Interrupted: this call has no result. It may or may not have had effects."
"""What the model is told of a call whose result never came."""

_DEEPEST: Final = 100
_DECODER: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)


def user(*parts: str | Part) -> UserMessage:
    """A message of the user."""
    return UserMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def note(text: str) -> UserMessage:
    """A word of the agent to its model."""
    return UserMessage((TextPart(text),), note=True)


def assistant(*parts: str | AnswerPart) -> AssistantMessage:
    """A message of the model that belongs to no provider."""
    return AssistantMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def result(use: ToolUse, *parts: str | Part, failed: bool = False) -> ToolResult:
    """The result of a tool use."""
    return ToolResult(
        use.id, use.name, tuple(TextPart(part) if isinstance(part, str) else part for part in parts), failed
    )


def text_of(message: Message) -> str:
    """Its words, without thoughts, calls and pictures."""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def uses_of(message: Message) -> list[ToolUse]:
    """The calls in it."""
    return [part for part in message.parts if isinstance(part, ToolUse)]


def too_deep(arguments: Any) -> bool:
    """Whether lists and objects are nested deeper than anybody means; what is would overflow the stack where it is written."""
    level: list[Any] = [arguments]
    for _ in range(_DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[Any, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list) else ()


def message_of(data: bytes) -> Message:
    """The message that was written as this JSON. Raises `msgspec.MsgspecError` for anything else."""
    return _DECODER.decode(data)


def repair(history: Iterable[Message]) -> list[Message]:
    """The history as every provider accepts it; a sound one comes back equal.

    Every tool use is followed by exactly one result, in the order of the uses, before anything else is said; a result
    that never came is stated as interrupted, one without a use is left out. Ids are unique. Blank text, thoughts that
    lead to nothing and empty messages are left out.
    """
    messages = [kept for message in history if (kept := _without_blanks(message)) is not None]
    results = _pair(messages)
    repaired: list[Message] = []
    ids = _Ids()
    for position, message in enumerate(messages):
        if isinstance(message, UserMessage):
            repaired.append(message)
        elif isinstance(message, AssistantMessage):
            _add_answer(repaired, message, results.get(position, {}), ids)
    return repaired


_Slots: TypeAlias = dict[int, ToolResult]
"""The results of one answer, by the number of the tool use in it."""


def _pair(messages: Sequence[Message]) -> dict[int, _Slots]:
    """Each result with its use: one of the latest answer before it that has the id, the first that is still open."""
    results: dict[int, _Slots] = {}
    open_uses: dict[str, deque[tuple[int, int]]] = {}
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            fresh: dict[str, deque[tuple[int, int]]] = {}
            for number, use in enumerate(uses_of(message)):
                fresh.setdefault(use.id, deque()).append((position, number))
            open_uses.update(fresh)
        elif isinstance(message, ToolResult) and (places := open_uses.get(message.id)):
            answer, number = places.popleft()
            results.setdefault(answer, {})[number] = message
    return results


def _add_answer(repaired: list[Message], answer: AssistantMessage, results: _Slots, ids: "_Ids") -> None:
    parts: list[AnswerPart] = []
    following: list[ToolResult] = []
    changed = False
    for part in answer.parts:
        if isinstance(part, ToolUse):
            use_id = ids.unique(part.id)
            if use_id != part.id:
                part, changed = replace(part, id=use_id), True
            found = results.get(len(following)) or result(part, INTERRUPTED, failed=True)
            if (found.id, found.name) != (use_id, part.name):
                found = replace(found, id=use_id, name=part.name)
            following.append(found)
        parts.append(part)
    repaired.append(replace(answer, parts=tuple(parts)) if changed else answer)
    repaired.extend(following)


class _Ids:
    """The ids of one history. Some servers begin anew with every answer, so one id may come a thousand times."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, use_id: str) -> str:
        """An id that no other use has. The renamed ones are the same every time, for the providers' prompt caches."""
        if not use_id or use_id in self._taken:
            stem, number = use_id or "call", self._next.get(use_id, 2 if use_id else 1)
            while (candidate := f"{stem}-{number}") in self._taken:
                number += 1
            self._next[use_id], use_id = number + 1, candidate
        self._taken.add(use_id)
        return use_id


def _without_blanks(message: Message) -> Message | None:
    parts = [part for part in message.parts if not isinstance(part, TextPart) or part.text.strip()]
    if isinstance(message, AssistantMessage):
        while parts and isinstance(parts[-1], ThoughtPart):
            parts.pop()
        parts = [part for part in parts if not isinstance(part, ThoughtPart) or part.text or part.opaque]
    if not parts and not isinstance(message, ToolResult):
        return None  # a tool may well have said nothing; its use still needs the answer
    return message if len(parts) == len(message.parts) else replace(message, parts=tuple(parts))


# MERGED coder.history: What the model remembers of a session: it grows, is sometimes replaced by less, and is logged as it does.
#
# The log keeps every entry; what the model remembers is the fold of them. What the user saw is logged apart, as events.

KIND: Final = "model"
"""The kind of the records in a session's log."""

Why: TypeAlias = Literal["compacted", "refused"]


class MessagesAdded(Struct, frozen=True, tag="added"):
    """These came after all others."""

    messages: tuple[Message, ...]


class HistoryReplaced(Struct, frozen=True, tag="replaced"):
    """From here on the model remembers these instead of all before."""

    messages: tuple[Message, ...]
    why: Why


Entry: TypeAlias = MessagesAdded | HistoryReplaced

_LOG_DECODER: Final[msgspec.json.Decoder[Entry]] = msgspec.json.Decoder(Entry)


class HistoryLog(Protocol):
    """Where entries are written; a store's `Journal` is one."""

    def record(self, kind: str, *values: Any) -> None: ...


class ModelHistory:
    """The messages of one run of the loop, logged where there is a log: a sub-agent's are not."""

    def __init__(self, log: HistoryLog | None = None, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self._log = log

    def add(self, *messages: Message) -> None:
        """Remember these too."""
        self.messages += messages
        if self._log is not None and messages:
            self._log.record(KIND, MessagesAdded(messages))

    def replace(self, messages: Sequence[Message], why: Why) -> None:
        """Remember these, and nothing else."""
        self.messages = list(messages)
        if self._log is not None:
            self._log.record(KIND, HistoryReplaced(tuple(messages), why))

    def sound(self) -> list[Message]:
        """What a provider can be sent, whatever happened on the way."""
        return repair(self.messages)


def fold(messages: list[Message], data: bytes) -> None:
    """Make of what was remembered before an entry of the log what is remembered after it. Raises `MsgspecError`."""
    entry = _LOG_DECODER.decode(data)
    if isinstance(entry, HistoryReplaced):
        messages.clear()
    messages += entry.messages


# MERGED coder.context.refusal: What is left of a history when a provider refused a prompt.


def last_prompt(history: Sequence[Message]) -> int | None:
    """Where the last prompt of the user stands; None if there is none. Notes of the agent are no prompts."""
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if isinstance(message, UserMessage) and not message.note:
            return index
    return None


def without_refused(history: Sequence[Message], prompt_index: int) -> list[Message]:
    """The history without the prompt at that place and all that followed it.

    A turn that was compacted on its way has told the summary of it: give the history as it was when the turn began.
    """
    if not 0 <= prompt_index < len(history):
        raise UsageError(f"there is no message {prompt_index} in a history of {len(history)}")
    refused = history[prompt_index]
    if not isinstance(refused, UserMessage) or refused.note:
        raise UsageError(f"message {prompt_index} is no prompt of the user")
    return repair(history[:prompt_index])
