"""The environment an agent is started with: what of ours it inherits, and what its `env` adds.

It inherits everything that does not look like a credential, and of the credentials those that are its business by the
catalogue. What else it shall have stands in its `env`, where `${NAME}` takes a value of ours.
"""

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from accord.errors import UsageError
from accord.policy.sandbox.command_environment import without_credentials

_REFERENCE: Final = re.compile(r"\$(?:\$(?=\{)|\{([^{}]*)\})")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE: Final = re.compile(r"(\$*)\$([A-Za-z_][A-Za-z0-9_]*)")
# Marks that an agent leaves for its own children: another agent would take itself for one of them, and some refuse to start.
_OF_OTHER_AGENTS: Final = frozenset(
    (
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "GEMINI_CLI",
        "QWEN_CODE",
        "CODEX_SANDBOX",
    )
)


def inherited(environ: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """What of our environment an agent gets unasked. `keys` are the credentials it may have; `*` stands for any letters."""
    keep = {name for name in environ if any(fnmatch.fnmatchcase(name, key) for key in keys)}
    passed = without_credentials(environ, keep=keep)
    return {name: value for name, value in passed.items() if name not in _OF_OTHER_AGENTS}


def whole(
    environ: Mapping[str, str], keys: Collection[str], env: Mapping[str, str | None], place: str
) -> dict[str, str]:
    """The environment of the agent. `place` is where `env` stands, for messages. Raises UsageError."""
    result = inherited(environ, keys)
    for name, value in env.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = expand(value, environ, f"{place}.{name}")
    return result


def laid_over(environ: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """The difference that makes the wanted environment out of ours; None takes a name out."""
    changes: dict[str, str | None] = {name: None for name in environ if name not in wanted}
    changes.update((name, value) for name, value in wanted.items() if environ.get(name) != value)
    return changes


def expand(text: str, environ: Mapping[str, str], place: str) -> str:
    """The text with the values of our environment in place of its references. Raises UsageError for one that is not set."""

    def value(found: "re.Match[str]") -> str:
        if found[1] is None:
            return "$"
        name, fallback = split(found[1])
        if name in environ:
            return environ[name]
        if fallback is None:
            raise UsageError(
                f"{place}: {name} is not set; set it, or write ${{{name}:-}} where it may be missing"
            )
        return fallback

    if (bare := _BARE.fullmatch(text)) and bare[1]:
        return text[1:]
    return _REFERENCE.sub(value, _braced(text))


def references(texts: Iterable[str]) -> list[str]:
    """The names of our environment that these texts refer to."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(
            (split(match[1])[0], None) for match in _REFERENCE.finditer(_braced(text)) if match[1] is not None
        )
    return list(found)


def problem(text: str) -> str | None:
    """What is wrong with the references in a text, in words."""
    for match in _REFERENCE.finditer(_braced(text)):
        if match[1] is not None and not _NAME.fullmatch(split(match[1])[0]):
            return f"{match[0]!r} names no variable; write ${{NAME}}, ${{NAME:-otherwise}}, or $${{ for the characters themselves"
    return None


def literal(text: str) -> str:
    """The text as it has to be written so that nothing in it is taken for a reference."""
    return f"${text}" if _BARE.fullmatch(text) else text.replace("${", "$${")


def split(inside: str) -> tuple[str, str | None]:
    """What stands in a reference: the name, and what to take where it is not set."""
    name, mark, fallback = inside.partition(":-")
    return name, fallback if mark else None


def _braced(text: str) -> str:
    """Some tools write a reference as `$NAME`; a value that is nothing else is read so, unless it begins with `$$`."""
    bare = _BARE.fullmatch(text)
    return f"${{{bare[2]}}}" if bare and not bare[1] else text
