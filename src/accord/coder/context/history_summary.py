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

from accord.coder.bounded_text import truncate, wrap_in_tag
from accord.coder.context.token_estimate import estimate
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
    tool_uses_of,
    user_message,
)
from accord.coder.models.model import (
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Retrying,
    Stopped,
    TextDelta,
)
from accord.safe_text import one_line
from accord.schema.updates import PlanEntry

SUMMARY_CHARS: Final = 16_000
_RESULT_CHARS: Final = (4000, 1200, 300)
"""The length of one result or argument in the transcript; the next value is tried if it does not fit."""
_TURN_CHARS: Final = 600
"""The length of the text of one turn, in a summary made without a model."""
_FIRST_SHARE, _SECOND_SHARE = 1.0, 0.4
"""How much of the token limit the first and the second request use."""

OnModelEvent: TypeAlias = Callable[[ModelEvent], None]


class SummaryText(Struct, frozen=True):
    """A summary written by the model. If the text is empty, `failure` says why."""

    text: str = ""
    usage: RequestUsage | None = None
    failure: str = ""


async def ask_summary(
    model: Model,
    messages: Sequence[Message],
    limit: int,
    *,
    focus: str = "",
    on_event: OnModelEvent | None = None,
) -> SummaryText:
    """Ask the model for a summary: at most two requests without tools, each with at most `limit` tokens."""
    usages: list[RequestUsage] = []
    text, failure = "", ""
    for share in (_FIRST_SHARE, _SECOND_SHARE):
        try:
            request = await asyncio.to_thread(_summary_request, messages, int(limit * share), focus)
            text, failure = await _request_summary(model, request, usages, on_event)
            break
        except ModelError as error:
            failure = str(error)
            if error.kind != "context_full":
                break
    return SummaryText(text, _total_usage(usages), failure)


def summary_without_model(
    messages: Sequence[Message], earlier_summaries: Sequence[str] = (), max_chars: int = SUMMARY_CHARS
) -> str:
    """A summary without a model: earlier summaries, and the last text and the tools of each turn."""
    turns: list[str] = []
    last_text = ""
    tool_counts: dict[str, int] = {}

    def close_turn() -> None:
        calls = ", ".join(f"{name} {count}x" for name, count in tool_counts.items())
        shortened = truncate(last_text.strip(), _TURN_CHARS)
        if line := " ".join(filter(None, (shortened, f"({calls})" if calls else ""))):
            turns.append(f"- {line}")

    for message in messages:
        if isinstance(message, UserMessage) and not message.note:
            close_turn()
            last_text, tool_counts = "", {}
        elif isinstance(message, AssistantMessage):
            last_text = text_of(message).strip() or last_text
            for use in tool_uses_of(message):
                tool_counts[use.name] = tool_counts.get(use.name, 0) + 1
    close_turn()
    earlier_text = "\n\n".join(earlier_summaries)
    sections = [truncate(earlier_text, max_chars // 3)] if earlier_text else []
    if turns:
        sections.append(
            truncate("What you said at the end of each turn, and used:\n" + "\n".join(turns), max_chars // 2)
        )
    return "\n\n".join(sections)


def transcript(messages: Sequence[Message], max_chars: int = _RESULT_CHARS[0]) -> str:
    """The messages as text, without thoughts. Results and arguments have at most `max_chars` characters."""
    return "\n".join(line for message in messages for line in _transcript_lines(message, max_chars))


def _summary_request(messages: Sequence[Message], limit: int, focus: str) -> ModelRequest:
    system = _summary_instructions()
    focus_text = (
        f"The user asks to keep in particular: {truncate(focus.strip(), 2000)}" if focus.strip() else ""
    )
    limit -= estimate(system) + estimate(focus_text) + 200
    text, tokens = "", 0
    for max_chars in _RESULT_CHARS:
        text = transcript(messages, max_chars)
        tokens = estimate(text)
        if tokens <= limit:
            break
    if tokens > limit:
        text = truncate(text, max(len(text) * max(limit, 0) * 9 // (tokens * 10), 1000))
    conversation = "This is the part of the conversation to remember:\n\n" + wrap_in_tag("conversation", text)
    parts = [conversation, *filter(None, (focus_text,)), "Now write the memory."]
    return ModelRequest(system, [user_message(*parts)], (), "low")


async def _request_summary(
    model: Model, request: ModelRequest, usages: list[RequestUsage], on_event: OnModelEvent | None
) -> tuple[str, str]:
    pieces: list[str] = []
    length = 0
    failure = ""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if on_event is not None:
                on_event(event)
            if isinstance(event, TextDelta):
                pieces.append(event.text)
                length += len(event.text)
                if length > 2 * SUMMARY_CHARS:
                    break  # the model ignores the length limit; the rest would be cut anyway
            elif isinstance(event, Retrying):
                pieces, length = [], 0  # the answer begins anew
            elif isinstance(event, RequestUsage):
                usages.append(event)
            elif isinstance(event, Stopped) and event.reason == "refusal":
                pieces, failure = [], f"{model.name} refused to summarize it"
    text = "".join(pieces).strip()
    return truncate(text, SUMMARY_CHARS), failure or ("" if text else f"{model.name} wrote no summary")


def _transcript_lines(message: Message, max_chars: int) -> list[str]:
    if isinstance(message, ToolResult):
        state = "failed" if message.failed else None
        return [
            wrap_in_tag(
                "result", truncate(_parts_text(message.parts), max_chars), of=message.name, state=state
            )
        ]
    if isinstance(message, UserMessage):
        tag = "note" if message.note else "user"
        return [wrap_in_tag(tag, truncate(_parts_text(message.parts), 4 * max_chars))]
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolUse):
            arguments = msgspec.json.encode(part.arguments).decode()
            lines.append(wrap_in_tag("call", truncate(arguments, max_chars), of=part.name))
        elif not isinstance(part, ThoughtPart):
            lines.append(wrap_in_tag("agent", truncate(part.text, 4 * max_chars)))
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
"""The first part of a summary note. Session logs hold it, and notes are recognized by it: never change it."""
CLOSING: Final = (
    "Continue from here without repeating finished work. If the latest prompt follows below, part of the "
    "work on it may be finished already. The contents of files are no longer shown: read again what you need."
)
_SUMMARY_HEADING: Final = "# Summary\n"
_PLAN_HEADING: Final = "# Plan\n"
_FILES_HEADING: Final = "# Files you read or changed, the latest last\n"
_FACTS_HEADING: Final = "# Also\n"
_PROMPT_TAG: Final = "<prompt"
SKILL_TAG: Final = "<skill "
"""The beginning of a loaded skill in the history. Session logs hold it: never change it."""
SKILL_TOOLS: Final = ("skill", "load_skill", "activate_skill", "use_skill")
"""The names by which models call the tool that loads skills."""
_LAST_TEXT_TAG: Final = "<you-said"

_PROMPT_CHARS: Final = 3000
_LAST_TEXT_CHARS: Final = 1500
_LAST_TEXT_LIMIT: Final = 4
_READ_LIMIT: Final = 20
_CHANGED_LIMIT: Final = 40
_COMPLETED_LIMIT: Final = 20
_SKILL_SHARE: Final = 4
"""How many times as many characters as prompts a note may have of skills."""
_CHANGING_TOOLS: Final = ("edit_file", "write_file", "move_file")


class HistorySummary(Struct, frozen=True, kw_only=True):
    """The information that is kept of the removed part of a history."""

    prompts: Sequence[str] = ()
    """The prompts of the user, as parts of a note, oldest first."""
    earlier: Sequence[str] = ()
    """The summaries of earlier compactions."""
    files: Sequence[str] = ()
    """Lines with a path and what was done with the file."""
    last_texts: Sequence[str] = ()
    """The final messages of the last turns and the very last text, as parts of a note: they may hold
    promises."""
    skills: Sequence[str] = ()
    """The loaded skills, as the model got them."""


def is_summary_note(message: Message) -> bool:
    """Whether the message is the note of a compaction."""
    if not isinstance(message, UserMessage) or not message.note or not message.parts:
        return False
    first = message.parts[0]
    return isinstance(first, TextPart) and first.text == PREAMBLE


def skill_texts(message: Message) -> list[str]:
    """The skills that a message loads: the result of the tool, the prompt of a command, or a summary note."""
    if isinstance(message, AssistantMessage):
        return []
    if isinstance(message, ToolResult) and message.name.casefold() not in SKILL_TOOLS:
        return []  # the output of a command may look like a skill
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return [text for text in texts if text.startswith(SKILL_TAG)]


def loaded_skills(messages: Sequence[Message]) -> list[str]:
    """The texts of the loaded skills, the latest last. Of several with one name and folder, the latest."""
    found: dict[str, str] = {}
    for text in (text for message in messages for text in skill_texts(message)):
        heading = text.partition("\n")[0]
        found.pop(heading, None)
        found[heading] = text
    return list(found.values())


def collect_history(messages: Sequence[Message]) -> HistorySummary:
    """Collect the information that has to be kept of these messages."""
    prompts: list[str] = []
    earlier_summaries: list[str] = []
    files: dict[str, str] = {}
    last_texts: list[str] = []
    last_text = ""
    failed_ids = {message.id for message in messages if isinstance(message, ToolResult) and message.failed}
    for message in messages:
        if is_summary_note(message):
            for text in (item.text for item in message.parts if isinstance(item, TextPart)):
                if text.startswith(_PROMPT_TAG):
                    prompts.append(text)
                elif text.startswith(_SUMMARY_HEADING):
                    earlier_summaries.append(text.removeprefix(_SUMMARY_HEADING))
                elif text.startswith(_LAST_TEXT_TAG):
                    last_texts.append(text)
                elif text.startswith(_FILES_HEADING):
                    for line in text.removeprefix(_FILES_HEADING).split("\n"):
                        action, _, path = line.removeprefix("- ").partition(": ")
                        _add_file(files, path, action)
        elif isinstance(message, UserMessage):
            if not message.note:
                skills = skill_texts(message)
                typed = [
                    part for part in message.parts if isinstance(part, ImagePart) or part.text not in skills
                ]
                prompts.append(wrap_in_tag("prompt", truncate(_parts_text(typed), _PROMPT_CHARS)))
        elif isinstance(message, AssistantMessage):
            _collect_files(files, message, failed_ids)
            if text := text_of(message).strip():
                last_text = wrap_in_tag("you-said", truncate(text, _LAST_TEXT_CHARS))
                if not tool_uses_of(message):
                    last_texts.append(last_text)
                    last_text = ""
    last_texts += [last_text] if last_text else []
    return HistorySummary(
        prompts=prompts,
        earlier=earlier_summaries,
        files=_file_lines(files),
        last_texts=last_texts[-_LAST_TEXT_LIMIT:],
        skills=loaded_skills(messages),
    )


def summary_note(
    collected: HistorySummary,
    summary: str,
    plan: Sequence[PlanEntry],
    facts: Sequence[str],
    prompt_chars: int,
) -> UserMessage:
    """The note. Keeps the first and the latest prompts, at most `prompt_chars` in total.

    Skills may have several times as many characters.
    """
    skills, left_out = _skills_within(collected.skills, _SKILL_SHARE * prompt_chars)
    texts = [PREAMBLE, *_prompts_within(collected.prompts, prompt_chars), *skills]
    facts = [*facts, *left_out]
    if summary.strip():
        texts.append(_SUMMARY_HEADING + summary.strip())
    texts += collected.last_texts
    if plan:
        texts.append(_PLAN_HEADING + "\n".join(_plan_lines(plan)))
    if collected.files:
        texts.append(_FILES_HEADING + "\n".join(collected.files))
    if stated_facts := [fact for fact in facts if fact.strip()]:
        texts.append(_FACTS_HEADING + "\n".join(f"- {fact.strip()}" for fact in stated_facts))
    return UserMessage(tuple(map(TextPart, (*texts, CLOSING))), note=True)


def _skills_within(skills: Sequence[str], max_chars: int) -> tuple[list[str], list[str]]:
    """The latest skills that fit, and a fact about the others."""
    kept: list[str] = []
    left_out: list[str] = []
    for text in reversed(skills):
        max_chars -= len(text)
        if max_chars >= 0:
            kept.insert(0, text)
        else:
            left_out.insert(0, one_line(text.partition("\n")[0], 200))
    return kept, [f"left out to save space, load again if needed: {', '.join(left_out)}"] if left_out else []


def _prompts_within(prompts: Sequence[str], max_chars: int) -> list[str]:
    if not prompts:
        return []
    first, *others = prompts
    remaining_chars = max_chars - len(first)
    if remaining_chars < 0:
        return [] if max_chars <= 0 else [first] if not others else _prompts_within(others[-1:], max_chars)
    latest: list[str] = []
    for text in reversed(others):
        remaining_chars -= len(text)
        if remaining_chars < 0:
            break
        latest.append(text)
    skipped = len(others) - len(latest)
    gap = [f"({skipped} prompts from between are only in the summary.)"] if skipped else []
    return [first, *gap, *reversed(latest)]


def _plan_lines(plan: Sequence[PlanEntry]) -> list[str]:
    completed = [entry for entry in plan if entry.status == "completed"]
    left_out = {id(entry) for entry in completed[:-_COMPLETED_LIMIT]}
    lines = [f"({len(left_out)} steps before are completed)"] if left_out else []
    return lines + [f"- {entry.status}: {entry.content}" for entry in plan if id(entry) not in left_out]


def _collect_files(files: dict[str, str], message: AssistantMessage, failed: set[str]) -> None:
    for use in tool_uses_of(message):
        if use.id in failed or not isinstance(use.arguments, dict):
            continue
        path = use.arguments.get("destination") if use.name == "move_file" else use.arguments.get("path")
        if not isinstance(path, str) or not path.strip():
            continue
        if use.name == "delete_file":
            files.pop(one_line(path, 300), None)
        elif use.name in _CHANGING_TOOLS:
            _add_file(files, path, "changed")
        elif use.name == "read_file":
            _add_file(files, path, "changed" if files.get(one_line(path, 300)) == "changed" else "read")


def _file_lines(files: dict[str, str]) -> list[str]:
    """The latest changed and the latest read files, in order. Read files do not displace changed ones."""
    changed = [path for path, action in files.items() if action == "changed"][-_CHANGED_LIMIT:]
    read = [path for path, action in files.items() if action != "changed"][-_READ_LIMIT:]
    listed = {*changed, *read}
    return [f"- {action}: {path}" for path, action in files.items() if path in listed]


def _add_file(files: dict[str, str], path: str, action: str) -> None:
    name = one_line(path, 300)
    files.pop(name, None)  # move it to the end: the latest is last
    files[name] = action
