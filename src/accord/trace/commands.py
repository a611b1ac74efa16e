"""Secrets in the words of a command line: `--token x`, `-e NAME=x`, `env NAME=x`, `-u user:x`."""

import os
import re
from collections.abc import Sequence
from typing import Final

from accord.trace.credentials import REDACTED, redact_text
from accord.trace.names import TRIVIAL, is_secret, is_secret_option, is_secret_variable

_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.\-]*)(=)?(.*)", re.DOTALL)
_PAIR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_VARIABLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_GIVES_VARIABLE: Final = re.compile(r"-e|--(?:set-)?env(?:-add|-var)?|--build-arg|-E")
_LOGINS: Final = ("-u", "--user", "--proxy-user")


def redact_words(words: Sequence[str]) -> list[str]:
    """The words, each without its secret; as many as before. The command itself may be among them or not."""
    shown = list(map(redact_text, words))
    variables = False  # whether the words that follow `env` are still its own
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        pair = _PAIR.fullmatch(word)
        if pair is not None and (variables or place == 0 or _GIVES_VARIABLE.fullmatch(before)):
            shown[place] = _pair(word, pair)
        elif _is_given(before, word):
            shown[place] = word if word.lower() in TRIVIAL else REDACTED
        elif word[:1] == "-":
            shown[place] = _option(word, shown[place])
        variables = os.path.basename(word) == "env" or (variables and (pair is not None or word[:1] == "-"))
    return shown


def _is_given(before: str, word: str) -> bool:
    """Whether a word is what the one before it asks for, and that is a secret."""
    if before[:1] != "-":
        return _VARIABLE_NAME.fullmatch(before) is not None and is_secret(before)
    if before in _LOGINS:
        return ":" in word
    return "=" not in before and is_secret_option(before)


def _option(word: str, shown: str) -> str:
    if word.startswith("-u") and not word.startswith("--") and ":" in word:
        return f"-u{REDACTED}"
    attached = _PAIR.fullmatch(word, 2) if word[1:2] in ("e", "E") else None
    if attached is not None and _VARIABLE_NAME.fullmatch(attached[1]):
        return word[:2] + _pair(word[2:], attached)
    option = _OPTION.fullmatch(word)
    if option is None or not option[2]:
        return shown
    name, given = option[1], option[3]
    if _GIVES_VARIABLE.fullmatch(name) and (pair := _PAIR.fullmatch(given)) is not None:
        return f"{name}={_pair(given, pair)}"
    if is_secret_option(name) or (name in _LOGINS and ":" in given):
        return word if given.lower() in TRIVIAL else f"{name}={REDACTED}"
    return shown


def _pair(word: str, pair: "re.Match[str]") -> str:
    name, value = pair.groups()
    if not is_secret_variable(name):
        return redact_text(word)
    return word if value.lower() in TRIVIAL else f"{name}={REDACTED}"
