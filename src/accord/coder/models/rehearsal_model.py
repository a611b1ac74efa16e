"""The built-in deterministic model `rehearsal`: reads plain commands from the prompt and carries them out.

It computes its next step from the history of the request alone, so the same request gives the same events.

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
    tool_uses_of,
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
from accord.text_width import count_text

_WORD: Final = re.compile(r"\S+\s*|\s+")
_WORDS_PER_DELTA: Final = 4
_IMAGE_TOKENS: Final = 1000


class RehearsalModel:
    """The model that follows a fixed script instead of thinking."""

    name: str = REHEARSAL
    provider: str = REHEARSAL
    sees_images: bool = False
    efforts: Sequence[Effort] = ()
    max_tools: int | None = None

    def __init__(self, context_size: int = REHEARSAL_CONTEXT, *, named: bool = True) -> None:
        """`named`: whether the user named this model. It follows commands only then."""
        self.context_size: int | None = context_size
        self._context_size = context_size
        self._named = named

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the answer.

        Lets other tasks run between them, so that a cancel takes effect.
        """
        for event in answer(request, self._context_size, named=self._named):
            yield event
            await asyncio.sleep(0)


def answer(
    request: ModelRequest, context_size: int = REHEARSAL_CONTEXT, *, named: bool = True
) -> Iterator[ModelEvent]:
    """Yield the events of the answer to a request."""
    input_tokens = _tokens_of(request)
    if input_tokens > context_size:
        raise ModelError(
            "context_full",
            f"rehearsal: {input_tokens} tokens do not fit into {context_size}; compact the session",
        )
    parts: list[TextPart | ThoughtPart | ToolUse] = list(next_parts(request)) if named else [_NOT_NAMED]
    for part in parts:
        if isinstance(part, TextPart):
            yield from (TextDelta(piece) for piece in _pieces(part.text))
        elif isinstance(part, ThoughtPart):
            yield from (ThoughtDelta(piece) for piece in _pieces(part.text))
        else:
            yield part
    message = AssistantMessage(tuple(parts), REHEARSAL)
    thought = sum(_tokens(part.text) for part in parts if isinstance(part, ThoughtPart))
    yield RequestUsage(
        input_tokens, _tokens(msgspec.json.encode(message.parts).decode()), thought=thought, cost=0.0
    )
    yield Stopped("tool_use" if tool_uses_of(message) else "end_turn", message)


def _pieces(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    for start in range(0, len(words), _WORDS_PER_DELTA):
        yield "".join(words[start : start + _WORDS_PER_DELTA])


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


Arguments: TypeAlias = dict[str, Any]


class RehearsalCommand(NamedTuple):
    """One command of a prompt: the tool that runs it, and its arguments. A thought has no tool."""

    text: str
    """The words of the prompt."""
    tool: str | None
    arguments: Arguments


RehearsalStep: TypeAlias = list[RehearsalCommand]
"""The commands of one answer."""

_NAME = r"(?:(?:\"[^\"\n]+\"|`[^`\n]+`|'[^'\n]+')\.?|\S+)"
_THE_FILE = r"(?:the\s+)?(?:files?\s+(?:named\s+)?)?"


def _path_arguments(match: re.Match[str]) -> Arguments:
    return {"path": _without_full_stop(match["what"] or ".")}


def _search_arguments(match: re.Match[str]) -> Arguments:
    folder = match["folder"]
    return {
        "pattern": _without_full_stop(match["what"]),
        **({"path": _without_full_stop(folder)} if folder else {}),
    }


def _write_arguments(match: re.Match[str]) -> Arguments:
    return {"path": _without_full_stop(match["path"]), "content": _without_quotes(match["content"])}


def _replace_arguments(match: re.Match[str]) -> Arguments:
    old, new = _without_quotes(match["old"]), _without_quotes(match["new"])
    return {"path": _without_full_stop(match["path"]), "old_text": old, "new_text": new}


def _plan_arguments(match: re.Match[str]) -> Arguments:
    tasks = [task.strip() for task in match["what"].split(";")]
    return {"entries": [{"content": task, "status": "pending"} for task in tasks if task]}


def _one_argument(name: str, clean: Callable[[str], str]) -> Callable[[re.Match[str]], Arguments]:
    return lambda match: {name: clean(match["what"])}


def _without_full_stop(text: str) -> str:
    """Remove the full stop of the sentence, then quotes."""
    text = text.strip()
    return _without_quotes(text[:-1] if text.endswith(".") and text.strip("./") else text)


def _without_quotes(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        return text[1:-1]
    return text


class _Verb(NamedTuple):
    """A kind of command: its pattern, its tool, and the arguments of the tool."""

    pattern: re.Pattern[str]
    tool: str | None
    arguments: Callable[[re.Match[str]], Arguments]


def _verb(pattern: str, tool: str | None, arguments: Callable[[re.Match[str]], Arguments]) -> _Verb:
    return _Verb(re.compile(rf"\s*(?:please\s+)?{pattern}\s*", re.IGNORECASE | re.DOTALL), tool, arguments)


_VERBS: Final = (
    _verb(rf"read\s+{_THE_FILE}(?P<what>{_NAME})", "read_file", _path_arguments),
    _verb(
        rf"list(?:\s+(?:the\s+)?(?:files|folder|directory))?(?:\s+(?:in\s+)?(?P<what>{_NAME}))?",
        "list_files",
        _path_arguments,
    ),
    _verb(rf"find\s+{_THE_FILE}(?P<what>{_NAME})", "glob", _one_argument("pattern", _without_full_stop)),
    _verb(rf"search\s+(?:for\s+)?(?P<what>\S.*?)(?:\s+in\s+(?P<folder>{_NAME}))?", "grep", _search_arguments),
    _verb(
        rf"write\s+(?:the\s+file\s+)?(?P<path>{_NAME}?)\s*:[ \n]?(?P<content>.*)",
        "write_file",
        _write_arguments,
    ),
    _verb(
        rf"replace\s+(?P<old>.+?)\s+with\s+(?P<new>.*?)\s+in\s+(?P<path>{_NAME})",
        "edit_file",
        _replace_arguments,
    ),
    _verb(r"run\s+(?P<what>\S.*?)", "bash", _one_argument("command", _without_quotes)),
    _verb(r"fetch\s+(?P<what>\S+)", "web_fetch", _one_argument("url", _without_full_stop)),
    _verb(r"plan\s*:\s*(?P<what>.*?\w.*?)", "plan", _plan_arguments),
    _verb(r"ask\s*:\s*(?P<what>\S.*?)", "ask_user", _one_argument("question", _without_quotes)),
    _verb(r"think\s*:\s*(?P<what>\S.*?)", None, _one_argument("text", _without_quotes)),
    _verb(r"delegate\s*:\s*(?P<what>\S.*?)", "agent", _one_argument("prompt", _without_quotes)),
    _verb(r"say\s*:\s*(?P<what>\S.*?)", None, _one_argument("answer", _without_quotes)),
)
_COMBINABLE: Final = ("read_file", "list_files", "glob", "grep", "web_fetch")

_COMMAND_START: Final = re.compile(
    r"\s*(?:please\s+)?(?:(?:read|find|search|write|replace|run|fetch)\s|list\b|"
    r"(?:plan|ask|think|delegate|say)\s*:)",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r'"[^"\n]*"|`[^`\n]*`')
# `then` joins steps, `and` joins read-only commands within one step. Within quotes and backticks neither
# joins.
_THEN: Final = re.compile(r"(?:\s*[,;.])?\s+(?:and\s+)?then\s+", re.IGNORECASE)
_AND: Final = re.compile(r"(?:\s*,)?\s+and\s+", re.IGNORECASE)

_MAX_COMMAND: Final = 10_000
"""In characters. Only `write` may be longer: the patterns of the other commands would be slow."""
_MAX_CUTS: Final = 99

_T = TypeVar("_T")


def parse_steps(prompt: str) -> list[RehearsalStep]:
    """Parse a prompt into steps. Return none if it does not consist of commands."""
    if _COMMAND_START.match(prompt) is None:
        return []
    return _split(prompt, _THEN, _parse_step) or []


def _parse_step(text: str) -> RehearsalStep | None:
    if combined := _split(text, _AND, _parse_combinable):
        return combined
    command = _parse_command(text)
    return [command] if command else None


def _parse_combinable(text: str) -> RehearsalCommand | None:
    command = _parse_command(text)
    return command if command and command.tool in _COMBINABLE else None


def _parse_command(text: str) -> RehearsalCommand | None:
    for verb in _VERBS:
        if len(text) > _MAX_COMMAND and verb.tool != "write_file":
            continue
        if match := verb.pattern.fullmatch(text):
            return RehearsalCommand(text.strip(), verb.tool, verb.arguments(match))
    return None


def _split(text: str, separator: re.Pattern[str], parse: Callable[[str], _T | None]) -> list[_T] | None:
    """Split the text at as many separators as possible so that every piece can be parsed.

    At other places the separator is part of the text. Return None if no split can be parsed.
    """
    hidden = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    cuts = [match for match in separator.finditer(hidden) if _COMMAND_START.match(text, match.end())][
        :_MAX_CUTS
    ]
    if len(text) > _MAX_COMMAND:
        cuts = []
    starts = [0, *(match.end() for match in cuts)]
    ends = [*(match.start() for match in cuts), len(text)]
    # By position in `starts`: the parsed pieces from there to the end of the text.
    parsed: list[list[_T] | None] = [*(None for _ in starts), []]
    for start in range(len(cuts), -1, -1):
        for end in range(start, len(ends)):
            later_pieces = parsed[end + 1]
            if later_pieces is not None and (piece := parse(text[starts[start] : ends[end]])) is not None:
                parsed[start] = [piece, *later_pieces]
                break
    return parsed[0]


_INTRODUCTION: Final = "I am `rehearsal`, a fixed script inside Accord: no AI, and no model is connected."
_HELP: Final = (
    "To connect a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_API_KEY, or run "
    "`accord agent --login PROVIDER`, and choose one with `--model provider:name`. "
    "Until then I run plain commands: `read README.md`, `list src`, `find *.py`, `search TODO`, "
    "`write notes.txt: hello`, `replace a with b in f.py`, `run pytest -q`, `fetch URL`, "
    "`plan: a; b; c`, `ask: which color?`, `think: ...`, `delegate: ...`, `say: ...`; "
    "join several with `then`."
)

_NOT_NAMED: Final = TextPart(
    f"{_INTRODUCTION}\n\n"
    "To connect a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_API_KEY, or run "
    "`accord agent --login`; with a local server, choose one as `ollama:NAME`. "
    "I follow plain commands such as `read README.md` only if you choose me by name: `/model rehearsal`, or "
    "`--model rehearsal`."
)
"""The answer to every prompt if no model is set up, and the user did not name this one."""

_LOOK_AROUND: Final = RehearsalCommand("look around", "list_files", {"path": "."})
_READ_FIRST: Final = re.compile(r"\bread it (?:first|again)\b")

Parts: TypeAlias = Iterator[TextPart | ThoughtPart | ToolUse]


def next_parts(request: ModelRequest) -> Parts:
    """Yield the parts of the answer to the request."""
    tools = {tool.name for tool in request.tools}
    prompts, later_messages = _unanswered_prompts(request.messages)
    steps: list[RehearsalStep] = []
    for texts in prompts:
        parsed = (parse_steps(text) for text in texts)
        steps += next((found for found in parsed if found), list[RehearsalStep]())
    if not steps:
        yield from _introduce(request, tools, later_messages)
        return
    progress = _Progress(steps, tools, later_messages)
    yield from (ThoughtPart(thought) for thought in progress.thoughts)
    if progress.next_step:
        yield TextPart(" and ".join(_first_line(command.text) for command in progress.next_step) + ".\n")
        yield from _calls(request, progress.next_step)
    else:
        yield TextPart(steps[-1][-1].arguments.get("answer") or progress.summary())


class _Progress:
    """Compares the steps of a prompt with the messages since, to find the next step."""

    def __init__(
        self, steps: Sequence[RehearsalStep], tools: set[str], later_messages: Sequence[Message]
    ) -> None:
        self.thoughts: list[str] = []
        """The thoughts of this answer."""
        self.next_step: RehearsalStep = []
        """Empty when all steps are done."""
        self._outcomes: list[tuple[RehearsalCommand, ToolResult]] = []
        self._without_tool: list[RehearsalCommand] = []
        results = {item.id: item for item in later_messages if isinstance(item, ToolResult)}
        answers = [
            tool_uses_of(message) for message in later_messages if isinstance(message, AssistantMessage)
        ]
        self._finished_results = deque(
            [[results[use.id] for use in uses if use.id in results] for uses in answers if uses]
        )
        for step in steps:
            self._without_tool += [command for command in step if command.tool and command.tool not in tools]
            possible = [command for command in step if command.tool in tools]
            if possible:
                self._check(possible, "read_file" in tools)
            elif not self._finished_results:
                self.thoughts += [
                    one.arguments["text"] for one in step if "text" in one.arguments and not one.tool
                ]
            if self.next_step:
                return

    def _check(self, step: RehearsalStep, can_read: bool) -> None:
        """Record the results of a finished step, or make it the next one.

        If a tool refuses to change a file that was not read, read the file and repeat the step.
        """
        if not self._finished_results:
            self.next_step = step
            return
        results = self._finished_results.popleft()
        if can_read and len(step) == len(results) == 1 and _must_read_first(results[0]):
            path = step[0].arguments["path"]
            if not self._finished_results:
                self.next_step = [RehearsalCommand(f"read {path}", "read_file", {"path": path})]
                return
            self._finished_results.popleft()
            if not self._finished_results:
                self.next_step = step
                return
            results = self._finished_results.popleft()
        self._outcomes += zip(step, results, strict=False)

    def summary(self) -> str:
        """List all commands with their results."""
        lines = [
            f"{number}. {_first_line(command.text)}: {_outcome(result)}"
            for number, (command, result) in enumerate(self._outcomes, 1)
        ]
        lines += [
            f"- {_first_line(command.text)}: skipped because there is no tool `{command.tool}`"
            for command in self._without_tool
        ]
        failed = sum(result.failed for _, result in self._outcomes) + len(self._without_tool)
        head = f"Done, {failed} of {len(lines)} failed." if failed else "Done."
        return "\n".join([head, *lines, "", f"({_INTRODUCTION})"])


def _must_read_first(result: ToolResult) -> bool:
    return (
        result.failed
        and result.name in ("write_file", "edit_file")
        and bool(_READ_FIRST.search(text_of(result)))
    )


def _unanswered_prompts(messages: Sequence[Message]) -> tuple[list[list[str]], Sequence[Message]]:
    """Return the texts of the last prompt, with those that no answer followed, and the messages since.

    What the user sends before the first answer of a turn joins its prompt.
    """
    prompts: list[list[str]] = []
    later = messages
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if not isinstance(message, UserMessage):
            if prompts:
                break
        elif not message.note:
            later = later if prompts else messages[position + 1 :]
            prompts.insert(0, [part.text for part in message.parts if isinstance(part, TextPart)])
        elif prompts and "cancelled the turn" in text_of(message):
            break
    return prompts, later


def _introduce(request: ModelRequest, tools: set[str], later_messages: Sequence[Message]) -> Parts:
    listing = next((item for item in later_messages if isinstance(item, ToolResult)), None)
    if listing is not None:
        files = _quote(text_of(listing))
        yield TextPart(f"{_INTRODUCTION}\n\nThis is what I see in the folder:\n\n{files}\n\n{_HELP}")
    elif _LOOK_AROUND.tool in tools:
        yield TextPart("Let me look around.\n")
        yield from _calls(request, [_LOOK_AROUND])
    else:
        prompts = [
            text_of(item) for item in request.messages if isinstance(item, UserMessage) and not item.note
        ]
        listed = "\n".join(f"- {_first_line(prompt)}" for prompt in prompts if prompt.strip())
        yield TextPart(f"{_INTRODUCTION} I have no tools. The prompts so far:\n{listed}")


def _calls(request: ModelRequest, commands: RehearsalStep) -> Iterator[ToolUse]:
    earlier_calls = sum(len(tool_uses_of(message)) for message in request.messages)
    for number, command in enumerate(commands, earlier_calls + 1):
        yield ToolUse(f"rehearsal-{number}", command.tool or "", command.arguments)


def _outcome(result: ToolResult) -> str:
    lines = text_of(result).strip().splitlines()
    first = _first_line(lines[0]) if lines else "no output"
    more = f" (and {count_text(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    return f"{'failed: ' if result.failed else ''}{first}{more}"


def _first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0].strip()
    return line if len(line) <= 120 else f"{line[:119]}…"


def _quote(text: str, max_lines: int = 40) -> str:
    lines = text.strip().splitlines()
    rest = [f"… and {len(lines) - max_lines} more"] if len(lines) > max_lines else []
    return "\n".join(f"    {line}" for line in [*lines[:max_lines], *rest])
