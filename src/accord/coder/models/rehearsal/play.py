"""What the rehearsal model does next, read off the history: which steps are done, what came of them, what is left."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from accord.coder.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    text_of,
    uses_of,
)
from accord.coder.models.model import ModelRequest
from accord.coder.models.rehearsal.imperatives import Command, Step, steps_of

WHO: Final = "I am `rehearsal`, a fixed script inside Accord: no AI, and no model is connected."
HOW: Final = (
    "To connect a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_API_KEY, or run "
    "`accord agent --login PROVIDER`, and choose one with `--model provider:name`. Until then I do what plain commands "
    "say: `read README.md`, `list src`, `find *.py`, `search TODO`, `write notes.txt: hello`, "
    "`replace a with b in f.py`, `run pytest -q`, `fetch URL`, `plan: a; b; c`, `ask: which colour?`, `think: ...`, "
    "`delegate: ...`; join several with `then`."
)

_LOOK_AROUND: Final = Command("look around", "list_files", {"path": "."})
_READ_FIRST: Final = re.compile(r"\bread it (?:first|again)\b")

Parts: TypeAlias = Iterator[TextPart | ThoughtPart | ToolUse]


def next_parts(request: ModelRequest) -> Parts:
    """The answer to the request."""
    offered = {tool.name for tool in request.tools}
    prompt, since = _prompt(request.messages)
    steps = next((steps for text in prompt if (steps := steps_of(text))), None)
    if steps is None:
        yield from _look_around(request, offered, since)
        return
    play = _Play(steps, offered, since)
    yield from (ThoughtPart(thought) for thought in play.thoughts)
    if play.todo:
        yield TextPart(" and ".join(_first_line(command.words) for command in play.todo) + ".\n")
        yield from _calls(request, play.todo)
    else:
        yield TextPart(play.summary())


class _Play:
    """The steps of a prompt against what has happened since."""

    def __init__(self, steps: Sequence[Step], offered: set[str], since: Sequence[Message]) -> None:
        self.thoughts: list[str] = []
        """To be thought now."""
        self.todo: list[Command] = []
        """To be done now; nothing when all is done."""
        self._outcomes: list[tuple[Command, ToolResult]] = []
        self._missing: list[Command] = []
        results = {item.id: item for item in since if isinstance(item, ToolResult)}
        answers = [uses_of(message) for message in since if isinstance(message, AssistantMessage)]
        self._done = deque(
            [[results[use.id] for use in uses if use.id in results] for uses in answers if uses]
        )
        for step in steps:
            self._missing += [command for command in step if command.tool and command.tool not in offered]
            todo = [command for command in step if command.tool in offered]
            if todo:
                self._take(todo, "read_file" in offered)
            elif not self._done:
                self.thoughts += [command.arguments["text"] for command in step if not command.tool]
            if self.todo:
                return

    def _take(self, step: Step, can_read: bool) -> None:
        """Go past a step that is done, or stop at it. A file that must be read before it is changed is read."""
        if not self._done:
            self.todo = step
            return
        results = self._done.popleft()
        if can_read and len(step) == len(results) == 1 and _wants_reading(results[0]):
            path = step[0].arguments["path"]
            if not self._done:
                self.todo = [Command(f"read {path}", "read_file", {"path": path})]
                return
            self._done.popleft()
            if not self._done:
                self.todo = step
                return
            results = self._done.popleft()
        self._outcomes += zip(step, results, strict=False)

    def summary(self) -> str:
        """What came of it all."""
        lines = [
            f"{number}. {_first_line(command.words)}: {_outcome(found)}"
            for number, (command, found) in enumerate(self._outcomes, 1)
        ]
        lines += [
            f"- {_first_line(command.words)}: skipped, there is no tool `{command.tool}`"
            for command in self._missing
        ]
        failed = sum(found.failed for _, found in self._outcomes) + len(self._missing)
        head = f"Done, {failed} of {len(lines)} failed." if failed else "Done."
        return "\n".join([head, *lines, "", f"({WHO})"])


def _wants_reading(found: ToolResult) -> bool:
    return (
        found.failed
        and found.name in ("write_file", "edit_file")
        and bool(_READ_FIRST.search(text_of(found)))
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


def _look_around(request: ModelRequest, offered: set[str], since: Sequence[Message]) -> Parts:
    seen = next((item for item in since if isinstance(item, ToolResult)), None)
    if seen is not None:
        yield TextPart(f"{WHO}\n\nThis is what I see in the folder:\n\n{_quote(text_of(seen))}\n\n{HOW}")
    elif _LOOK_AROUND.tool in offered:
        yield TextPart("Let me look around.\n")
        yield from _calls(request, [_LOOK_AROUND])
    else:
        prompts = [
            text_of(item) for item in request.messages if isinstance(item, UserMessage) and not item.note
        ]
        said = "\n".join(f"- {_first_line(prompt)}" for prompt in prompts if prompt.strip())
        yield TextPart(f"{WHO} I was given no tools. What was asked so far:\n{said}")


def _calls(request: ModelRequest, commands: Sequence[Command]) -> Iterator[ToolUse]:
    used = sum(len(uses_of(message)) for message in request.messages)
    for number, command in enumerate(commands, used + 1):
        yield ToolUse(f"rehearsal-{number}", command.tool or "", command.arguments)


def _outcome(found: ToolResult) -> str:
    lines = text_of(found).strip().splitlines()
    first = _first_line(lines[0]) if lines else "no output"
    more = f" (and {len(lines) - 1} more lines)" if len(lines) > 1 else ""
    return f"{'failed: ' if found.failed else ''}{first}{more}"


def _first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0].strip()
    return line if len(line) <= 120 else f"{line[:119]}…"


def _quote(text: str, most: int = 40) -> str:
    lines = text.strip().splitlines()
    rest = [f"… and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join(f"    {line}" for line in [*lines[:most], *rest])
