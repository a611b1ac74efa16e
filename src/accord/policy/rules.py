"""Permission rules as users write them, and their patterns for paths, commands and hosts.

`permissions` in a settings file is one of four words or an object with lists of rules. A rule without
conditions, or with an unknown one, is an error: a typing mistake must never allow more. A pattern that denies
or asks matches generously (case and the directory of a program are ignored), a pattern that allows matches
exactly. Every start of an agent loads this module, so the shell parser is imported on first use.
"""

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import UsageError
from accord.glob_pattern import PathGlob
from accord.schema.content import ToolKind

if TYPE_CHECKING:
    from accord.policy.request import ResolvedPath, SessionDirectories
    from accord.policy.shell.syntax import SimpleCommand, Word

Match = Literal["no", "maybe", "yes"]

_WILDCARD = re.compile(r"[*?\[\\]")


_path_glob = lru_cache(maxsize=512)(PathGlob)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path pattern:

    `src/**` relative to the roots, `*.md` at any depth, `/etc/**` and `~/notes` absolute.
    """

    text: str

    @property
    def is_absolute(self) -> bool:
        """Whether it is absolute. Only such a pattern can allow paths outside the roots."""
        return self.text.startswith(("/", "~"))

    @property
    def names_file(self) -> bool:
        """Whether its last part names a file. Only such a pattern can allow a secret."""
        last = self.text.rstrip("/").rpartition("/")[2]
        return re.search(r"[\w]", re.sub(r"\[[^\]]*\]", "", last)) is not None

    def matches(
        self, resolved: "ResolvedPath", directories: "SessionDirectories", *, restricts: bool
    ) -> bool:
        """Whether the path matches.

        A pattern that restricts matches the path as written and its real path.
        """
        paths = (resolved.real, resolved.path) if restricts else (resolved.real,)
        return any(self._matches(path, directories, restricts) for path in paths)

    def matches_below(self, folder: Path, directories: "SessionDirectories") -> Match:
        """Whether a matching path lies below a folder, so that a recursive operation affects it."""
        if self._matches_any_depth:
            return "maybe"
        for root in (Path("/"),) if self.is_absolute else directories.roots:
            literal_start = _WILDCARD.split(self._absolute(directories, root))[0]
            start = Path(
                literal_start
                if literal_start == self._absolute(directories, root)
                else os.path.dirname(literal_start)
            )
            if start.is_relative_to(folder):
                return "yes"
            if folder.is_relative_to(start):
                return "maybe"
        return "no"

    @property
    def _matches_any_depth(self) -> bool:
        return not self.is_absolute and "/" not in self.text.rstrip("/")

    def _absolute(self, directories: "SessionDirectories", root: Path) -> str:
        if self.text == "~" or self.text.startswith("~/"):
            return f"{directories.home}{self.text[1:]}"
        return self.text if self.text.startswith("/") else str(root / self.text.removeprefix("./"))

    def _matches(self, path: Path, directories: "SessionDirectories", ignore_case: bool) -> bool:
        if self.is_absolute:
            text, candidates = self._absolute(directories, directories.cwd), [path.as_posix()]
        else:
            text = f"**/{self.text}" if self._matches_any_depth else self.text.removeprefix("./")
            candidates = directories.relative_paths(path)
            if ignore_case and self._matches_any_depth:
                candidates.append(path.as_posix())
        glob = _path_glob(text, ignore_case=ignore_case)
        return any(glob.matches(candidate, with_content=True) for candidate in candidates)


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A command pattern:

    `npm test *`. `*` as a word matches any number of words, inside a word any characters.
    """

    words: tuple[str, ...]

    @staticmethod
    def of(text: str) -> "CommandPattern":
        """Parse a pattern."""
        return CommandPattern(tuple(text.split()))

    def allows(self, command: "SimpleCommand") -> bool:
        """Whether exactly this command matches."""
        return _matches_words(self.words, command.words, loose=False, ignore_case=False)

    def forbids(self, command: "SimpleCommand") -> Match:
        """Whether the command may match, in any directory and with options before the subcommand."""
        variants = _option_variants(command.words)
        if any(_matches_words(self.words, words, loose=False, ignore_case=True) for words in variants):
            return "yes"
        from accord.policy.programs.wrappers import COMMAND_STARTERS  # loads the shell parser

        if command.name in COMMAND_STARTERS:
            variants += [command.words[start:] for start in range(1, len(command.words))]
        return (
            "maybe"
            if any(_matches_words(self.words, words, loose=True, ignore_case=True) for words in variants)
            else "no"
        )


def _matches_words(
    pattern: tuple[str, ...], words: "tuple[Word, ...]", *, loose: bool, ignore_case: bool
) -> bool:
    """Whether the words match a pattern. If `loose`, an uncertain word matches any number of words."""
    # The positions in the pattern that can be reached before each word, so that no backtracking is needed.
    positions = _skip_stars(pattern, {0})
    for index, word in enumerate(words):
        text = word.text
        at_stars = {
            position for position in positions if position < len(pattern) and pattern[position] == "*"
        }
        if text is None:
            reached = set(range(min(positions), len(pattern) + 1)) if loose and positions else set[int]()
        else:
            reached = {
                position + 1
                for position in positions
                if position < len(pattern)
                and pattern[position] != "*"
                and _matches_word(pattern[position], text, ignore_case, index == 0)
            }
        positions = _skip_stars(pattern, at_stars | reached)
    return len(pattern) in positions


def _skip_stars(pattern: tuple[str, ...], positions: set[int]) -> set[int]:
    reached = set(positions)
    for position in positions:
        while position < len(pattern) and pattern[position] == "*":
            position += 1
            reached.add(position)
    return reached


def _matches_word(pattern: str, text: str, ignore_case: bool, is_program: bool) -> bool:
    star_pattern = pattern.replace("[", "[[]").replace("?", "[?]")  # only `*` is special here
    if not ignore_case:
        return fnmatch.fnmatchcase(text, star_pattern)
    texts = (text, text.rpartition("/")[2]) if is_program else (text,)
    return any(fnmatch.fnmatchcase(candidate.casefold(), star_pattern.casefold()) for candidate in texts)


def _option_variants(words: "tuple[Word, ...]") -> "list[tuple[Word, ...]]":
    """Return the command as it is, and without the options between the program and its subcommand."""
    variants = [words]
    if len(words) > 2 and (words[1].text or "-").startswith("-"):
        variants += [(words[0], *words[start:]) for start in range(2, min(len(words), 10))]
    return variants


def host_matches(pattern: str, host: str) -> bool:
    """Whether the host matches: `example.com` is that host, `*.example.com` its subdomains, `*` any host."""
    pattern, host = pattern.casefold().rstrip("."), host.casefold().rstrip(".")
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return pattern == host


PermissionDefault = Literal["ask", "reads", "all", "none"]
"""`ask` asks for everything, `reads` allows reading, `all` allows and `none` denies everything."""
DefaultSetting = Literal["ask", "reads", "all", "none", "allow", "deny"]
"""A `PermissionDefault`, or its synonyms: `allow` is `all` and `deny` is `none`."""

KINDS: Final[tuple[str, ...]] = get_args(ToolKind)
PERMISSION_DEFAULTS: Final[tuple[str, ...]] = get_args(PermissionDefault)
_DEFAULTS: Final[dict[str, PermissionDefault]] = {"allow": "all", "deny": "none"}
_EFFECTS: Final = ("allow", "ask", "deny")
_FIELDS: Final = ("kind", "tool", "path", "command", "host")


class BadRules(UsageError):
    """Rules that cannot be used. The message names file, key and reason."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule. All its conditions must match; of a list, one member must match."""

    kind: str | tuple[str, ...] | UnsetType = UNSET
    """The kind of the tool call in the protocol: `read`, `edit`, `execute`..."""
    tool: str | tuple[str, ...] | UnsetType = UNSET
    """The name of the tool. `*` matches any characters."""
    path: str | tuple[str, ...] | UnsetType = UNSET
    """A path pattern, relative to the session's folders. `**` matches folders too."""
    command: str | tuple[str, ...] | UnsetType = UNSET
    """The words of a command. `*` at the end matches all further words."""
    host: str | tuple[str, ...] | UnsetType = UNSET
    """The host of an address. `*.example.org` matches its subdomains."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return _as_tuple(self.kind)

    @property
    def tools(self) -> tuple[str, ...]:
        return _as_tuple(self.tool)

    @property
    def paths(self) -> tuple[PathPattern, ...]:
        return tuple(PathPattern(text) for text in _as_tuple(self.path))

    @property
    def commands(self) -> tuple[CommandPattern, ...]:
        return tuple(CommandPattern.of(text) for text in _as_tuple(self.command))

    @property
    def hosts(self) -> tuple[str, ...]:
        return _as_tuple(self.host)

    def __str__(self) -> str:
        fields = ((name, _as_tuple(getattr(self, name))) for name in _FIELDS)
        return "; ".join(f"{name} {', '.join(texts)}" for name, texts in fields if texts)


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Lists of rules.

    `deny` is checked first, then `ask`, then `allow`. `default` decides if no rule matches.
    """

    allow: tuple[Rule | str, ...] = ()
    """Calls that run without a question; a text is the kind of the call."""
    ask: tuple[Rule | str, ...] = ()
    """Calls that the user is asked about."""
    deny: tuple[Rule | str, ...] = ()
    """Calls that are refused."""
    default: DefaultSetting | None = None
    """What happens to other calls."""
    source: str = ""
    """The file they come from, for messages. Not part of the file."""

    @property
    def permission_default(self) -> PermissionDefault | None:
        """The default without synonyms."""
        return (
            None
            if self.default is None
            else _DEFAULTS.get(self.default, cast(PermissionDefault, self.default))
        )

    def rules(self, effect: Literal["allow", "ask", "deny"]) -> Iterator[tuple[str, Rule]]:
        """Yield each rule of a list with its name in messages."""
        for number, rule in enumerate(cast("tuple[Rule | str, ...]", getattr(self, effect)), 1):
            full_rule = Rule(kind=rule) if isinstance(rule, str) else rule
            yield (
                f"{effect} rule {number}{f' of {self.source}' if self.source else ''} ({full_rule})",
                full_rule,
            )


def read_permissions(value: Any, *, file: str = "", key: str = "permissions") -> Rules:
    """Return the rules of a parsed setting: one of the four words, or an object. Raises BadRules."""
    if isinstance(value, str):
        if value not in PERMISSION_DEFAULTS:
            raise _rule_error(file, key, f"{value!r} is none of {', '.join(PERMISSION_DEFAULTS)}")
        return Rules(default=cast(PermissionDefault, value), source=file)
    if not isinstance(value, dict):
        raise _rule_error(
            file, key, "it must be one of " + ", ".join(PERMISSION_DEFAULTS) + " or an object of rules"
        )
    if "source" in value:
        raise _rule_error(file, f"{key}.source", "there is no such key")
    try:
        rules = msgspec.convert(value, Rules)
    except msgspec.ValidationError as error:
        from accord.schema.validation import explain_setting_error  # imported on first use

        reason, location = explain_setting_error(error, Rules)
        raise _rule_error(file, key + location, reason) from None
    for name in _EFFECTS:
        _check_rules(cast("tuple[Rule | str, ...]", getattr(rules, name)), name, file, key)
    return msgspec.structs.replace(rules, source=file)


def _check_rules(rules: Sequence[Rule | str], effect: str, file: str, key: str) -> None:
    for number, rule in enumerate(rules):
        rule_key = f"{key}.{effect}[{number}]"
        if isinstance(rule, str):
            rule = Rule(kind=rule)
        fields = [name for name in _FIELDS if getattr(rule, name) is not UNSET]
        if not fields:
            raise _rule_error(file, rule_key, f"a rule must name one of {', '.join(_FIELDS)}")
        for name in fields:
            texts = _as_tuple(getattr(rule, name))
            if not texts:
                raise _rule_error(
                    file, f"{rule_key}.{name}", "it is empty; leave it out where it does not matter"
                )
            for text in texts:
                _check_text(name, text, effect, file, f"{rule_key}.{name}")


def _check_text(name: str, text: str, effect: str, file: str, key: str) -> None:
    if not text.strip() or text != text.strip() or any(ord(char) < 32 for char in text):
        raise _rule_error(file, key, f"{text!r} is empty, has blanks around it or has control characters")
    if name == "kind" and text not in KINDS:
        raise _rule_error(
            file, key, f"{text!r} is no kind of tool call: {', '.join(KINDS)}; a tool is named by `tool`"
        )
    unsupported_prefix = text.startswith(("!", "~")) and text.partition("/")[0] != "~"
    if name == "path" and text.count("**") > 4:
        raise _rule_error(file, key, f"{text!r} has more than four `**`")
    if name == "path" and (".." in text.split("/") or unsupported_prefix):
        raise _rule_error(file, key, f"{text!r} cannot be used: no `..`, no `!`, and `~` only as `~/...`")
    if name == "command" and effect == "allow" and "*" in text.split()[0]:
        raise _rule_error(
            file, key, f"{text!r} would allow any program: name it, or allow the kind `execute`"
        )
    if name == "command" and any(char in text for char in "|;&<>$`\n"):
        raise _rule_error(
            file,
            key,
            f"{text!r} is more than one command: a pattern is matched against each command of a line",
        )
    if name == "host" and ("/" in text or ":" in text or ("*" in text.removeprefix("*.") and text != "*")):
        raise _rule_error(file, key, f"{text!r} is no host: write `example.com`, `*.example.com` or `*`")


def _as_tuple(value: str | tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if value is UNSET or not value:
        return ()
    return (value,) if isinstance(value, str) else value


def _rule_error(file: str, key: str, reason: str) -> BadRules:
    return BadRules(f"{file + ': ' if file else ''}{key}: {reason}")
