"""The summary a compacted history starts with: asking the model, the fallback, and reading it back."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from accord.coder.bounded_text import capped, fenced
from accord.coder.context.context_window import estimate
from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    text_of,
    user,
    uses_of,
)
from accord.coder.models.model import (
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Stopped,
    TextDelta,
)
from accord.safe_text import one_line
from accord.schema.updates import PlanEntry

# MERGED coder.context.summary: The summary of a part of a history: what the model is shown of it, what it is asked, and what stands in if it fails.

SUMMARY_CHARS: Final = 16_000
_RESULT_CHARS: Final = (4000, 1200, 300)
"""Of one result or argument in the transcript; the next one if the whole does not fit."""
_WORDS_CHARS: Final = 600
"""Of what was said in one turn, where no model writes the summary."""
_FIRST_TRY, _SECOND_TRY = 1.0, 0.4

Watch: TypeAlias = Callable[[ModelEvent], None]


class SummaryText(Struct, frozen=True):
    """What a model made of it. Without a text it failed, and `why` says how."""

    text: str = ""
    usage: RequestUsage | None = None
    why: str = ""


async def ask_summary(
    model: Model, part: Sequence[Message], room: int, *, focus: str = "", watch: Watch | None = None
) -> SummaryText:
    """Have the model write the summary: at most two requests, neither with more than `room` tokens, without tools."""
    spent: list[RequestUsage] = []
    text, why = "", ""
    for share in (_FIRST_TRY, _SECOND_TRY):
        try:
            request = await asyncio.to_thread(_request, part, int(room * share), focus)
            text, why = await _ask(model, request, spent, watch)
            break
        except ModelError as error:
            why = str(error)
            if error.kind != "context_full":
                break
    return SummaryText(text, _sum(spent), why)


def own_summary(part: Sequence[Message], earlier: Sequence[str] = (), most: int = SUMMARY_CHARS) -> str:
    """What can be said without a model: what was summarised before, what the agent said last, and what it used."""
    turns: list[str] = []
    said = ""
    used: dict[str, int] = {}

    def close_turn() -> None:
        calls = ", ".join(f"{name} {count}x" for name, count in used.items())
        told = capped(said.strip(), _WORDS_CHARS)
        if line := " ".join(filter(None, (told, f"({calls})" if calls else ""))):
            turns.append(f"- {line}")

    for message in part:
        if isinstance(message, UserMessage) and not message.note:
            close_turn()
            said, used = "", {}
        elif isinstance(message, AssistantMessage):
            said = text_of(message).strip() or said
            for use in uses_of(message):
                used[use.name] = used.get(use.name, 0) + 1
    close_turn()
    before = "\n\n".join(earlier)
    kept = [capped(before, most // 3)] if before else []
    if turns:
        kept.append(
            capped("What you said at the end of each turn, and used:\n" + "\n".join(turns), most // 2)
        )
    return "\n\n".join(kept)


def transcript(part: Sequence[Message], most: int = _RESULT_CHARS[0]) -> str:
    """The messages as text: every call, result and argument cut to `most` characters, thoughts left out."""
    return "\n".join(line for message in part for line in _lines(message, most))


def _request(part: Sequence[Message], room: int, focus: str) -> ModelRequest:
    system = _instructions()
    wish = f"The user asks to keep in particular: {capped(focus.strip(), 2000)}" if focus.strip() else ""
    room -= estimate(system) + estimate(wish) + 200
    text, tokens = "", 0
    for most in _RESULT_CHARS:
        text = transcript(part, most)
        tokens = estimate(text)
        if tokens <= room:
            break
    if tokens > room:
        text = capped(text, max(len(text) * max(room, 0) * 9 // (tokens * 10), 1000))
    shown = "This is the part of the conversation to remember:\n\n" + fenced("conversation", text)
    parts = [shown, *filter(None, (wish,)), "Now write the memory."]
    return ModelRequest(system, [user(*parts)], (), "low")


async def _ask(
    model: Model, request: ModelRequest, spent: list[RequestUsage], watch: Watch | None
) -> tuple[str, str]:
    pieces: list[str] = []
    size = 0
    why = ""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if watch is not None:
                watch(event)
            if isinstance(event, TextDelta):
                pieces.append(event.text)
                size += len(event.text)
                if size > 2 * SUMMARY_CHARS:
                    break  # it was told to be short; what it goes on to say would be cut anyway
            elif isinstance(event, RequestUsage):
                spent.append(event)
            elif isinstance(event, Stopped) and event.reason == "refusal":
                pieces, why = [], f"{model.name} refused to summarise it"
    text = "".join(pieces).strip()
    return capped(text, SUMMARY_CHARS), why or ("" if text else f"{model.name} wrote no summary")


def _lines(message: Message, most: int) -> list[str]:
    if isinstance(message, ToolResult):
        state = "failed" if message.failed else None
        return [fenced("result", capped(_words(message.parts), most), of=message.name, state=state)]
    if isinstance(message, UserMessage):
        tag = "note" if message.note else "user"
        return [fenced(tag, capped(_words(message.parts), 4 * most))]
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolUse):
            arguments = msgspec.json.encode(part.arguments).decode()
            lines.append(fenced("call", capped(arguments, most), of=part.name))
        elif not isinstance(part, ThoughtPart):
            lines.append(fenced("agent", capped(part.text, 4 * most)))
    return lines


def _words(parts: Sequence[Part]) -> str:
    return "\n".join(
        part.text if isinstance(part, TextPart) else f"[image: {part.mime_type}]" for part in parts
    )


def _sum(spent: Sequence[RequestUsage]) -> RequestUsage | None:
    if not spent:
        return None
    costs = [usage.cost for usage in spent if usage.cost is not None]
    return RequestUsage(
        sum(usage.input for usage in spent),
        sum(usage.output for usage in spent),
        sum(usage.cached_read for usage in spent),
        sum(usage.cached_write for usage in spent),
        sum(usage.thought for usage in spent),
        sum(costs) if len(costs) == len(spent) else None,
    )


@cache
def _instructions() -> str:
    return Path(__file__).with_name("history_summary.md").read_text("utf-8").strip()


# MERGED coder.context.memory: What a compacted history begins with: one note of the agent in parts, each of which can be found in it again.
#
# The user's prompts, the plan, the files and the last words of the agent are put in by this code and never left to a
# model. The note of an earlier compaction is taken apart and carried on.

PREAMBLE: Final = (
    "The earlier part of this conversation was compacted, because it no longer fits. This stands in its place. The "
    "prompts are in the user's own words; the rest was put together from what was said and done."
)
CLOSING: Final = (
    "Go on from here without repeating what is done. If the latest prompt follows below, part of the work on it may be "
    "done already. What the files hold is not shown any more: read again what you need."
)
_SUMMARY: Final = "# Summary\n"
_PLAN: Final = "# Plan\n"
_FILES: Final = "# Files you read or changed, the latest last\n"
_FACTS: Final = "# Also\n"
_PROMPT: Final = "<prompt"
_SAID: Final = "<you-said"

_PROMPT_CHARS: Final = 3000
_SAID_CHARS: Final = 1500
_MOST_SAID: Final = 4
_MOST_READ: Final = 20
_MOST_CHANGED: Final = 40
_MOST_COMPLETED: Final = 20
_CHANGES: Final = ("edit_file", "write_file", "move_file")


class HistorySummary(Struct, frozen=True, kw_only=True):
    """What is known of the part of a history that leaves."""

    prompts: Sequence[str] = ()
    """What the user asked, as parts of a note, the oldest first."""
    earlier: Sequence[str] = ()
    """Summaries of compactions before."""
    files: Sequence[str] = ()
    """Lines: what was done with a file, and its path."""
    said: Sequence[str] = ()
    """What the agent answered at the end of the last turns, and said last, as parts of a note: promises are made there."""


def is_memory(message: Message) -> bool:
    """Whether it is the note that a compaction left."""
    if not isinstance(message, UserMessage) or not message.note or not message.parts:
        return False
    first = message.parts[0]
    return isinstance(first, TextPart) and first.text == PREAMBLE


def remember(part: Sequence[Message]) -> HistorySummary:
    """What must be kept of these messages."""
    prompts: list[str] = []
    earlier: list[str] = []
    files: dict[str, str] = {}
    said: list[str] = []
    passing = ""
    failed = {message.id for message in part if isinstance(message, ToolResult) and message.failed}
    for message in part:
        if is_memory(message):
            for text in (item.text for item in message.parts if isinstance(item, TextPart)):
                if text.startswith(_PROMPT):
                    prompts.append(text)
                elif text.startswith(_SUMMARY):
                    earlier.append(text.removeprefix(_SUMMARY))
                elif text.startswith(_SAID):
                    said.append(text)
                elif text.startswith(_FILES):
                    for line in text.removeprefix(_FILES).split("\n"):
                        done, _, path = line.removeprefix("- ").partition(": ")
                        _put(files, path, done)
        elif isinstance(message, UserMessage):
            if not message.note:
                prompts.append(fenced("prompt", capped(_told(message), _PROMPT_CHARS)))
        elif isinstance(message, AssistantMessage):
            _note_files(files, message, failed)
            if words := text_of(message).strip():
                passing = fenced("you-said", capped(words, _SAID_CHARS))
                if not uses_of(message):
                    said.append(passing)
                    passing = ""
    said += [passing] if passing else []
    return HistorySummary(prompts=prompts, earlier=earlier, files=_file_lines(files), said=said[-_MOST_SAID:])


def note_of(
    memory: HistorySummary, summary: str, plan: Sequence[PlanEntry], facts: Sequence[str], prompt_chars: int
) -> UserMessage:
    """The note. Of the prompts the first and the latest are kept, `prompt_chars` in all."""
    texts = [PREAMBLE, *_prompts(memory.prompts, prompt_chars)]
    if summary.strip():
        texts.append(_SUMMARY + summary.strip())
    texts += memory.said
    if plan:
        texts.append(_PLAN + "\n".join(_plan(plan)))
    if memory.files:
        texts.append(_FILES + "\n".join(memory.files))
    if kept := [fact for fact in facts if fact.strip()]:
        texts.append(_FACTS + "\n".join(f"- {fact.strip()}" for fact in kept))
    return UserMessage(tuple(map(TextPart, (*texts, CLOSING))), note=True)


def _prompts(prompts: Sequence[str], most: int) -> list[str]:
    if not prompts:
        return []
    first, *others = prompts
    room = most - len(first)
    if room < 0:
        return [] if most <= 0 else [first] if not others else _prompts(others[-1:], most)
    kept: list[str] = []
    for text in reversed(others):
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    left = len(others) - len(kept)
    gap = [f"({left} prompts from between are told only by the summary.)"] if left else []
    return [first, *gap, *reversed(kept)]


def _plan(plan: Sequence[PlanEntry]) -> list[str]:
    completed = [entry for entry in plan if entry.status == "completed"]
    hidden = {id(entry) for entry in completed[:-_MOST_COMPLETED]}
    lines = [f"({len(hidden)} steps before are completed)"] if hidden else []
    return lines + [f"- {entry.status}: {entry.content}" for entry in plan if id(entry) not in hidden]


def _note_files(files: dict[str, str], message: AssistantMessage, failed: set[str]) -> None:
    for use in uses_of(message):
        if use.id in failed or not isinstance(use.arguments, dict):
            continue
        path = use.arguments.get("destination") if use.name == "move_file" else use.arguments.get("path")
        if not isinstance(path, str) or not path.strip():
            continue
        if use.name == "delete_file":
            files.pop(one_line(path, 300), None)
        elif use.name in _CHANGES:
            _put(files, path, "changed")
        elif use.name == "read_file":
            _put(files, path, "changed" if files.get(one_line(path, 300)) == "changed" else "read")


def _file_lines(files: dict[str, str]) -> list[str]:
    """The latest of both sorts, in their order; what was changed is not pushed out by what was only read."""
    changed = [path for path, done in files.items() if done == "changed"][-_MOST_CHANGED:]
    read = [path for path, done in files.items() if done != "changed"][-_MOST_READ:]
    kept = {*changed, *read}
    return [f"- {done}: {path}" for path, done in files.items() if path in kept]


def _put(files: dict[str, str], path: str, done: str) -> None:
    name = one_line(path, 300)
    files.pop(name, None)  # to the end: the latest stands last
    files[name] = done


def _told(message: UserMessage) -> str:
    return "\n".join(
        f"[image: {part.mime_type}]" if isinstance(part, ImagePart) else part.text for part in message.parts
    )
