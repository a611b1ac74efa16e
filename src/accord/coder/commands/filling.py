"""What was typed behind a command, put into its prompt where that says so. Text is put in, and nothing is ever run."""

import re
import shlex
from typing import Final

_PLACE: Final = re.compile(r"(?P<escaped>\\)?\$(?:(?P<all>ARGUMENTS\b)|(?P<number>[1-9])(?!\d))")


def takes_text(prompt: str) -> bool:
    """Whether the prompt says where what is typed belongs."""
    return any(not match["escaped"] for match in _PLACE.finditer(prompt))


def fill(prompt: str, text: str) -> str:
    """`$ARGUMENTS` is all of it, `$1` to `$9` its words; where neither stands it follows the prompt. A backslash before the
    dollar keeps it."""
    words = _words(text)
    used = False

    def put(match: re.Match[str]) -> str:
        nonlocal used
        if match["escaped"]:
            return match[0][1:]
        used = True
        if match["all"]:
            return text
        number = int(match["number"])
        return words[number - 1] if number <= len(words) else ""

    filled = _PLACE.sub(put, prompt)
    return filled if used or not text else f"{filled}\n\n{text}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # a lone quote is an apostrophe
