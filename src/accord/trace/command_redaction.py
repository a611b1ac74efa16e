"""Removes secrets from command lines."""

import os
import re
from collections.abc import Sequence
from typing import Final

from accord.trace.secret_names import (
    HARMLESS_VALUES,
    REDACTED,
    is_secret,
    is_secret_option,
    is_secret_variable,
)
from accord.trace.text_redaction import redact_text

_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.\-]*)(=)?(.*)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_VARIABLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_VARIABLE_OPTION: Final = re.compile(r"-e|--(?:set-)?env(?:-add|-var)?|--build-arg|-E")
_LOGIN_OPTIONS: Final = ("-u", "--user", "--proxy-user")


def redact_command(words: Sequence[str]) -> list[str]:
    """Redact the words of a command line, with or without the program; returns as many words."""
    redacted = list(map(redact_text, words))
    after_env = False  # whether the word may still be a variable of a preceding `env`
    for index, word in enumerate(words):
        previous = words[index - 1] if index else ""
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment is not None and (after_env or index == 0 or _VARIABLE_OPTION.fullmatch(previous)):
            redacted[index] = _redact_assignment(word, assignment)
        elif _is_secret_value(previous, word):
            redacted[index] = word if word.lower() in HARMLESS_VALUES else REDACTED
        elif word[:1] == "-":
            redacted[index] = _redact_option(word, redacted[index])
        after_env = os.path.basename(word) == "env" or (
            after_env and (assignment is not None or word[:1] == "-")
        )
    return redacted


def _is_secret_value(previous: str, word: str) -> bool:
    """Tell whether a word is the secret value of the option or name before it."""
    if previous[:1] != "-":
        return _VARIABLE_NAME.fullmatch(previous) is not None and is_secret(previous)
    if previous in _LOGIN_OPTIONS:
        return ":" in word
    return "=" not in previous and is_secret_option(previous)


def _redact_option(word: str, redacted: str) -> str:
    if word.startswith("-u") and not word.startswith("--") and ":" in word:
        return f"-u{REDACTED}"
    attached = _ASSIGNMENT.fullmatch(word, 2) if word[1:2] in ("e", "E") else None
    if attached is not None and _VARIABLE_NAME.fullmatch(attached[1]):
        return word[:2] + _redact_assignment(word[2:], attached)
    option = _OPTION.fullmatch(word)
    if option is None or not option[2]:
        return redacted
    name, value = option[1], option[3]
    if _VARIABLE_OPTION.fullmatch(name) and (assignment := _ASSIGNMENT.fullmatch(value)) is not None:
        return f"{name}={_redact_assignment(value, assignment)}"
    if is_secret_option(name) or (name in _LOGIN_OPTIONS and ":" in value):
        return word if value.lower() in HARMLESS_VALUES else f"{name}={REDACTED}"
    return redacted


def _redact_assignment(word: str, assignment: "re.Match[str]") -> str:
    name, value = assignment.groups()
    if not is_secret_variable(name):
        return redact_text(word)
    return word if value.lower() in HARMLESS_VALUES else f"{name}={REDACTED}"
