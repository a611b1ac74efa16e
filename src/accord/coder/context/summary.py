"""The summary of a part of a history: what the model is shown of it, what it is asked, and what stands in if it fails."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from accord.coder.context.fence import fenced
from accord.coder.context.tokens import estimate
from accord.coder.messages import (
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
from accord.coder.models.model import Model, ModelError, ModelEvent, ModelRequest, Stopped, TextDelta, Usage
from accord.coder.output import capped

SUMMARY_CHARS: Final = 16_000
_RESULT_CHARS: Final = (4000, 1200, 300)
"""Of one result or argument in the transcript; the next one if the whole does not fit."""
_WORDS_CHARS: Final = 600
"""Of what was said in one turn, where no model writes the summary."""
_FIRST_TRY, _SECOND_TRY = 1.0, 0.4

Watch: TypeAlias = Callable[[ModelEvent], None]


class Written(Struct, frozen=True):
    """What a model made of it. Without a text it failed, and `why` says how."""

    text: str = ""
    usage: Usage | None = None
    why: str = ""


async def ask_summary(
    model: Model, part: Sequence[Message], room: int, *, focus: str = "", watch: Watch | None = None
) -> Written:
    """Have the model write the summary: at most two requests, neither with more than `room` tokens, without tools."""
    spent: list[Usage] = []
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
    return Written(text, _sum(spent), why)


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
    model: Model, request: ModelRequest, spent: list[Usage], watch: Watch | None
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
            elif isinstance(event, Usage):
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


def _sum(spent: Sequence[Usage]) -> Usage | None:
    if not spent:
        return None
    costs = [usage.cost for usage in spent if usage.cost is not None]
    return Usage(
        sum(usage.input for usage in spent),
        sum(usage.output for usage in spent),
        sum(usage.cached_read for usage in spent),
        sum(usage.cached_write for usage in spent),
        sum(usage.thought for usage in spent),
        sum(costs) if len(costs) == len(spent) else None,
    )


@cache
def _instructions() -> str:
    return Path(__file__).with_name("summary.md").read_text("utf-8").strip()
