"""Token estimates without a tokenizer, corrected by the counts of the provider."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from accord.coder.model_history import AssistantMessage, ImagePart, Message, ToolResult, ToolUse, UserMessage
from accord.coder.models.model import ModelRequest
from accord.schema.codec import encode

# The estimate is close to about 10 % for prose, source code, JSON, diffs, logs, listings and encoded data:
# its weights were fitted to the tokenizers of two providers. For scripts other than Latin it tends to be too
# high.

# Runs of one kind of character; a word includes one space before it. The alternatives exclude each other, so
# the search reads any text exactly once.
_CHARACTER_RUN: Final = re.compile(
    r"( ?(?:[A-Z]?[a-z]+|[A-Z]+))|([0-9]+)|(\s+)|([^\x00-\x7f]+)|([^\sA-Za-z0-9\x80-\U0010ffff]+)"
)
_WORD_RUN, _DIGIT_RUN, _SPACE_RUN, _FOREIGN_RUN = 1, 2, 3, 4

# In thousandths of a token.
_WORD: Final = 1040
_JOINED_WORD: Final = 240  # extra, for a word without a space before it
_LETTER: Final = 330  # of a word, beyond the common length
_RANDOM_LETTER: Final = 520  # of a run that is too long for a word
_NUMBER: Final = 1280
_PUNCTUATION: Final = 820
_SPACE: Final = 470  # other than a single space
_RUN_CHARACTER: Final = 15  # for each character of a run of punctuation, digits or white space
_BYTE: Final = 290  # of another script

_COMMON_WORD_LENGTH: Final = 7
_MAX_WORD_LENGTH: Final = 24

_SAMPLED_LENGTH: Final = 400_000
"""A longer text is estimated from samples."""
_SLICES: Final = 100
_SLICE_CHARS: Final = 4000

IMAGE_TOKENS: Final = 1500
"""For an image. Providers scale large ones down to about this size."""
_MIN_RATIO: Final = 0.4
_MAX_RATIO: Final = 3.0
"""A provider's count per estimated token is between these two, or it counted something else."""
_MESSAGE_TOKENS: Final = 4
_CALL_TOKENS: Final = 10


def estimate(value: "str | Message | Sequence[Message] | ModelRequest") -> int:
    """The estimated number of tokens. Takes linear time, bounded for a single text."""
    if isinstance(value, str):
        return _text_tokens(value)
    if isinstance(value, UserMessage | AssistantMessage | ToolResult):
        return _message_tokens(value)
    if isinstance(value, ModelRequest):
        return overhead(value) + estimate(value.messages)
    return sum(map(_message_tokens, value))


def overhead(request: ModelRequest) -> int:
    """The estimated number of tokens of the system prompt and the tools."""
    return _cached_text_tokens(request.system) + sum(
        _CALL_TOKENS
        + _cached_text_tokens(tool.description)
        + _cached_text_tokens(msgspec.json.encode(tool.schema).decode())
        for tool in request.tools
    )


class TokenMeter:
    """Counts the tokens of requests.

    Uses the provider's count and estimates only the messages added since then.
    """

    def __init__(self) -> None:
        self.ratio: float = 1.0
        """The provider's last count per estimated token."""
        self._counted_messages: tuple[Message, ...] = ()
        self._estimated_tokens = 0
        self._tokens: int | None = None

    def record(self, request: ModelRequest, tokens: int) -> None:
        """Record the provider's count of input tokens for this request, cached ones included."""
        history = self._estimate(request.messages)
        ratio = tokens / max(history + overhead(request), 1)
        self._counted_messages, self._estimated_tokens, self._tokens = tuple(request.messages), history, None
        if ratio >= _MIN_RATIO:  # some servers do not count, or leave out what was cached
            self._tokens = tokens
            self.ratio = min(ratio, _MAX_RATIO)

    def tokens(self, request: ModelRequest) -> int:
        """The estimated number of input tokens of this request."""
        if self._tokens is not None and _begins_with(request.messages, self._counted_messages):
            return self._tokens + round(
                self.ratio * estimate(request.messages[len(self._counted_messages) :])
            )
        return round(self.ratio * (overhead(request) + self._estimate(request.messages)))

    def _estimate(self, messages: Sequence[Message]) -> int:
        """Estimate a history that usually extends the last one."""
        if _begins_with(messages, self._counted_messages):
            return self._estimated_tokens + estimate(messages[len(self._counted_messages) :])
        return estimate(messages)


def _begins_with(messages: Sequence[Message], beginning: Sequence[Message]) -> bool:
    return len(messages) >= len(beginning) and all(
        message is other or message == other for message, other in zip(messages, beginning, strict=False)
    )


def _message_tokens(message: Message) -> int:
    total = _MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, ImagePart):
            total += IMAGE_TOKENS
        elif isinstance(part, ToolUse):
            total += _CALL_TOKENS + _text_tokens(part.name) + _json_tokens(part.arguments)
        else:
            total += _text_tokens(part.text)
    return total


def _json_tokens(value: object) -> int:
    return _text_tokens(encode(value).decode())  # `encode` accepts lone surrogates


@lru_cache(1024)
def _cached_text_tokens(text: str) -> int:
    """For a text that is in every request."""
    return _text_tokens(text)


def _text_tokens(text: str) -> int:
    if len(text) <= _SAMPLED_LENGTH:
        return -(-_thousandths(text) // 1000)
    step = (len(text) - _SLICE_CHARS) // (_SLICES - 1)
    sampled = sum(
        _thousandths(text[number * step : number * step + _SLICE_CHARS]) for number in range(_SLICES)
    )
    return sampled * len(text) // (_SLICES * _SLICE_CHARS) // 1000


def _thousandths(text: str) -> int:
    total = 0
    for run in _CHARACTER_RUN.finditer(text):
        kind = run.lastindex
        start, end = run.span()
        length = end - start
        if kind == _WORD_RUN:
            if length > _MAX_WORD_LENGTH:
                total += _RANDOM_LETTER * length
            elif text[start] == " ":
                total += _WORD + _LETTER * max(length - 1 - _COMMON_WORD_LENGTH, 0)
            else:
                total += _WORD + _JOINED_WORD + _LETTER * max(length - _COMMON_WORD_LENGTH, 0)
        elif kind == _DIGIT_RUN:
            total += _NUMBER + _RUN_CHARACTER * length
        elif kind == _SPACE_RUN:
            total += _SPACE + _RUN_CHARACTER * length if length > 1 or text[start] != " " else 0
        elif kind == _FOREIGN_RUN:
            total += _BYTE * len(run[0].encode("utf-8", "replace"))
        else:
            total += _PUNCTUATION + _RUN_CHARACTER * length
    return total
