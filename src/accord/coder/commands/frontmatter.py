"""A command's file taken apart: what stands between its first lines of dashes, and the prompt below."""

import re
from typing import Final, NamedTuple

from accord.coder.mcp.cleaning import clean_line

_HEAD: Final = re.compile(r"---[ \t]*\n(?P<head>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
_LONGEST: Final = 200


class Written(NamedTuple):
    """What a file says."""

    description: str
    hint: str | None
    prompt: str


def read(text: str) -> Written:
    """Of the head only `description` and `argument-hint` count; without a description the first line stands in."""
    text = text.replace("\r\n", "\n")
    head = _HEAD.match(text)
    values = _values(head["head"]) if head else {}
    prompt = text[head.end() :] if head else text
    prompt = prompt.strip()
    first = next((line.strip(" #*\t") for line in prompt.splitlines() if line.strip(" #*\t")), "")
    return Written(
        clean_line(values.get("description", ""), _LONGEST) or clean_line(first, _LONGEST),
        clean_line(values.get("argument-hint", ""), _LONGEST) or None,
        prompt,
    )


def _values(head: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in head.splitlines():
        if match := _LINE.fullmatch(line.rstrip()):
            value = match["value"].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            values[match["key"].casefold().replace("_", "-")] = value
    return values
