"""The summary a compacted history starts with: asking the model, the fallback, and reading it back.

A compacted history starts with one note of the agent. This code, never a model, puts the prompts of the user,
the plan, the files and the last messages of the agent into it. A later compaction reads the note back and
continues it.
"""

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

SUMMARY_CHARS: Final = 16_000
_RESULT_CHARS: Final = (4000, 1200, 300)
"""The length of one result or argument in the transcript; the next value is used if the whole does not fit.
"""
_TURN_CHARS: Final = 600
"""The length of the text of one turn, in a summary made without a model."""
_FIRST_TRY, _SECOND_TRY = 1.0, 0.4

Watch: TypeAlias = Callable[[ModelEvent], None]


class SummaryText(Struct, frozen=True):
    """A summary written by the model. If the text is empty, `why` says why it failed."""

    text: str = ""
    usage: RequestUsage | None = None
    why: str = ""


async def ask_summary(
    model: Model, part: Sequence[Message], limit: int, *, focus: str = "", watch: Watch | None = None
) -> SummaryText:
    """Ask the model for a summary: at most two requests without tools, each with at most `limit` tokens."""
    usages: list[RequestUsage] = []
    text, why = "", ""
    for share in (_FIRST_TRY, _SECOND_TRY):
        try:
            request = await asyncio.to_thread(_request, part, int(limit * share), focus)
            text, why = await _ask(model, request, usages, watch)
            break
        except ModelError as error:
            why = str(error)
            if error.kind != "context_full":
                break
    return SummaryText(text, _total_usage(usages), why)


def summary_without_model(
    part: Sequence[Message], earlier: Sequence[str] = (), most: int = SUMMARY_CHARS
) -> str:
    """A summary without a model: earlier summaries, and the last text and the tools of each turn."""
    turns: list[str] = []
    last_text = ""
    used: dict[str, int] = {}

    def close_turn() -> None:
        calls = ", ".join(f"{name} {count}x" for name, count in used.items())
        shortened = capped(last_text.strip(), _TURN_CHARS)
        if line := " ".join(filter(None, (shortened, f"({calls})" if calls else ""))):
            turns.append(f"- {line}")

    for message in part:
        if isinstance(message, UserMessage) and not message.note:
            close_turn()
            last_text, used = "", {}
        elif isinstance(message, AssistantMessage):
            last_text = text_of(message).strip() or last_text
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
    """The messages as text. Calls, results and arguments are cut to `most` characters. Without thoughts."""
    return "\n".join(line for message in part for line in _lines(message, most))


def _request(part: Sequence[Message], limit: int, focus: str) -> ModelRequest:
    system = _summary_instructions()
    focus_text = (
        f"The user asks to keep in particular: {capped(focus.strip(), 2000)}" if focus.strip() else ""
    )
    limit -= estimate(system) + estimate(focus_text) + 200
    text, tokens = "", 0
    for most in _RESULT_CHARS:
        text = transcript(part, most)
        tokens = estimate(text)
        if tokens <= limit:
            break
    if tokens > limit:
        text = capped(text, max(len(text) * max(limit, 0) * 9 // (tokens * 10), 1000))
    shown = "This is the part of the conversation to remember:\n\n" + fenced("conversation", text)
    parts = [shown, *filter(None, (focus_text,)), "Now write the memory."]
    return ModelRequest(system, [user(*parts)], (), "low")


async def _ask(
    model: Model, request: ModelRequest, usages: list[RequestUsage], watch: Watch | None
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
                    break  # the model ignores the length limit; the rest would be cut anyway
            elif isinstance(event, RequestUsage):
                usages.append(event)
            elif isinstance(event, Stopped) and event.reason == "refusal":
                pieces, why = [], f"{model.name} refused to summarize it"
    text = "".join(pieces).strip()
    return capped(text, SUMMARY_CHARS), why or ("" if text else f"{model.name} wrote no summary")


def _lines(message: Message, most: int) -> list[str]:
    if isinstance(message, ToolResult):
        state = "failed" if message.failed else None
        return [fenced("result", capped(_parts_text(message.parts), most), of=message.name, state=state)]
    if isinstance(message, UserMessage):
        tag = "note" if message.note else "user"
        return [fenced(tag, capped(_parts_text(message.parts), 4 * most))]
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolUse):
            arguments = msgspec.json.encode(part.arguments).decode()
            lines.append(fenced("call", capped(arguments, most), of=part.name))
        elif not isinstance(part, ThoughtPart):
            lines.append(fenced("agent", capped(part.text, 4 * most)))
    return lines


def _parts_text(parts: Sequence[Part]) -> str:
    return "\n".join(
        part.text if isinstance(part, TextPart) else f"[image: {part.mime_type}]" for part in parts
    )


def _total_usage(usages: Sequence[RequestUsage]) -> RequestUsage | None:
    if not usages:
        return None
    costs = [usage.cost for usage in usages if usage.cost is not None]
    return RequestUsage(
        sum(usage.input for usage in usages),
        sum(usage.output for usage in usages),
        sum(usage.cached_read for usage in usages),
        sum(usage.cached_write for usage in usages),
        sum(usage.thought for usage in usages),
        sum(costs) if len(costs) == len(usages) else None,
    )


@cache
def _summary_instructions() -> str:
    return Path(__file__).with_name("history_summary.md").read_text("utf-8").strip()


PREAMBLE: Final = (
    "The earlier part of this conversation was compacted, because it no longer fits. This stands in its "
    "place. The prompts are in the user's own words; the rest was put together from what was said and done."
)
CLOSING: Final = (
    "Go on from here without repeating what is done. If the latest prompt follows below, part of the work on "
    "it may be done already. What the files hold is not shown any more: read again what you need."
)
_SUMMARY: Final = "# Summary\n"
_PLAN: Final = "# Plan\n"
_FILES: Final = "# Files you read or changed, the latest last\n"
_FACTS: Final = "# Also\n"
_PROMPT: Final = "<prompt"
_SAID: Final = "<you-said"

_PROMPT_CHARS: Final = 3000
_SAID_CHARS: Final = 1500
_SAID_LIMIT: Final = 4
_READ_LIMIT: Final = 20
_CHANGED_LIMIT: Final = 40
_COMPLETED_LIMIT: Final = 20
_CHANGES: Final = ("edit_file", "write_file", "move_file")


class HistorySummary(Struct, frozen=True, kw_only=True):
    """What is kept of the removed part of a history."""

    prompts: Sequence[str] = ()
    """The prompts of the user, as parts of a note, oldest first."""
    earlier: Sequence[str] = ()
    """The summaries of earlier compactions."""
    files: Sequence[str] = ()
    """Lines with a path and what was done with the file."""
    last_texts: Sequence[str] = ()
    """The final messages of the last turns and the very last text, as parts of a note: they may hold
    promises."""


def is_summary_note(message: Message) -> bool:
    """Whether the message is the note of a compaction."""
    if not isinstance(message, UserMessage) or not message.note or not message.parts:
        return False
    first = message.parts[0]
    return isinstance(first, TextPart) and first.text == PREAMBLE


def collect(part: Sequence[Message]) -> HistorySummary:
    """Collect what has to be kept of these messages."""
    prompts: list[str] = []
    earlier: list[str] = []
    files: dict[str, str] = {}
    last_texts: list[str] = []
    intermediate = ""
    failed = {message.id for message in part if isinstance(message, ToolResult) and message.failed}
    for message in part:
        if is_summary_note(message):
            for text in (item.text for item in message.parts if isinstance(item, TextPart)):
                if text.startswith(_PROMPT):
                    prompts.append(text)
                elif text.startswith(_SUMMARY):
                    earlier.append(text.removeprefix(_SUMMARY))
                elif text.startswith(_SAID):
                    last_texts.append(text)
                elif text.startswith(_FILES):
                    for line in text.removeprefix(_FILES).split("\n"):
                        done, _, path = line.removeprefix("- ").partition(": ")
                        _add_file(files, path, done)
        elif isinstance(message, UserMessage):
            if not message.note:
                prompts.append(fenced("prompt", capped(_parts_text(message.parts), _PROMPT_CHARS)))
        elif isinstance(message, AssistantMessage):
            _collect_files(files, message, failed)
            if text := text_of(message).strip():
                intermediate = fenced("you-said", capped(text, _SAID_CHARS))
                if not uses_of(message):
                    last_texts.append(intermediate)
                    intermediate = ""
    last_texts += [intermediate] if intermediate else []
    return HistorySummary(
        prompts=prompts, earlier=earlier, files=_file_lines(files), last_texts=last_texts[-_SAID_LIMIT:]
    )


def summary_note(
    collected: HistorySummary,
    summary: str,
    plan: Sequence[PlanEntry],
    facts: Sequence[str],
    prompt_chars: int,
) -> UserMessage:
    """The note. Keeps the first and the latest prompts, at most `prompt_chars` in total."""
    texts = [PREAMBLE, *_prompts(collected.prompts, prompt_chars)]
    if summary.strip():
        texts.append(_SUMMARY + summary.strip())
    texts += collected.last_texts
    if plan:
        texts.append(_PLAN + "\n".join(_plan_lines(plan)))
    if collected.files:
        texts.append(_FILES + "\n".join(collected.files))
    if kept := [fact for fact in facts if fact.strip()]:
        texts.append(_FACTS + "\n".join(f"- {fact.strip()}" for fact in kept))
    return UserMessage(tuple(map(TextPart, (*texts, CLOSING))), note=True)


def _prompts(prompts: Sequence[str], most: int) -> list[str]:
    if not prompts:
        return []
    first, *others = prompts
    limit = most - len(first)
    if limit < 0:
        return [] if most <= 0 else [first] if not others else _prompts(others[-1:], most)
    kept: list[str] = []
    for text in reversed(others):
        limit -= len(text)
        if limit < 0:
            break
        kept.append(text)
    left = len(others) - len(kept)
    gap = [f"({left} prompts from between are told only by the summary.)"] if left else []
    return [first, *gap, *reversed(kept)]


def _plan_lines(plan: Sequence[PlanEntry]) -> list[str]:
    completed = [entry for entry in plan if entry.status == "completed"]
    hidden = {id(entry) for entry in completed[:-_COMPLETED_LIMIT]}
    lines = [f"({len(hidden)} steps before are completed)"] if hidden else []
    return lines + [f"- {entry.status}: {entry.content}" for entry in plan if id(entry) not in hidden]


def _collect_files(files: dict[str, str], message: AssistantMessage, failed: set[str]) -> None:
    for use in uses_of(message):
        if use.id in failed or not isinstance(use.arguments, dict):
            continue
        path = use.arguments.get("destination") if use.name == "move_file" else use.arguments.get("path")
        if not isinstance(path, str) or not path.strip():
            continue
        if use.name == "delete_file":
            files.pop(one_line(path, 300), None)
        elif use.name in _CHANGES:
            _add_file(files, path, "changed")
        elif use.name == "read_file":
            _add_file(files, path, "changed" if files.get(one_line(path, 300)) == "changed" else "read")


def _file_lines(files: dict[str, str]) -> list[str]:
    """The latest changed and the latest read files, in order. Read files do not displace changed ones."""
    changed = [path for path, done in files.items() if done == "changed"][-_CHANGED_LIMIT:]
    read = [path for path, done in files.items() if done != "changed"][-_READ_LIMIT:]
    kept = {*changed, *read}
    return [f"- {done}: {path}" for path, done in files.items() if path in kept]


def _add_file(files: dict[str, str], path: str, done: str) -> None:
    name = one_line(path, 300)
    files.pop(name, None)  # move it to the end: the latest is last
    files[name] = done
