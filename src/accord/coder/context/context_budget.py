"""Compacts the history in time, keeping the task, the plan and promises; reports usage to the client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.coder.bounded_text import capped
from accord.coder.coder_session import UsageTotal
from accord.coder.context.context_window import (
    ASSUMED_SIZE,
    CompactionBreaker,
    ContextWindow,
    TokenMeter,
    estimate,
    overhead,
)
from accord.coder.context.history_summary import (
    HistorySummary,
    SummaryText,
    Watch,
    ask_summary,
    is_memory,
    note_of,
    own_summary,
    remember,
)
from accord.coder.loop import retrying
from accord.coder.model_history import (
    ImagePart,
    Message,
    ModelHistory,
    Part,
    TextPart,
    ToolResult,
    UserMessage,
    last_prompt,
    repair,
)
from accord.coder.models.model import Model, ModelError, ModelEvent, ModelRequest, RequestUsage, Retrying
from accord.coder.models.model_name import REHEARSAL
from accord.coder.turn_output import TurnOutput
from accord.schema.updates import PlanEntry

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.session_runtime import SessionRuntime


# MERGED coder.context.compaction: Making a history smaller without losing the task, the plan or what was promised.
#
# The ladder: old results are shortened; if that is not enough, everything but the latest steps gives way to a note with a
# summary by the model; if the model fails, to the same note with what can be said without it. No rung asks the model
# more than twice, and none is climbed again: whether the next compaction makes sense is for a `Breaker` to say.

How: TypeAlias = Literal["nothing", "shortened", "summary", "mechanical"]

_SHORT_CHARS: Final = 600
"""What is left of an old result."""
_LONG_CHARS: Final = 1200
"""An old result that is no longer than this is left alone."""
_LAST_CHARS: Final = 6000
"""What is left of each result of the very last step, if that is too large to be kept whole."""
_PROMPTS_CHARS: Final = 24_000
_NOTE_TOKENS: Final = 6000
_LEAST: Final = 800
"""Tokens; a part smaller than this is not worth a summary."""


class CompactionInput(Struct, frozen=True, kw_only=True):
    """What a compaction works with."""

    messages: Sequence[Message]
    size: int | None
    """The context of the model, in tokens."""
    overhead: int = 0
    """Tokens of the system prompt and the tools."""
    scale: float = 1.0
    """What the provider counts for one estimated token: `Meter.ratio`."""
    plan: Sequence[PlanEntry] = ()
    facts: Sequence[str] = ()
    """What else must not be forgotten, a line each: background jobs, say."""
    focus: str = ""
    """What the user asked to keep in particular."""
    thorough: bool = False
    """Whether a summary is wanted even if shorter results would do: on `/compact`, and after `context_full`."""


class CompactionResult(Struct, frozen=True, kw_only=True):
    """What came of it."""

    messages: list[Message]
    how: How
    before_tokens: int
    after_tokens: int
    """Both with system prompt and tools, and estimated in the same way."""
    fits: bool
    """Whether the next request fits. If not, the last prompt is too large by itself and another try changes nothing."""
    summary: str = ""
    """Of what left, for people too; empty if nothing but results was shortened."""
    usage: RequestUsage | None = None
    why: str = ""
    """Why the model did not write the summary."""


async def compact(
    material: CompactionInput, model: Model | None, *, watch: Watch | None = None
) -> CompactionResult:
    """The history made smaller, or as it was if that cannot be. Without a model no summary is asked for.

    Cancelling it gives up the model's request. `watch` sees the events of that request, retries among them.
    """
    # Counting takes a while, and other sessions do not wait for it.
    scales = await asyncio.to_thread(_Scales, material, repair(material.messages))
    parting = await asyncio.to_thread(_first_rungs, scales, material.thorough)
    if isinstance(parting, CompactionResult):
        return parting
    written = SummaryText()
    if model is not None and model.provider != REHEARSAL:  # a script cannot summarise
        room = scales.room - scales.of_note
        written = await ask_summary(model, parting.leaving, room, focus=material.focus, watch=watch)
    return await asyncio.to_thread(_last_rungs, scales, parting, material, written)


def _first_rungs(scales: "_Scales", thorough: bool) -> "CompactionResult | _Parting":
    """Shorter results, if they are enough or all that can be done; else where the history is to be cut."""
    messages = scales.messages
    if not thorough:
        shorter = _shortened(messages, scales)
        if scales.tokens(shorter) < min(scales.before, scales.room * 7 // 10):
            return scales.result(shorter, "shortened")
    parting = _part(messages, scales)
    if scales.of(message for message in parting.told if not is_memory(message)) >= _LEAST:
        return parting
    shorter = [*messages[: parting.start], *parting.kept]
    if scales.tokens(shorter) < scales.before:
        return scales.result(shorter, "shortened")
    return scales.result(messages, "nothing")


def _last_rungs(
    scales: "_Scales", parting: "_Parting", material: CompactionInput, written: SummaryText
) -> CompactionResult:
    """The note in place of what leaves, with the model's summary or without it."""
    memory = remember(parting.told)
    summary = written.text or own_summary(parting.leaving, memory.earlier)
    smaller = _assembled(material, parting, memory, summary, scales)
    if scales.tokens(smaller) >= scales.before:
        return scales.result(scales.messages, "nothing", written=written)
    return scales.result(smaller, "summary" if written.text else "mechanical", summary, written)


class _Scales:
    """The weights of one compaction. Everything but the totals is in estimated tokens."""

    def __init__(self, material: CompactionInput, messages: list[Message]) -> None:
        self.messages = messages
        self._known = {id(message): estimate(message) for message in self.messages}
        self._scale = material.scale
        self._overhead = round(material.overhead / material.scale)
        self.history = self.of(self.messages)
        self.before = self._overhead + self.history
        self.room = round(ContextWindow(material.size, 0).room / material.scale)
        self.of_note = min(_NOTE_TOKENS, self.room // 8)

    def keep(self, prompt: int) -> int:
        """What the latest steps may have, beside a prompt of so many tokens: some, but never most of it all."""
        left = self.room * 4 // 10 - self._overhead - self.of_note - prompt
        return max(min(left, self.history // 4), 0)

    @property
    def prompt_chars(self) -> tuple[int, ...]:
        """What earlier prompts may have, in characters; the next one if the whole does not get small enough."""
        most = min(_PROMPTS_CHARS, self.room // 4)
        return most, most // 4, 0

    def of(self, messages: Iterable[Message]) -> int:
        """Of these messages. Those of the history were counted once and for all."""
        return sum(self._known.get(id(message)) or estimate(message) for message in messages)

    def tokens(self, messages: Iterable[Message]) -> int:
        """Of a request with this history."""
        return self._overhead + self.of(messages)

    def result(
        self, messages: list[Message], how: How, summary: str = "", written: SummaryText | None = None
    ) -> CompactionResult:
        after = self.tokens(messages)
        return CompactionResult(
            messages=messages,
            how=how,
            before_tokens=round(self.before * self._scale),
            after_tokens=round(after * self._scale),
            fits=after < self.room,
            summary=summary,
            usage=written.usage if written else None,
            why=written.why if written else "",
        )


class _Parting(Struct, frozen=True):
    """Where a history is cut."""

    start: int
    """The first message that stays, as one of the latest steps."""
    leaving: Sequence[Message]
    kept: Sequence[Message]
    prompt: UserMessage | None
    """The last prompt, if it stands in the part that leaves: it stays."""
    told: Sequence[Message]
    """What leaves, but for the last prompt."""


def _part(messages: list[Message], scales: _Scales) -> _Parting:
    index = last_prompt(messages)
    last = None if index is None else messages[index]
    start, kept = _latest(messages, scales.keep(scales.of([last]) if last else 0), scales, index)
    leaving = messages[:start]
    if index is None or index >= start or not isinstance(last, UserMessage):
        return _Parting(start, leaving, kept, None, leaving)
    return _Parting(start, leaving, kept, last, [*messages[:index], *messages[index + 1 : start]])


def _assembled(
    material: CompactionInput, parting: _Parting, memory: HistorySummary, summary: str, scales: _Scales
) -> list[Message]:
    """The new history, with as many of the earlier prompts as leave it small."""
    smaller: list[Message] = []
    for chars in scales.prompt_chars:
        note = note_of(memory, summary, material.plan, material.facts, chars)
        smaller = [note, *([parting.prompt] if parting.prompt else []), *parting.kept]
        if scales.tokens(smaller) < min(scales.before, scales.room * 7 // 10):
            break
    return smaller


def _latest(
    messages: Sequence[Message], room: int, scales: _Scales, free: int | None = None
) -> tuple[int, list[Message]]:
    """The latest steps that fit, and where they start. A step is an answer with all its results, or something said.

    If not even the last one fits, it is kept with short results. The message at `free` is paid for already.
    """
    end = len(messages)
    for start in range(end - 1, -1, -1):
        if isinstance(messages[start], ToolResult):
            continue
        step = messages[start:end]
        cost = 0 if start == free else scales.of(step)
        if cost > room:
            if end == len(messages):
                for chars in (_LAST_CHARS, _SHORT_CHARS):
                    short = [_with_short_parts(message, chars) for message in step]
                    if scales.of(short) <= room:
                        return start, short
            break
        room -= cost
        end = start
    return end, list(messages[end:])


def _shortened(messages: Sequence[Message], scales: _Scales) -> list[Message]:
    """The history with short results, but for those of the latest steps."""
    start, _ = _latest(messages, scales.room // 4, scales)
    start = min(start, _last_step(messages))
    return [
        _with_short_parts(message, _SHORT_CHARS) if _is_long(message) else message
        for message in messages[:start]
    ] + list(messages[start:])


def _last_step(messages: Sequence[Message]) -> int:
    start = len(messages)
    while start > 0 and isinstance(messages[start - 1], ToolResult):
        start -= 1
    return max(start - 1, 0)


def _is_long(message: Message) -> bool:
    return isinstance(message, ToolResult) and any(
        isinstance(part, ImagePart) or len(part.text) > _LONG_CHARS for part in message.parts
    )


def _with_short_parts(message: Message, chars: int) -> Message:
    """A result with no more than so many characters in each part, and without pictures; anything else as it is."""
    if not isinstance(message, ToolResult):
        return message
    return replace(message, parts=tuple(_short(part, chars) for part in message.parts))


def _short(part: Part, chars: int) -> Part:
    if isinstance(part, ImagePart):
        return TextPart(f"[image: {part.mime_type}, left out to save room]")
    if len(part.text) <= 2 * chars:
        return part
    return TextPart(capped(part.text, chars, "to save room; get it again if you need it"))


# MERGED coder.room: Room in the model's context: how full it is, as the client is told, and how it is made empty again in time.

MakeRoom = Callable[[ModelRequest, bool], Awaitable[bool]]


class ContextBudget:
    """The context of one run of the loop: the session's own, or that of a sub-agent."""

    def __init__(self, bench: "SessionRuntime", history: ModelHistory) -> None:
        self._bench = bench
        self._history = history
        self._meter = TokenMeter()
        self._breaker = CompactionBreaker()

    def prompted(self) -> None:
        """A new prompt: what did not help before may help now."""
        self._breaker.prompted()

    def used(self, request: ModelRequest, usage: RequestUsage) -> int:
        """The provider has counted a request; how many tokens the context has with its answer."""
        self._meter.told(request, usage.input)
        return usage.input + usage.output

    def making(self, model: Model, spent: UsageTotal, voice: TurnOutput) -> MakeRoom:
        """What a run calls before its requests: compacts if it is time, or if the request did not fit."""

        async def make_room(request: ModelRequest, overflowed: bool) -> bool:
            window = ContextWindow(model.context_size, self._meter.tokens(request))
            if not (window.full or overflowed) or not self._breaker.may_compact:
                return False
            # What did not fit shows how much does at most, whatever the model is said to take.
            size = min(model.context_size or ASSUMED_SIZE, window.used) if overflowed else model.context_size
            done = await self._compact(request, model, spent, voice, size=size, thorough=overflowed)
            if overflowed and not done.fits:
                raise ModelError(
                    "context_full",
                    f"{model.provider}:{model.name}: the prompt is too large by itself: send less of it, or choose a model "
                    "with a larger context",
                )
            return done.how != "nothing"

        return make_room

    async def compact_now(
        self, turn: "Turn", model: Model, spent: UsageTotal, request: ModelRequest, focus: str = ""
    ) -> CompactionResult:
        """On the user's wish."""
        size = model.context_size
        return await self._compact(request, model, spent, turn, size=size, thorough=True, focus=focus)

    async def _compact(
        self,
        request: ModelRequest,
        model: Model,
        spent: UsageTotal,
        voice: TurnOutput,
        *,
        size: int | None,
        thorough: bool,
        focus: str = "",
    ) -> CompactionResult:
        conversation = self._bench.conversation
        own = self._history is conversation.history
        material = CompactionInput(
            messages=self._history.messages,
            size=size,
            overhead=round(overhead(request) * self._meter.ratio),
            scale=self._meter.ratio,
            plan=conversation.plan if own else (),
            facts=self._bench.facts() if own else (),
            focus=focus,
            thorough=thorough,
        )
        summing_up = model if self._breaker.may_ask else None

        def watch(event: ModelEvent) -> None:
            if isinstance(event, Retrying):
                title, why = retrying(event)
                conversation.soon(voice.notice(title, why, severity="warning"))

        if not own:
            done = await compact(material, summing_up, watch=watch)
        else:
            async with conversation.session.compaction() as shown:
                done = await compact(material, summing_up, watch=watch)
                if done.summary:
                    await shown.summary(done.summary)
        if done.usage is not None:
            spent.add(done.usage)
            conversation.spend(done.usage)
        self._breaker.compacted(fits=done.fits, asked_in_vain=bool(done.why))
        if done.how != "nothing":
            self._history.replace(done.messages, "compacted")
        if own and done.how in ("summary", "mechanical"):
            self._bench.briefing.context_lost()
        if own and done.how != "nothing" and not conversation.session.client.shows_compaction:
            await voice.notice("Context compacted", told(done))
        return done


def told(done: CompactionResult) -> str:
    """What came of a compaction, in one line."""
    sizes = f"{done.before_tokens:,} -> {done.after_tokens:,} tokens"
    match done.how:
        case "nothing":
            return "there is nothing to leave out"
        case "shortened":
            return f"{sizes}; old results were shortened"
        case "summary":
            return f"{sizes}; the earlier part is summed up, the whole conversation stays in the log"
        case "mechanical":
            return f"{sizes}; the model wrote no summary ({done.why or 'not asked'}), the gist was kept without it"
