"""Inserts what the user typed into the prompt of a command or skill."""

import re
import shlex
from typing import Final

_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\\)?\$(?:(?P<all>ARGUMENTS\b)|(?P<number>[1-9])(?!\d))")


def has_placeholder(prompt: str) -> bool:
    """Whether the prompt has a place for the typed text."""
    return any(not match["escaped"] for match in _PLACEHOLDER.finditer(prompt))


def fill_prompt(prompt: str, text: str) -> str:
    """Insert the typed text into a command's prompt. Nothing is ever executed.

    `$ARGUMENTS` is the whole text, `$1` to `$9` are its words; without any of them the text follows the
    prompt. A backslash before the dollar sign keeps it.
    """
    words = _split_arguments(text)

    def replacement(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        if match["all"]:
            return text
        number = int(match["number"])
        return words[number - 1] if number <= len(words) else ""

    filled = _PLACEHOLDER.sub(replacement, prompt)
    return filled if has_placeholder(prompt) or not text else f"{filled}\n\n{text}"


def _split_arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # an unmatched quote, such as an apostrophe
