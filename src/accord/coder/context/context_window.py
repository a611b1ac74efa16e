"""Token estimates without a tokenizer, and how full the model's context is."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from accord.coder.model_history import AssistantMessage, ImagePart, Message, ToolResult, ToolUse, UserMessage
from accord.coder.models.model import ModelRequest
from accord.schema.codec import encode

# MERGED coder.context.tokens: How many tokens a text or a history has, without any provider's tokenizer: an estimate, and a meter that corrects it.
#
# The weights were fitted to the tokenizers of two providers over prose, source code, JSON, diffs, logs, listings and
# encoded data; for those the estimate is good to about a tenth. For other scripts than Latin it leans to the high side.

# Runs of one sort, a word with the one blank before it. No run can be read in two ways, so the search goes over any
# text exactly once.
_RUN: Final = re.compile(
    r"( ?(?:[A-Z]?[a-z]+|[A-Z]+))|([0-9]+)|(\s+)|([^\x00-\x7f]+)|([^\sA-Za-z0-9\x80-\U0010ffff]+)"
)
_WORD_RUN, _DIGIT_RUN, _SPACE_RUN, _FOREIGN_RUN = 1, 2, 3, 4

# In thousandths of a token.
_WORD: Final = 1040
_GLUED: Final = 240  # more, for a word with no blank before it
_LETTER: Final = 330  # of a word, past the common length
_RANDOM_LETTER: Final = 520  # of a run that is too long for a word
_NUMBER: Final = 1280
_SIGNS: Final = 820
_SPACE: Final = 470  # other than a single blank
_MORE: Final = 15  # for each character of a run of signs or space
_BYTE: Final = 290  # of another script

_COMMON: Final = 7
_LONGEST_WORD: Final = 24

_SAMPLED: Final = 400_000
"""A longer text is judged by slices of it: nobody waits for the exact size of what does not fit anyway."""
_SLICES: Final = 100
_SLICE: Final = 4000

IMAGE_TOKENS: Final = 1500
"""Of a picture. Providers scale large ones down to about this."""
_LEAST_RATIO: Final = 0.4
_MOST_RATIO: Final = 3.0
"""What a provider counts for one estimated token lies between these, or it counted something else."""
_MESSAGE_TOKENS: Final = 4
_CALL_TOKENS: Final = 10


def estimate(what: "str | Message | Sequence[Message] | ModelRequest") -> int:
    """About how many tokens it has. The time is linear in its length, and bounded for one text."""
    if isinstance(what, str):
        return _of_text(what)
    if isinstance(what, UserMessage | AssistantMessage | ToolResult):
        return _of_message(what)
    if isinstance(what, ModelRequest):
        return overhead(what) + estimate(what.messages)
    return sum(map(_of_message, what))


def overhead(request: ModelRequest) -> int:
    """About how many tokens a request has beside its history: the system prompt and the tools."""
    return _of_same(request.system) + sum(
        _CALL_TOKENS + _of_same(tool.description) + _of_same(msgspec.json.encode(tool.schema).decode())
        for tool in request.tools
    )


class TokenMeter:
    """Counts a session's requests. What a provider has counted is taken over; only what came since is estimated."""

    def __init__(self) -> None:
        self.ratio = 1.0
        """What the provider counted for one estimated token, the last time."""
        self._known: tuple[Message, ...] = ()
        self._guess = 0
        self._tokens: int | None = None

    def told(self, request: ModelRequest, tokens: int) -> None:
        """The provider counted so many input tokens in this request, those from its cache included."""
        history = self._estimate(request.messages)
        ratio = tokens / max(history + overhead(request), 1)
        self._known, self._guess, self._tokens = tuple(request.messages), history, None
        if ratio >= _LEAST_RATIO:  # some servers do not count, or leave out what was cached
            self._tokens = tokens
            self.ratio = min(ratio, _MOST_RATIO)

    def tokens(self, request: ModelRequest) -> int:
        """About how many input tokens this request has."""
        if self._tokens is not None and _begins_with(request.messages, self._known):
            return self._tokens + round(self.ratio * estimate(request.messages[len(self._known) :]))
        return round(self.ratio * (overhead(request) + self._estimate(request.messages)))

    def _estimate(self, messages: Sequence[Message]) -> int:
        """Of a history that mostly goes on where the last one ended."""
        if _begins_with(messages, self._known):
            return self._guess + estimate(messages[len(self._known) :])
        return estimate(messages)


def _begins_with(messages: Sequence[Message], known: Sequence[Message]) -> bool:
    return len(messages) >= len(known) and all(
        message is other or message == other for message, other in zip(messages, known, strict=False)
    )


def _of_message(message: Message) -> int:
    total = _MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, ImagePart):
            total += IMAGE_TOKENS
        elif isinstance(part, ToolUse):
            total += _CALL_TOKENS + _of_text(part.name) + _of_json(part.arguments)
        else:
            total += _of_text(part.text)
    return total


def _of_json(value: object) -> int:
    return _of_text(encode(value).decode())  # which takes half characters, too


@lru_cache(1024)
def _of_same(text: str) -> int:
    """Of a text that comes with every request."""
    return _of_text(text)


def _of_text(text: str) -> int:
    if len(text) <= _SAMPLED:
        return -(-_thousandths(text) // 1000)
    step = (len(text) - _SLICE) // (_SLICES - 1)
    taken = sum(_thousandths(text[number * step : number * step + _SLICE]) for number in range(_SLICES))
    return taken * len(text) // (_SLICES * _SLICE) // 1000


def _thousandths(text: str) -> int:
    total = 0
    for run in _RUN.finditer(text):
        sort = run.lastindex
        start, end = run.span()
        length = end - start
        if sort == _WORD_RUN:
            if length > _LONGEST_WORD:
                total += _RANDOM_LETTER * length
            elif text[start] == " ":
                total += _WORD + _LETTER * max(length - 1 - _COMMON, 0)
            else:
                total += _WORD + _GLUED + _LETTER * max(length - _COMMON, 0)
        elif sort == _DIGIT_RUN:
            total += _NUMBER + _MORE * length
        elif sort == _SPACE_RUN:
            total += _SPACE + _MORE * length if length > 1 or text[start] != " " else 0
        elif sort == _FOREIGN_RUN:
            total += _BYTE * len(run[0].encode("utf-8", "replace"))
        else:
            total += _SIGNS + _MORE * length
    return total


# MERGED coder.context.window: How full a model's context is, and when trying to empty it is no use.

ASSUMED_SIZE: Final = 128_000
"""Of a model that does not say how much fits. If less does, the provider's error says so in time."""
_RESERVE: Final = 20_000
"""Tokens that are kept free for the answer, in a large window."""


class ContextWindow(Struct, frozen=True):
    """The context of a model, in tokens."""

    size: int | None
    """How much fits; None if that is not known."""
    used: int
    """What the next request has, the system prompt and the tools included."""

    @property
    def room(self) -> int:
        """What a request may have: the answer has to fit as well."""
        size = self.size or ASSUMED_SIZE
        return size - min(_RESERVE, size // 5)

    @property
    def full(self) -> bool:
        """Whether it is time to compact."""
        return self.used >= self.room


class CompactionBreaker:
    """Ends compaction that does not help: after two in a row that did not, none is tried by itself until the next prompt."""

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._useless = 0
        self._unanswered = 0

    @property
    def may_compact(self) -> bool:
        """Whether compacting once more, unasked, makes sense."""
        return self._useless < self._most

    @property
    def may_ask(self) -> bool:
        """Whether the model should be asked for a summary; not if it failed to write one again and again."""
        return self._unanswered < self._most

    def compacted(self, *, fits: bool, asked_in_vain: bool) -> None:
        """What came of a compaction."""
        self._useless = 0 if fits else self._useless + 1
        self._unanswered = self._unanswered + 1 if asked_in_vain else 0

    def prompted(self) -> None:
        """The user said something: things may be different now."""
        self._useless = 0
        self._unanswered = 0
