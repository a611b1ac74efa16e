"""`rehearsal`: answers a request by doing what its prompt says, step by step, with the tools it was given.

Pure: what comes next is read off the history of the request alone, so the same request gives the same events.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import msgspec

from accord.coder.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    text_of,
    uses_of,
)
from accord.coder.models.model import (
    Effort,
    ModelError,
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ThoughtDelta,
    Usage,
)
from accord.coder.models.rehearsal.imperatives import Command, Step, steps_of

PROVIDER: Final = "rehearsal"
CONTEXT_SIZE: Final = 100_000

_LOOK_AROUND: Final = Command("look around", "list_files", {"path": "."})
_PIECE: Final = re.compile(r"\S+\s*|\s+")
_WORDS_A_PIECE: Final = 4
_IMAGE_TOKENS: Final = 1000

WHO: Final = "I am `rehearsal`, a fixed script inside Accord: no AI, and no model is connected."
HOW: Final = (
    "To connect a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_API_KEY, or run "
    "`accord agent --login PROVIDER`, and choose one with `--model provider:name`. Until then I do what plain commands "
    "say: `read README.md`, `list src`, `find *.py`, `search TODO`, `write notes.txt: hello`, "
    "`replace a with b in f.py`, `run pytest -q`, `fetch URL`, `plan: a; b; c`, `ask: which colour?`, `think: ...`, "
    "`delegate: ...`; join several with `then`."
)


class Rehearsal:
    """The model of nobody's making."""

    name = PROVIDER
    provider = PROVIDER
    sees_images = False
    efforts: Sequence[Effort] = ()

    def __init__(self, context_size: int = CONTEXT_SIZE) -> None:
        self.context_size: int | None = context_size
        self._room = context_size

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the request, with a turn of the event loop between them."""
        for event in answer(request, self._room):
            yield event
            await asyncio.sleep(0)  # there is nothing to wait for, but a cancel must get its chance


def answer(request: ModelRequest, context_size: int = CONTEXT_SIZE) -> Iterator[ModelEvent]:
    """The answer to a request, as a stream of events."""
    read = _tokens_of(request)
    if read > context_size:
        raise ModelError(
            "context_full", f"rehearsal: {read} tokens do not fit into {context_size}; compact the session"
        )
    parts = list(_parts(request))
    for part in parts:
        if isinstance(part, TextPart):
            yield from (TextDelta(piece) for piece in _pieces(part.text))
        elif isinstance(part, ThoughtPart):
            yield from (ThoughtDelta(piece) for piece in _pieces(part.text))
        else:
            yield part
    message = AssistantMessage(tuple(parts), PROVIDER)
    thought = sum(_tokens(part.text) for part in parts if isinstance(part, ThoughtPart))
    yield Usage(read, _tokens(msgspec.json.encode(message.parts).decode()), thought=thought, cost=0.0)
    yield Stopped("tool_use" if uses_of(message) else "end_turn", message)


def _parts(request: ModelRequest) -> Iterator[TextPart | ThoughtPart | ToolUse]:
    offered = {tool.name for tool in request.tools}
    prompt, since = _prompt(request.messages)
    steps = next((steps for part in prompt if (steps := steps_of(part))), None)
    if steps is None:
        yield from _look_around(request, offered, since)
        return
    made = sum(len(uses_of(message)) for message in since)
    used = sum(len(uses_of(message)) for message in request.messages)
    skipped: list[Command] = []
    for step in steps:
        todo = [command for command in step if command.tool in offered]
        skipped += [command for command in step if command.tool and command.tool not in offered]
        if made >= len(todo) > 0:
            made -= len(todo)
        elif todo:
            yield TextPart(_announcement(step))
            for number, command in enumerate(todo, used + 1):
                yield ToolUse(f"rehearsal-{number}", command.tool or "", command.arguments)
            return
        elif not made:
            yield from (ThoughtPart(command.arguments["text"]) for command in step if not command.tool)
    yield TextPart(
        _summary(steps, skipped, offered, [item for item in since if isinstance(item, ToolResult)])
    )


def _prompt(messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
    """The texts of the last prompt, and everything since."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage) and not message.note:
            return [part.text for part in message.parts if isinstance(part, TextPart)], messages[
                position + 1 :
            ]
    return [], messages


def _look_around(
    request: ModelRequest, offered: set[str], since: Sequence[Message]
) -> Iterator[TextPart | ToolUse]:
    seen = next((item for item in since if isinstance(item, ToolResult)), None)
    if seen is not None:
        yield TextPart(f"{WHO}\n\nThis is what I see in the folder:\n\n{_quote(text_of(seen))}\n\n{HOW}")
    elif _LOOK_AROUND.tool in offered:
        used = sum(len(uses_of(message)) for message in request.messages)
        yield TextPart("Let me look around. ")
        yield ToolUse(f"rehearsal-{used + 1}", _LOOK_AROUND.tool or "", _LOOK_AROUND.arguments)
    else:
        prompts = [
            text_of(item) for item in request.messages if isinstance(item, UserMessage) and not item.note
        ]
        said = "\n".join(f"- {_first_line(prompt)}" for prompt in prompts if prompt.strip())
        yield TextPart(f"{WHO} I was given no tools. What was asked so far:\n{said}")


def _announcement(step: Step) -> str:
    return (
        " and ".join(
            command.words if len(command.words) < 80 else f"{command.words[:79]}…" for command in step
        )
        + ".\n"
    )


def _summary(
    steps: Sequence[Step], skipped: Sequence[Command], offered: set[str], results: Sequence[ToolResult]
) -> str:
    done = [command for step in steps for command in step if command.tool in offered]
    lines = [
        f"{number}. {_first_line(command.words)}: {_outcome(found)}"
        for number, (command, found) in enumerate(zip(done, results, strict=False), 1)
    ]
    lines += [
        f"- {_first_line(command.words)}: skipped, there is no tool `{command.tool}`" for command in skipped
    ]
    failed = sum(found.failed for found in results) + len(skipped)
    head = f"Done, {failed} of {len(done) + len(skipped)} failed." if failed else "Done."
    return "\n".join([head, *lines, "", f"({WHO})"])


def _outcome(found: ToolResult) -> str:
    text = text_of(found).strip()
    count = len(text.splitlines())
    first = _first_line(text) if text else "no output"
    return (
        f"{'failed: ' if found.failed else ''}{first}{f' (and {count - 1} more lines)' if count > 1 else ''}"
    )


def _first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0].strip()
    return line if len(line) <= 120 else f"{line[:119]}…"


def _quote(text: str, most: int = 40) -> str:
    lines = text.strip().splitlines()
    rest = [f"… and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join(f"    {line}" for line in [*lines[:most], *rest])


def _pieces(text: str) -> Iterator[str]:
    words = _PIECE.findall(text)
    for start in range(0, len(words), _WORDS_A_PIECE):
        yield "".join(words[start : start + _WORDS_A_PIECE])


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _tokens_of(request: ModelRequest) -> int:
    total = _tokens(request.system) + sum(
        _tokens(tool.name) + _tokens(tool.description) + _tokens(msgspec.json.encode(tool.schema).decode())
        for tool in request.tools
    )
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ImagePart):
                total += _IMAGE_TOKENS
            elif isinstance(part, ToolUse):
                total += _tokens(part.name) + _tokens(msgspec.json.encode(part.arguments).decode())
            else:
                total += _tokens(part.text)
    return total
