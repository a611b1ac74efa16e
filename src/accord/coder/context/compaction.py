"""Compacts a history, keeping the task, the plan and promises.

A compaction has three steps. First old tool results are shortened. If that is not enough, everything but the
latest steps is replaced by a note with a summary that the model writes. If the model fails, the note has a
summary made without it. One compaction asks the model at most twice.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.coder.bounded_text import truncate
from accord.coder.context.history_summary import (
    HistorySummary,
    OnModelEvent,
    SummaryText,
    ask_summary,
    collect_history,
    is_summary_note,
    skill_texts,
    summary_note,
    summary_without_model,
)
from accord.coder.context.token_estimate import estimate
from accord.coder.model_history import (
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolResult,
    UserMessage,
    last_prompt_index,
    repair,
)
from accord.coder.models.model import Model, RequestUsage
from accord.coder.models.model_name import REHEARSAL
from accord.schema.updates import PlanEntry

ASSUMED_SIZE: Final = 128_000
"""For a model of unknown context size. If the real size is smaller, the provider refuses a request."""
_RESERVE: Final = 20_000
"""Tokens reserved for the answer, in a large window."""


def request_limit(size: int | None) -> int:
    """The largest request for a context window of this size, in tokens: the answer has to fit as well."""
    size = size or ASSUMED_SIZE
    return size - min(_RESERVE, size // 5)


Method: TypeAlias = Literal["nothing", "shortened", "summary", "mechanical"]

_SHORT_CHARS: Final = 600
"""The length of a shortened old result."""
_LONG_CHARS: Final = 1200
"""Old results up to this length are not shortened."""
_LAST_CHARS: Final = 6000
"""The length of each result of the last step, if that step is too large."""
_PROMPTS_CHARS: Final = 24_000
_NOTE_TOKENS: Final = 6000
_MIN_SUMMARY_TOKENS: Final = 800
"""A smaller part is not worth a summary."""


class CompactionInput(Struct, frozen=True, kw_only=True):
    """The input of a compaction."""

    messages: Sequence[Message]
    size: int | None
    """The context window of the model, in tokens."""
    overhead: int = 0
    """Tokens of the system prompt and the tools."""
    scale: float = 1.0
    """Counted tokens per estimated token: `TokenMeter.ratio`."""
    plan: Sequence[PlanEntry] = ()
    facts: Sequence[str] = ()
    """Other facts to keep, one per line, such as running background jobs."""
    focus: str = ""
    """What the user asked to keep."""
    force_summary: bool = False
    """Whether to summarize even if shortening results would do: on `/compact`, and after `context_full`."""


class CompactionResult(Struct, frozen=True, kw_only=True):
    """The result of a compaction."""

    messages: list[Message]
    method: Method
    before_tokens: int
    after_tokens: int
    """Both include the system prompt and tools, and are estimated in the same way."""
    fits: bool
    """Whether the next request fits.

    If not, the last prompt alone is too large and compacting again is useless.
    """
    summary: str = ""
    """The summary of the removed part, also for the user; empty if results were only shortened."""
    usage: RequestUsage | None = None
    summary_failure: str = ""
    """Why the model did not write the summary."""


async def compact(
    inputs: CompactionInput, model: Model | None, *, on_event: OnModelEvent | None = None
) -> CompactionResult:
    """Compact a history. Returns it unchanged if that is impossible. Without a model no summary is requested.

    Cancelling it gives up the model's request. `on_event` is called with each event of
    that request.
    """
    # In a thread: counting takes a while, and other sessions must not wait.
    counts = await asyncio.to_thread(_TokenCounts, inputs, repair(inputs.messages))
    cut = await asyncio.to_thread(_shorten_or_cut, counts, inputs.force_summary)
    if isinstance(cut, CompactionResult):
        return cut
    summary_text = SummaryText()
    if model is not None and model.provider != REHEARSAL:  # the rehearsal model cannot summarize
        limit = counts.limit - counts.note_tokens
        if model.context_size:
            limit = min(limit, request_limit(model.context_size) - counts.note_tokens)
        summary_text = await ask_summary(
            model, cut.removed_with_prompt, limit, focus=inputs.focus, on_event=on_event
        )
    return await asyncio.to_thread(_replace_by_note, counts, cut, inputs, summary_text)


def _shorten_or_cut(counts: "_TokenCounts", force_summary: bool) -> "CompactionResult | _Cut":
    """The result with shortened results, if that is enough or all that can be done; else where to cut the
    history."""
    messages = counts.messages
    if not force_summary:
        shorter = _with_short_results(messages, counts)
        if counts.tokens(shorter) < min(counts.before, counts.limit * 7 // 10):
            return counts.result(shorter, "shortened")
    cut = _find_cut(messages, counts)
    if (
        counts.count(message for message in cut.removed if not is_summary_note(message))
        >= _MIN_SUMMARY_TOKENS
    ):
        return cut
    shorter = [*messages[: cut.start], *cut.latest]
    if counts.tokens(shorter) < counts.before:
        return counts.result(shorter, "shortened")
    return counts.result(messages, "nothing")


def _replace_by_note(
    counts: "_TokenCounts", cut: "_Cut", inputs: CompactionInput, summary_text: SummaryText
) -> CompactionResult:
    """Replace the removed part by a note, with the summary of the model or without it."""
    collected = collect_history(cut.removed)
    summary = summary_text.text or summary_without_model(cut.removed_with_prompt, collected.earlier)
    smaller = _new_history(inputs, cut, collected, summary, counts)
    if counts.tokens(smaller) >= counts.before:
        return counts.result(counts.messages, "nothing", summary_text=summary_text)
    return counts.result(smaller, "summary" if summary_text.text else "mechanical", summary, summary_text)


class _TokenCounts:
    """Token counts of one compaction. All values but the totals of the result are estimated tokens."""

    def __init__(self, inputs: CompactionInput, messages: list[Message]) -> None:
        self.messages = messages
        self._tokens_by_id = {id(message): estimate(message) for message in self.messages}
        self._scale = inputs.scale
        self._overhead = round(inputs.overhead / inputs.scale)
        self.history = self.count(self.messages)
        self.before = self._overhead + self.history
        self.limit = round(request_limit(inputs.size) / inputs.scale)
        self.note_tokens = min(_NOTE_TOKENS, self.limit // 8)

    def latest_steps_limit(self, prompt_tokens: int) -> int:
        """The maximum of tokens for the latest steps, if the last prompt is kept as well."""
        remaining = self.limit * 4 // 10 - self._overhead - self.note_tokens - prompt_tokens
        return max(min(remaining, self.history // 4), 0)

    @property
    def prompt_char_limits(self) -> tuple[int, ...]:
        """Limits for the earlier prompts, in characters. Each is tried if the one before is too large."""
        highest = min(_PROMPTS_CHARS, self.limit // 4)
        return highest, highest // 4, 0

    def count(self, messages: Iterable[Message]) -> int:
        """The tokens of these messages. Messages of the history are counted only once."""
        return sum(self._tokens_by_id.get(id(message)) or estimate(message) for message in messages)

    def tokens(self, messages: Iterable[Message]) -> int:
        """The tokens of a request with these messages."""
        return self._overhead + self.count(messages)

    def result(
        self,
        messages: list[Message],
        method: Method,
        summary: str = "",
        summary_text: SummaryText | None = None,
    ) -> CompactionResult:
        after = self.tokens(messages)
        return CompactionResult(
            messages=messages,
            method=method,
            before_tokens=round(self.before * self._scale),
            after_tokens=round(after * self._scale),
            fits=after < self.limit,
            summary=summary,
            usage=summary_text.usage if summary_text else None,
            summary_failure=summary_text.failure if summary_text else "",
        )


class _Cut(Struct, frozen=True):
    """Where a history is cut."""

    start: int
    """The index of the first message that is kept as one of the latest steps."""
    removed_with_prompt: Sequence[Message]
    latest: Sequence[Message]
    prompt: UserMessage | None
    """The last prompt, if it is in the removed part: it is kept."""
    removed: Sequence[Message]
    """The removed messages, without the last prompt."""


def _find_cut(messages: list[Message], counts: _TokenCounts) -> _Cut:
    index = last_prompt_index(messages)
    last = None if index is None else messages[index]
    start, latest = _latest_steps(
        messages, counts.latest_steps_limit(counts.count([last]) if last else 0), counts, index
    )
    removed_with_prompt = messages[:start]
    if index is None or index >= start or not isinstance(last, UserMessage):
        return _Cut(start, removed_with_prompt, latest, None, removed_with_prompt)
    return _Cut(start, removed_with_prompt, latest, last, [*messages[:index], *messages[index + 1 : start]])


def _new_history(
    inputs: CompactionInput, cut: _Cut, collected: HistorySummary, summary: str, counts: _TokenCounts
) -> list[Message]:
    """The new history, with as many earlier prompts as fit."""
    smaller: list[Message] = []
    for prompt_chars in counts.prompt_char_limits:
        note = summary_note(collected, summary, inputs.plan, inputs.facts, prompt_chars)
        smaller = [note, *([cut.prompt] if cut.prompt else []), *cut.latest]
        if counts.tokens(smaller) < min(counts.before, counts.limit * 7 // 10):
            break
    return smaller


def _latest_steps(
    messages: Sequence[Message], limit: int, counts: _TokenCounts, free_index: int | None = None
) -> tuple[int, list[Message]]:
    """The latest steps that fit, and the index of their start.

    A step is an answer with all its results, or a message. The message at `free_index` does not count.
    If not even the last step fits, it is kept with short results.
    """
    end = len(messages)
    for start in range(end - 1, -1, -1):
        if isinstance(messages[start], ToolResult):
            continue
        step = messages[start:end]
        tokens = 0 if start == free_index else counts.count(step)
        if tokens > limit:
            if end == len(messages):
                for chars in (_LAST_CHARS, _SHORT_CHARS):
                    shortened = [_with_short_parts(message, chars) for message in step]
                    if counts.count(shortened) <= limit:
                        return start, shortened
            break
        limit -= tokens
        end = start
    return end, list(messages[end:])


def _with_short_results(messages: Sequence[Message], counts: _TokenCounts) -> list[Message]:
    """The history with shortened results, except those of the latest steps."""
    start, _ = _latest_steps(messages, counts.limit // 4, counts)
    start = min(start, _last_step_start(messages))
    return [
        _with_short_parts(message, _SHORT_CHARS) if _is_long(message) else message
        for message in messages[:start]
    ] + list(messages[start:])


def _last_step_start(messages: Sequence[Message]) -> int:
    start = len(messages)
    while start > 0 and isinstance(messages[start - 1], ToolResult):
        start -= 1
    return max(start - 1, 0)


def _is_long(message: Message) -> bool:
    if not isinstance(message, ToolResult) or skill_texts(message):
        return False
    return any(isinstance(part, ImagePart) or len(part.text) > _LONG_CHARS for part in message.parts)


def _with_short_parts(message: Message, chars: int) -> Message:
    """A result with at most so many characters in each part and without images; other messages unchanged."""
    if not isinstance(message, ToolResult):
        return message
    return replace(message, parts=tuple(_shorten_part(part, chars) for part in message.parts))


def _shorten_part(part: Part, chars: int) -> Part:
    if isinstance(part, ImagePart):
        return TextPart(f"[image: {part.mime_type}, left out to save space]")
    if len(part.text) <= 2 * chars:
        return part
    return TextPart(truncate(part.text, chars, "to save space; get it again if you need it"))


def describe_compaction(result: CompactionResult) -> str:
    """A compaction in one line, for the user."""
    sizes = f"{result.before_tokens:,} -> {result.after_tokens:,} tokens"
    match result.method:
        case "nothing":
            return "there is nothing to leave out"
        case "shortened":
            return f"{sizes}; old results were shortened"
        case "summary":
            return f"{sizes}; the earlier part is summarized, the full conversation stays in the log"
        case "mechanical":
            reason = result.summary_failure or "not asked"
            return f"{sizes}; the model wrote no summary ({reason}), key facts were kept without it"
