"""The messages between agent and model, free of provider and protocol shapes, and the history they form.

The session log stores these messages. `repair` turns any list of them into one that every provider accepts.
Data that only its provider understands (signatures of thoughts, ids of items) is in `opaque` and goes back to
that provider only.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from accord.errors import UsageError

Opaque: TypeAlias = dict[str, Any]


class TextPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Text."""

    text: str
    opaque: Opaque | None = None


class ImagePart(Struct, frozen=True, tag_field="type", tag="image"):
    """An image, as the bytes of its file."""

    data: bytes
    mime_type: str


class ThoughtPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="thought"):
    """Reasoning of a model, or the provider's encrypted form of it."""

    text: str
    opaque: Opaque | None = None


class ToolUse(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_use"):
    """A tool call of the model. Arguments that are not a JSON object are kept as text."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    opaque: Opaque | None = None


Part: TypeAlias = TextPart | ImagePart
"""A part of a message to the model."""

AnswerPart: TypeAlias = TextPart | ThoughtPart | ToolUse
"""A part of a message from the model."""


class UserMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="user"):
    """A message to the model."""

    parts: tuple[Part, ...]
    note: bool = False
    """Whether the agent wrote this message during a turn; it is then not a user prompt."""


class AssistantMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="assistant"):
    """A message from the model. The opaque data of the parts belongs to `provider`."""

    parts: tuple[AnswerPart, ...]
    provider: str | None = None
    opaque: Opaque | None = None


class ToolResult(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of one tool call."""

    id: str
    name: str
    parts: tuple[Part, ...]
    failed: bool = False


Message: TypeAlias = UserMessage | AssistantMessage | ToolResult

INTERRUPTED: Final = "Interrupted: this call has no result. It may or may not have had effects."
"""The result of a tool call that was interrupted."""

_DEPTH_LIMIT: Final = 100


def user_message(*parts: str | Part) -> UserMessage:
    """A prompt of the user."""
    return UserMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def note_message(text: str) -> UserMessage:
    """A message in which the agent tells the model something during a turn."""
    return UserMessage((TextPart(text),), note=True)


def assistant_message(*parts: str | AnswerPart) -> AssistantMessage:
    """A message from the model that belongs to no provider."""
    return AssistantMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def result_message(use: ToolUse, *parts: str | Part, failed: bool = False) -> ToolResult:
    """The result of a tool call."""
    return ToolResult(
        use.id, use.name, tuple(TextPart(part) if isinstance(part, str) else part for part in parts), failed
    )


def text_of(message: Message) -> str:
    """The text, without thoughts, tool calls and images."""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def tool_uses_of(message: Message) -> list[ToolUse]:
    """The tool calls in a message."""
    return [part for part in message.parts if isinstance(part, ToolUse)]


def is_nested_too_deeply(arguments: Any) -> bool:
    """Whether lists and objects are nested too deeply: encoding them would overflow the stack."""
    level: list[Any] = [arguments]
    for _ in range(_DEPTH_LIMIT):
        level = [inner for value in level for inner in _children(value)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[Any, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list) else ()


def repair(history: Iterable[Message]) -> list[Message]:
    """Return the history in a form that every provider accepts. A valid history is returned unchanged.

    Each tool call is followed by exactly one result, in the order of the calls. A missing result becomes an
    interrupted one; a result without a call is removed. Ids are unique. Blank text, trailing thoughts and
    empty messages are removed.
    """
    messages = [cleaned for message in history if (cleaned := _without_blanks(message)) is not None]
    results = _match_results(messages)
    repaired: list[Message] = []
    ids = _UniqueIds()
    for position, message in enumerate(messages):
        if isinstance(message, UserMessage):
            repaired.append(message)
        elif isinstance(message, AssistantMessage):
            _add_answer(repaired, message, results.get(position, {}), ids)
    return repaired


_ResultsByIndex: TypeAlias = dict[int, ToolResult]
"""The results of one answer, by the index of the tool call in it."""


def _match_results(messages: Sequence[Message]) -> dict[int, _ResultsByIndex]:
    """Match each result with a call: the first open one with its id in the latest answer that has the id."""
    results: dict[int, _ResultsByIndex] = {}
    open_uses: dict[str, deque[tuple[int, int]]] = {}
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            latest_uses: dict[str, deque[tuple[int, int]]] = {}
            for index, use in enumerate(tool_uses_of(message)):
                latest_uses.setdefault(use.id, deque()).append((position, index))
            open_uses.update(latest_uses)
        elif isinstance(message, ToolResult) and (positions := open_uses.get(message.id)):
            answer, index = positions.popleft()
            results.setdefault(answer, {})[index] = message
    return results


def _add_answer(
    repaired: list[Message], answer: AssistantMessage, results: _ResultsByIndex, ids: "_UniqueIds"
) -> None:
    parts: list[AnswerPart] = []
    tool_results: list[ToolResult] = []
    changed = False
    for part in answer.parts:
        if isinstance(part, ToolUse):
            use_id = ids.unique(part.id)
            if use_id != part.id:
                part, changed = replace(part, id=use_id), True
            tool_result = results.get(len(tool_results)) or result_message(part, INTERRUPTED, failed=True)
            if (tool_result.id, tool_result.name) != (use_id, part.name):
                tool_result = replace(tool_result, id=use_id, name=part.name)
            tool_results.append(tool_result)
        parts.append(part)
    repaired.append(replace(answer, parts=tuple(parts)) if changed else answer)
    repaired.extend(tool_results)


class _UniqueIds:
    """The tool call ids of one history. Some servers reuse the same ids in every answer."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, use_id: str) -> str:
        """Return an id that no other call has. Deterministic, so that provider prompt caches match."""
        if not use_id or use_id in self._used:
            stem, number = use_id or "call", self._next.get(use_id, 2 if use_id else 1)
            while (candidate := f"{stem}-{number}") in self._used:
                number += 1
            self._next[use_id], use_id = number + 1, candidate
        self._used.add(use_id)
        return use_id


def _without_blanks(message: Message) -> Message | None:
    parts = [part for part in message.parts if not isinstance(part, TextPart) or part.text.strip()]
    if isinstance(message, AssistantMessage):
        while parts and isinstance(parts[-1], ThoughtPart):
            parts.pop()
        parts = [part for part in parts if not isinstance(part, ThoughtPart) or part.text or part.opaque]
    if not parts and not isinstance(message, ToolResult):
        return None  # a tool may return nothing; its call still needs the result
    return message if len(parts) == len(message.parts) else replace(message, parts=tuple(parts))


HISTORY_RECORD: Final = "model"
"""The kind of the history records in a session's log."""

ReplaceReason: TypeAlias = Literal["compacted", "refused", "rewound", "restored"]


class MessagesAdded(Struct, frozen=True, tag="added"):
    """These messages were added."""

    messages: tuple[Message, ...]


class HistoryReplaced(Struct, frozen=True, tag="replaced"):
    """These messages replaced all earlier ones."""

    messages: tuple[Message, ...]
    reason: ReplaceReason = field(name="why")


HistoryEntry: TypeAlias = MessagesAdded | HistoryReplaced

_LOG_DECODER: Final[msgspec.json.Decoder[HistoryEntry]] = msgspec.json.Decoder(HistoryEntry)


class HistoryLog(Protocol):
    """Where history entries are logged. `Journal` implements it."""

    def record(self, kind: str, *values: Any) -> None: ...


class ModelHistory:
    """The messages of one loop. Those of a session are logged, those of a sub-agent are not."""

    def __init__(self, log: HistoryLog | None = None, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self._log = log

    def add(self, *messages: Message) -> None:
        """Append messages."""
        self.messages += messages
        if self._log is not None and messages:
            self._log.record(HISTORY_RECORD, MessagesAdded(messages))

    def replace(self, messages: Sequence[Message], reason: ReplaceReason) -> None:
        self.messages = list(messages)
        if self._log is not None:
            self._log.record(HISTORY_RECORD, HistoryReplaced(tuple(messages), reason))

    def repaired(self) -> list[Message]:
        """The messages in a form that every provider accepts."""
        return repair(self.messages)


def apply_entry(messages: list[Message], data: bytes) -> None:
    """Apply a log entry to the messages. Raises `MsgspecError`."""
    entry = _LOG_DECODER.decode(data)
    if isinstance(entry, HistoryReplaced):
        messages.clear()
    messages += entry.messages


def last_prompt_index(history: Sequence[Message]) -> int | None:
    """The index of the last prompt of the user; None if there is none. Notes of the agent do not count."""
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if isinstance(message, UserMessage) and not message.note:
            return index
    return None


def without_refused_prompt(history: Sequence[Message], prompt_index: int) -> list[Message]:
    """The history without the prompt at this index and everything after it.

    A compaction during the turn may have put the prompt into the summary: pass the history from before the
    turn.
    """
    if not 0 <= prompt_index < len(history):
        raise UsageError(f"there is no message {prompt_index} in a history of {len(history)}")
    prompt = history[prompt_index]
    if not isinstance(prompt, UserMessage) or prompt.note:
        raise UsageError(f"message {prompt_index} is not a prompt of the user")
    return repair(history[:prompt_index])


def without_new_images(history: Sequence[Message], note: str) -> list[Message]:
    """The history with a note in place of each image behind the last answer of the model.

    `{}` in the note stands for the type of the image.
    """
    last = max((n for n, message in enumerate(history) if isinstance(message, AssistantMessage)), default=-1)
    messages = list(history)
    for number, message in enumerate(messages[last + 1 :], last + 1):
        if not isinstance(message, AssistantMessage):
            parts = [
                TextPart(note.format(part.mime_type)) if isinstance(part, ImagePart) else part
                for part in message.parts
            ]
            messages[number] = replace(message, parts=tuple(parts))
    return messages
