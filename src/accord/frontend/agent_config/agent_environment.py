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
_BARE_REFERENCE: Final = re.compile(r"(\$*)\$([A-Za-z_][A-Za-z0-9_]*)")
# Variables that an agent sets for its child processes. Some agents refuse to start if they are set.
_AGENT_MARKERS: Final = frozenset((
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "GEMINI_CLI", "QWEN_CODE",
    "CODEX_SANDBOX",
))  # fmt: skip


def inherited_environment(environ: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """The part of our environment that an agent inherits.

    `keys` are patterns of the credentials it may have. The address that belongs to a key comes with it, also
    if it contains a password: without it, the key would go to another server.
    """
    addresses = [f"{key.removesuffix('API_KEY')}BASE_URL" for key in keys if key.endswith("_API_KEY")]
    patterns = (*keys, *addresses)
    keep = {name for name in environ if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    passed = without_credentials(environ, keep=keep)
    return {name: value for name, value in passed.items() if name not in _AGENT_MARKERS}


def build_environment(
    environ: Mapping[str, str], keys: Collection[str], env: Mapping[str, str | None], place: str
) -> dict[str, str]:
    """The environment of the agent. `place` is the location of `env`, for messages. Raises UsageError."""
    result = inherited_environment(environ, keys)
    for name, value in env.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = expand_references(value, environ, f"{place}.{name}")
    return result


def environment_changes(environ: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str | None]:
    """The changes that turn our environment into `target`; None removes a variable."""
    changes: dict[str, str | None] = {name: None for name in environ if name not in target}
    changes.update((name, value) for name, value in target.items() if environ.get(name) != value)
    return changes


def expand_references(text: str, environ: Mapping[str, str], place: str) -> str:
    """Replace the references in a text by values of our environment. Raises UsageError if one is not set."""

    def value(reference: "re.Match[str]") -> str:
        if reference[1] is None:
            return "$"
        name, fallback = _split_reference(reference[1])
        if name in environ:
            return environ[name]
        if fallback is None:
            raise UsageError(f"{place}: {name} is not set; set it, or write ${{{name}:-}} if it is optional")
        return fallback

    if (match := _BARE_REFERENCE.fullmatch(text)) and match[1]:
        return text[1:]  # `$$NAME` is an escaped `$NAME`
    return _REFERENCE.sub(value, _with_braces(text))


def referenced_variables(texts: Iterable[str]) -> list[str]:
    """The names of the variables that these texts refer to."""
    names: dict[str, None] = {}
    for text in texts:
        for match in _REFERENCE.finditer(_with_braces(text)):
            if match[1] is not None:
                names[_split_reference(match[1])[0]] = None
    return list(names)


def reference_problem(text: str) -> str | None:
    """What is wrong with the references in a text, or None."""
    for match in _REFERENCE.finditer(_with_braces(text)):
        if match[1] is not None and not _NAME.fullmatch(_split_reference(match[1])[0]):
            return (
                f"{match[0]!r} is not a variable reference; write ${{NAME}} or ${{NAME:-fallback}}, "
                "or $${ for a literal ${"
            )
    return None


def escape_references(text: str) -> str:
    """Escape a text so that nothing in it is read as a reference."""
    return f"${text}" if _BARE_REFERENCE.fullmatch(text) else text.replace("${", "$${")


def _split_reference(reference: str) -> tuple[str, str | None]:
    """Split a reference into the name and the fallback."""
    name, separator, fallback = reference.partition(":-")
    return name, fallback if separator else None


def _with_braces(text: str) -> str:
    """Convert a value that is just `$NAME`, as some tools write it, to `${NAME}`; `$$` escapes it."""
    match = _BARE_REFERENCE.fullmatch(text)
    return f"${{{match[2]}}}" if match and not match[1] else text
