"""What a prompt tells the rehearsal model to do: plain imperative English, read into steps.

A prompt is a row of commands joined by `then`; looking commands may also be joined by `and`, and are then one step.
Between quotes or backticks nothing joins.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

Arguments: TypeAlias = dict[str, Any]


class Command(NamedTuple):
    """One command: the tool that does it and its arguments. Thinking has no tool."""

    words: str
    """As it was put."""
    tool: str | None
    arguments: Arguments


Step: TypeAlias = list[Command]
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


def _looking(words: str) -> Command | None:
    command = command_of(words)
    return command if command and command.tool in LOOKING else None


def command_of(words: str) -> Command | None:
    """The command that these words are; None if they are none."""
    for verb in _VERBS:
        if len(words) > _LONGEST and verb.tool != "write_file":
            continue
        if match := verb.pattern.fullmatch(words):
            return Command(words.strip(), verb.tool, verb.arguments(match))
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
