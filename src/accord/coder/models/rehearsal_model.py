"""The built-in deterministic model `rehearsal`: reads plain commands from the prompt and carries them out.

Imported on first use.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from accord.coder.model_history import (
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
    RequestUsage,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.model_name import REHEARSAL, REHEARSAL_CONTEXT

# MERGED coder.models.rehearsal.model: `rehearsal`: answers a request by doing what its prompt says, step by step, with the tools it was given.
#
# Pure: what comes next is read off the history of the request alone, so the same request gives the same events.

_PIECE: Final = re.compile(r"\S+\s*|\s+")
_WORDS_A_PIECE: Final = 4
_IMAGE_TOKENS: Final = 1000


class RehearsalModel:
    """The model of nobody's making."""

    name = REHEARSAL
    provider = REHEARSAL
    sees_images = False
    efforts: Sequence[Effort] = ()

    def __init__(self, context_size: int = REHEARSAL_CONTEXT) -> None:
        self.context_size: int | None = context_size
        self._room = context_size

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the request, with a turn of the event loop between them."""
        for event in answer(request, self._room):
            yield event
            await asyncio.sleep(0)  # there is nothing to wait for, but a cancel must get its chance


def answer(request: ModelRequest, context_size: int = REHEARSAL_CONTEXT) -> Iterator[ModelEvent]:
    """The answer to a request, as a stream of events."""
    # On first use: an agent that starts has no prompt yet.

    read = _tokens_of(request)
    if read > context_size:
        raise ModelError(
            "context_full", f"rehearsal: {read} tokens do not fit into {context_size}; compact the session"
        )
    parts = list(next_parts(request))
    for part in parts:
        if isinstance(part, TextPart):
            yield from (TextDelta(piece) for piece in _pieces(part.text))
        elif isinstance(part, ThoughtPart):
            yield from (ThoughtDelta(piece) for piece in _pieces(part.text))
        else:
            yield part
    message = AssistantMessage(tuple(parts), REHEARSAL)
    thought = sum(_tokens(part.text) for part in parts if isinstance(part, ThoughtPart))
    yield RequestUsage(read, _tokens(msgspec.json.encode(message.parts).decode()), thought=thought, cost=0.0)
    yield Stopped("tool_use" if uses_of(message) else "end_turn", message)


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


# MERGED coder.models.rehearsal.imperatives: What a prompt tells the rehearsal model to do: plain imperative English, read into steps.
#
# A prompt is a row of commands joined by `then`; looking commands may also be joined by `and`, and are then one step.
# Between quotes or backticks nothing joins.

Arguments: TypeAlias = dict[str, Any]


class RehearsalStep(NamedTuple):
    """One command: the tool that does it and its arguments. Thinking has no tool."""

    words: str
    """As it was put."""
    tool: str | None
    arguments: Arguments


Step: TypeAlias = list[RehearsalStep]
"""What is done in one answer."""

_NAME = r"(?:(?:\"[^\"\n]+\"|`[^`\n]+`|'[^'\n]+')\.?|\S+)"
_THE_FILE = r"(?:the\s+)?(?:files?\s+(?:named\s+)?)?"


def _path(match: re.Match[str]) -> Arguments:
    return {"path": _bare(match["what"] or ".")}


def _search(match: re.Match[str]) -> Arguments:
    place = match["place"]
    return {"pattern": _bare(match["what"]), **({"path": _bare(place)} if place else {})}


def _write(match: re.Match[str]) -> Arguments:
    return {"path": _bare(match["path"]), "content": _unquoted(match["content"])}


def _replace(match: re.Match[str]) -> Arguments:
    old, new = _unquoted(match["old"]), _unquoted(match["new"])
    return {"path": _bare(match["path"]), "old_text": old, "new_text": new}


def _plan(match: re.Match[str]) -> Arguments:
    tasks = [task.strip() for task in match["what"].split(";")]
    return {"entries": [{"content": task, "status": "pending"} for task in tasks if task]}


def _only(name: str, clean: Callable[[str], str]) -> Callable[[re.Match[str]], Arguments]:
    return lambda match: {name: clean(match["what"])}


def _bare(text: str) -> str:
    """Without the full stop of the sentence and without quotes."""
    text = text.strip()
    return _unquoted(text[:-1] if text.endswith(".") and text.strip("./") else text)


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        return text[1:-1]
    return text


class _Verb(NamedTuple):
    pattern: re.Pattern[str]
    tool: str | None
    arguments: Callable[[re.Match[str]], Arguments]


def _verb(pattern: str, tool: str | None, arguments: Callable[[re.Match[str]], Arguments]) -> _Verb:
    return _Verb(re.compile(rf"\s*(?:please\s+)?{pattern}\s*", re.IGNORECASE | re.DOTALL), tool, arguments)


_VERBS: Final = (
    _verb(rf"read\s+{_THE_FILE}(?P<what>{_NAME})", "read_file", _path),
    _verb(
        rf"list(?:\s+(?:the\s+)?(?:files|folder|directory))?(?:\s+(?:in\s+)?(?P<what>{_NAME}))?",
        "list_files",
        _path,
    ),
    _verb(rf"find\s+{_THE_FILE}(?P<what>{_NAME})", "glob", _only("pattern", _bare)),
    _verb(rf"search\s+(?:for\s+)?(?P<what>\S.*?)(?:\s+in\s+(?P<place>{_NAME}))?", "grep", _search),
    _verb(rf"write\s+(?:the\s+file\s+)?(?P<path>{_NAME}?)\s*:[ \n]?(?P<content>.*)", "write_file", _write),
    _verb(rf"replace\s+(?P<old>.+?)\s+with\s+(?P<new>.*?)\s+in\s+(?P<path>{_NAME})", "edit_file", _replace),
    _verb(r"run\s+(?P<what>\S.*?)", "bash", _only("command", _unquoted)),
    _verb(r"fetch\s+(?P<what>\S+)", "web_fetch", _only("url", _bare)),
    _verb(r"plan\s*:\s*(?P<what>.*?\w.*?)", "plan", _plan),
    _verb(r"ask\s*:\s*(?P<what>\S.*?)", "ask_user", _only("question", _unquoted)),
    _verb(r"think\s*:\s*(?P<what>\S.*?)", None, _only("text", _unquoted)),
    _verb(r"delegate\s*:\s*(?P<what>\S.*?)", "agent", _only("prompt", _unquoted)),
)
LOOKING: Final = ("read_file", "list_files", "glob", "grep", "web_fetch")

_OPENING: Final = re.compile(
    r"\s*(?:please\s+)?(?:(?:read|find|search|write|replace|run|fetch)\s|list\b|(?:plan|ask|think|delegate)\s*:)",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r'"[^"\n]*"|`[^`\n]*`')
_THEN: Final = re.compile(r"(?:\s*[,;.])?\s+(?:and\s+)?then\s+", re.IGNORECASE)
_AND: Final = re.compile(r"(?:\s*,)?\s+and\s+", re.IGNORECASE)

_LONGEST: Final = 10_000
"""Only a text to be written may be longer; the patterns of the others would take their time."""
_MOST: Final = 99

_T = TypeVar("_T")


def steps_of(prompt: str) -> list[Step]:
    """The steps of a prompt; none if it is not made of commands."""
    if _OPENING.match(prompt) is None:
        return []
    return _row(prompt, _THEN, _step) or []


def _step(words: str) -> Step | None:
    if together := _row(words, _AND, _looking):
        return together
    command = command_of(words)
    return [command] if command else None


def _looking(words: str) -> RehearsalStep | None:
    command = command_of(words)
    return command if command and command.tool in LOOKING else None


def command_of(words: str) -> RehearsalStep | None:
    """The command that these words are; None if they are none."""
    for verb in _VERBS:
        if len(words) > _LONGEST and verb.tool != "write_file":
            continue
        if match := verb.pattern.fullmatch(words):
            return RehearsalStep(words.strip(), verb.tool, verb.arguments(match))
    return None


def _row(text: str, joint: re.Pattern[str], read: Callable[[str], _T | None]) -> list[_T] | None:
    """The text cut at as many joints as leave readable pieces; elsewhere the joining word belongs to the text."""
    hidden = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    cuts = [match for match in joint.finditer(hidden) if _OPENING.match(text, match.end())][:_MOST]
    if len(text) > _LONGEST:
        cuts = []
    starts = [0, *(match.end() for match in cuts)]
    ends = [*(match.start() for match in cuts), len(text)]
    rows: list[list[_T] | None] = [*(None for _ in starts), []]
    for start in range(len(cuts), -1, -1):
        for end in range(start, len(ends)):
            rest = rows[end + 1]
            if rest is not None and (first := read(text[starts[start] : ends[end]])) is not None:
                rows[start] = [first, *rest]
                break
    return rows[0]


# MERGED coder.models.rehearsal.play: What the rehearsal model does next, read off the history: which steps are done, what came of them, what is left.

WHO: Final = "I am `rehearsal`, a fixed script inside Accord: no AI, and no model is connected."
HOW: Final = (
    "To connect a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_API_KEY, or run "
    "`accord agent --login PROVIDER`, and choose one with `--model provider:name`. Until then I do what plain commands "
    "say: `read README.md`, `list src`, `find *.py`, `search TODO`, `write notes.txt: hello`, "
    "`replace a with b in f.py`, `run pytest -q`, `fetch URL`, `plan: a; b; c`, `ask: which colour?`, `think: ...`, "
    "`delegate: ...`; join several with `then`."
)

_LOOK_AROUND: Final = RehearsalStep("look around", "list_files", {"path": "."})
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
        self.todo: list[RehearsalStep] = []
        """To be done now; nothing when all is done."""
        self._outcomes: list[tuple[RehearsalStep, ToolResult]] = []
        self._missing: list[RehearsalStep] = []
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
                self.todo = [RehearsalStep(f"read {path}", "read_file", {"path": path})]
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


def _calls(request: ModelRequest, commands: Sequence[RehearsalStep]) -> Iterator[ToolUse]:
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
