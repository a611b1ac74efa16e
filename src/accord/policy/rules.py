"""Rules as a user writes them: lists of what is allowed, asked for, denied. The typed shape that settings files embed.

`permissions` is one of four words or an object; what is wrong with it is said with the file, the key and the reason. A rule
that names nothing, or something that does not exist, is refused: a typing error must never widen what is allowed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import UsageError
from accord.schema.tools import ToolKind

from .patterns import CommandPattern, PathPattern

Word = Literal["ask", "reads", "all", "none"]
"""Ask for everything, allow what reads, allow everything, allow nothing."""
Default = Literal["ask", "reads", "all", "none", "allow", "deny"]
"""A `Word`; `allow` and `deny` are other names of `all` and `none`."""

KINDS: Final[tuple[str, ...]] = get_args(ToolKind)
WORDS: Final[tuple[str, ...]] = get_args(Word)
_DEFAULTS: Final[dict[str, Word]] = {"allow": "all", "deny": "none"}
_LISTS: Final = ("allow", "ask", "deny")
_FIELDS: Final = ("kind", "tool", "path", "command", "host")


class BadRules(UsageError):
    """Rules that cannot be used; the text names file, key and reason."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule. Everything it says must be met; a list is met by any of its members."""

    kind: str | tuple[str, ...] | UnsetType = UNSET
    """The kind of tool call, as the protocol names them: `read`, `edit`, `execute`..."""
    tool: str | tuple[str, ...] | UnsetType = UNSET
    """The tool's own name; `*` stands for any letters."""
    path: str | tuple[str, ...] | UnsetType = UNSET
    command: str | tuple[str, ...] | UnsetType = UNSET
    host: str | tuple[str, ...] | UnsetType = UNSET

    @property
    def kinds(self) -> tuple[str, ...]:
        return _several(self.kind)

    @property
    def tools(self) -> tuple[str, ...]:
        return _several(self.tool)

    @property
    def paths(self) -> tuple[PathPattern, ...]:
        return tuple(PathPattern(text) for text in _several(self.path))

    @property
    def commands(self) -> tuple[CommandPattern, ...]:
        return tuple(CommandPattern.of(text) for text in _several(self.command))

    @property
    def hosts(self) -> tuple[str, ...]:
        return _several(self.host)

    def __str__(self) -> str:
        said = ((name, _several(getattr(self, name))) for name in _FIELDS)
        return "; ".join(f"{name} {', '.join(texts)}" for name, texts in said if texts)


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Lists of rules: what one of `deny` meets is denied, then what one of `ask` meets is asked for, then `allow` counts.

    `default` is for what no rule meets.
    """

    allow: tuple[Rule | str, ...] = ()
    ask: tuple[Rule | str, ...] = ()
    deny: tuple[Rule | str, ...] = ()
    default: Default | None = None
    source: str = ""
    """Where they come from, for messages; not part of the file."""

    @property
    def word(self) -> Word | None:
        """The default as one of the four words."""
        return None if self.default is None else _DEFAULTS.get(self.default, cast(Word, self.default))

    def rules(self, effect: Literal["allow", "ask", "deny"]) -> Iterator[tuple[str, Rule]]:
        """Each rule of a list, with the name by which messages speak of it."""
        for number, rule in enumerate(cast("tuple[Rule | str, ...]", getattr(self, effect)), 1):
            whole = Rule(kind=rule) if isinstance(rule, str) else rule
            yield f"{effect} rule {number}{f' of {self.source}' if self.source else ''} ({whole})", whole


def read_permissions(value: Any, *, file: str = "", key: str = "permissions") -> Rules:
    """The rules in a parsed setting: one of the four words, or an object. Raises BadRules."""
    if isinstance(value, str):
        if value not in WORDS:
            raise _bad(file, key, f"{value!r} is none of {', '.join(WORDS)}")
        return Rules(default=cast(Word, value), source=file)
    if not isinstance(value, dict):
        raise _bad(file, key, "it must be one of " + ", ".join(WORDS) + " or an object of rules")
    if "source" in value:
        raise _bad(file, f"{key}.source", "there is no such key")
    try:
        rules = msgspec.convert(value, Rules)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        raise _bad(file, key + place.rstrip("`"), reason) from None
    for name in _LISTS:
        _check(cast("tuple[Rule | str, ...]", getattr(rules, name)), name, file, key)
    return msgspec.structs.replace(rules, source=file)


def _check(rules: Sequence[Rule | str], effect: str, file: str, key: str) -> None:
    for number, rule in enumerate(rules):
        place = f"{key}.{effect}[{number}]"
        if isinstance(rule, str):
            rule = Rule(kind=rule)
        said = [name for name in _FIELDS if getattr(rule, name) is not UNSET]
        if not said:
            raise _bad(file, place, f"a rule must name one of {', '.join(_FIELDS)}")
        for name in said:
            texts = _several(getattr(rule, name))
            if not texts:
                raise _bad(file, f"{place}.{name}", "it is empty; leave it out where it does not matter")
            for text in texts:
                _check_text(name, text, effect, file, f"{place}.{name}")


def _check_text(name: str, text: str, effect: str, file: str, place: str) -> None:
    if not text.strip() or text != text.strip() or any(ord(char) < 32 for char in text):
        raise _bad(file, place, f"{text!r} is empty, has blanks around it or has control characters")
    if name == "kind" and text not in KINDS:
        raise _bad(
            file, place, f"{text!r} is no kind of tool call: {', '.join(KINDS)}; a tool is named by `tool`"
        )
    strange = text.startswith(("!", "~")) and text.partition("/")[0] != "~"
    if name == "path" and text.count("**") > 4:
        raise _bad(file, place, f"{text!r} has more than four `**`")
    if name == "path" and (".." in text.split("/") or strange):
        raise _bad(file, place, f"{text!r} cannot be used: no `..`, no `!`, and `~` only as `~/...`")
    if name == "command" and effect == "allow" and "*" in text.split()[0]:
        raise _bad(file, place, f"{text!r} would allow any program: name it, or allow the kind `execute`")
    if name == "command" and any(char in text for char in "|;&<>$`\n"):
        raise _bad(
            file,
            place,
            f"{text!r} is more than one command: a pattern is matched against each command of a line",
        )
    if name == "host" and ("/" in text or ":" in text or ("*" in text.removeprefix("*.") and text != "*")):
        raise _bad(file, place, f"{text!r} is no host: write `example.com`, `*.example.com` or `*`")


def _several(value: str | tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if value is UNSET or not value:
        return ()
    return (value,) if isinstance(value, str) else value


def _bad(file: str, key: str, reason: str) -> BadRules:
    return BadRules(f"{file + ': ' if file else ''}{key}: {reason}")
