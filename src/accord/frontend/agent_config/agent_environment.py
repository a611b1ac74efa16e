"""The environment of an agent: what it inherits from ours, and what its `env` adds.

It inherits everything that does not look like a credential, and the credentials that the catalog lists for
it. Everything else must be in its `env`, where `${NAME}` inserts a value of our environment.
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
# Variables that an agent sets for its child processes. Some agents refuse to start if they are set.
_AGENT_MARKERS: Final = frozenset(
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
    """The part of our environment that an agent inherits.

    `keys` are patterns of the credentials it may have.
    """
    keep = {name for name in environ if any(fnmatch.fnmatchcase(name, key) for key in keys)}
    passed = without_credentials(environ, keep=keep)
    return {name: value for name, value in passed.items() if name not in _AGENT_MARKERS}


def whole(
    environ: Mapping[str, str], keys: Collection[str], env: Mapping[str, str | None], place: str
) -> dict[str, str]:
    """The environment of the agent. `place` is the location of `env`, for messages. Raises UsageError."""
    result = inherited(environ, keys)
    for name, value in env.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = expand(value, environ, f"{place}.{name}")
    return result


def laid_over(environ: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """The changes that turn our environment into `wanted`; None removes a variable."""
    changes: dict[str, str | None] = {name: None for name in environ if name not in wanted}
    changes.update((name, value) for name, value in wanted.items() if environ.get(name) != value)
    return changes


def expand(text: str, environ: Mapping[str, str], place: str) -> str:
    """Replace the references in a text by values of our environment. Raises UsageError if one is not set."""

    def value(found: "re.Match[str]") -> str:
        if found[1] is None:
            return "$"
        name, fallback = split(found[1])
        if name in environ:
            return environ[name]
        if fallback is None:
            raise UsageError(f"{place}: {name} is not set; set it, or write ${{{name}:-}} if it is optional")
        return fallback

    if (bare := _BARE.fullmatch(text)) and bare[1]:
        return text[1:]
    return _REFERENCE.sub(value, _braced(text))


def references(texts: Iterable[str]) -> list[str]:
    """The names of the variables that these texts refer to."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(
            (split(match[1])[0], None) for match in _REFERENCE.finditer(_braced(text)) if match[1] is not None
        )
    return list(found)


def problem(text: str) -> str | None:
    """What is wrong with the references in a text, or None."""
    for match in _REFERENCE.finditer(_braced(text)):
        if match[1] is not None and not _NAME.fullmatch(split(match[1])[0]):
            return (
                f"{match[0]!r} names no variable; write ${{NAME}}, ${{NAME:-otherwise}}, "
                "or $${ for the characters themselves"
            )
    return None


def literal(text: str) -> str:
    """Escape a text so that nothing in it is read as a reference."""
    return f"${text}" if _BARE.fullmatch(text) else text.replace("${", "$${")


def split(inside: str) -> tuple[str, str | None]:
    """Split a reference into the name and the fallback."""
    name, mark, fallback = inside.partition(":-")
    return name, fallback if mark else None


def _braced(text: str) -> str:
    """Convert a value that is just `$NAME`, as some tools write it, to `${NAME}`; `$$` escapes it."""
    bare = _BARE.fullmatch(text)
    return f"${{{bare[2]}}}" if bare and not bare[1] else text
