"""`PossibleDirectories`: which files the words of a command name, from every directory the line may be in."""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from accord.policy.programs.executed_commands import ExecutedCommands
from accord.policy.request import ResolvedPath, SessionDirectories
from accord.policy.shell.syntax import UNKNOWN, SimpleCommand, Word, WordPart, literal

_MAX_FOLDERS: Final = 16
_MAX_FILES: Final = 300
_MAX_PATTERN_LENGTH: Final = 4096
HARMLESS_DEVICES: Final = frozenset(
    f"/dev/{name}"
    for name in ("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty")
)
_URL: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[=:,@;]+")


class NamedPaths(NamedTuple):
    """The paths that words may name."""

    paths: list[ResolvedPath]
    unresolved: bool
    """Whether some could not be resolved."""
    open_ended: bool
    """Whether only the directory is certain for some."""


@dataclass(frozen=True, slots=True)
class PossibleDirectories:
    """The directories that a line may have changed to when a command runs."""

    directories: SessionDirectories
    folders: tuple[Path, ...]
    """Empty if they are unknown."""

    @staticmethod
    def at(
        directories: SessionDirectories, executed: ExecutedCommands, command: SimpleCommand, index: int
    ) -> "PossibleDirectories":
        """Return the directories that the line may be in when its command number `index` runs.

        A `cd` that has certainly succeeded leaves one choice; any other may or may not have an effect. In a
        loop, later commands count as well.
        """
        possible = PossibleDirectories(directories, (directories.cwd,))
        for earlier in executed.commands if executed.loops else executed.commands[:index]:
            for target in _directory_changes(earlier):
                certain = earlier.name == "cd" and any(
                    earlier is succeeded for succeeded in command.succeeded
                )
                possible = possible._after_change(target, certain and not executed.loops)
        if command.name not in ("cd", "pushd"):
            for target in _directory_changes(command):  # such as `git -C FOLDER`
                possible = possible._after_change(target, certain=False)
        return possible

    def _after_change(self, target: Word | None, certain: bool) -> "PossibleDirectories":
        texts = self.expand(target) if target else [str(self.directories.home)]
        if texts is None or not self.folders:
            return PossibleDirectories(self.directories, ())
        paths = [self.directories.resolve(text, folder) for text in texts for folder in self.folders]
        found = [resolved.real for resolved in paths if resolved]
        folders = tuple(dict.fromkeys(found if certain else (*self.folders, *found)))
        unresolved = None in paths or len(folders) > _MAX_FOLDERS
        return PossibleDirectories(self.directories, () if unresolved else folders)

    def expand(self, word: Word) -> list[str] | None:
        """Expand `~`, $HOME and globs of a word. Returns None if the result is not certain."""
        pattern = self._pattern(word)
        if pattern is None or word.has_braces or len(pattern) > _MAX_PATTERN_LENGTH:
            return None
        if not word.has_glob:
            return [_unescape(pattern)]
        if re.search(r"(?:^|/)\.[*?\[]", pattern):
            return None  # it may match the parent directory
        found: list[str] = []
        for folder in self.folders:
            # `[...]` is read as "any character", so that more names are found than by the shell, never fewer.
            wider_pattern = re.sub(r"\[(?![*?\[]\])[^\]/]*\]", "?", pattern)
            matches = glob.iglob(wider_pattern, root_dir=folder)
            found += itertools.islice(matches, _MAX_FILES + 1)
        if len(found) > _MAX_FILES or not self.folders or any(name.startswith("-") for name in found):
            return None
        return found or [word.unquoted or pattern]

    def _pattern(self, word: Word) -> str | None:
        pattern = ""
        for number, part in enumerate(word.parts):
            if part.kind == "text":
                text = part.text
                if number == 0 and not part.quoted and text.startswith("~"):
                    if text.partition("/")[0] != "~" or (text == "~" and len(word.parts) > 1):
                        return None
                    pattern, text = glob.escape(str(self.directories.home)), text[1:]
                pattern += glob.escape(text) if part.quoted else text
                continue
            value = self._variable_value(part)
            if value is None or (not part.quoted and re.search(r"[\s*?\[]", value)):
                return None
            pattern += glob.escape(value)
        return pattern

    def _variable_value(self, part: WordPart) -> str | None:
        """Return the value of a known variable."""
        if part.kind == "variable" and part.text == "HOME":
            return str(self.directories.home)
        if part.kind == "variable" and part.text == "PWD" and len(self.folders) == 1:
            return str(self.folders[0])
        return None

    def with_literal_options(self, command: SimpleCommand) -> SimpleCommand:
        """Return the command with words such as `--include=*.py` made literal, if no file has such a name."""
        words: list[Word] = []
        for word in command.words:
            unquoted = word.unquoted
            if unquoted and unquoted.startswith("-") and word.has_glob and self.expand(word) == [unquoted]:
                word = literal(unquoted)
            words.append(word)
        return replace(command, words=tuple(words))

    def resolve(self, texts: Iterable[str]) -> list[ResolvedPath] | None:
        """Resolve paths from every directory. Returns None if one cannot be resolved."""
        found: list[ResolvedPath] = []
        for text in texts:
            if text in HARMLESS_DEVICES or text == "-" or text.startswith("/dev/fd/"):
                continue
            if not self.folders and not os.path.isabs(text):
                return None
            for folder in self.folders or (self.directories.cwd,):
                resolved = self.directories.resolve(text, folder)
                if resolved is None:
                    return None
                found.append(resolved)
        return list(dict.fromkeys(found))

    def resolve_files(self, words: Iterable[Word]) -> list[ResolvedPath] | None:
        """Resolve words that are certainly files. Returns None if one cannot be resolved."""
        texts: list[str] = []
        for word in words:
            expanded = self.expand(word)
            if expanded is None:
                return None
            texts += expanded
        return self.resolve(texts)

    def named_paths(self, words: Iterable[Word]) -> "NamedPaths":
        """Return every path that words may name in any way: `of=x`, `-Ix`, `a:b`, the start of `x/$NAME`."""
        texts: list[str] = []
        open_ended = False
        for word in words:
            expanded = self.expand(word)
            texts += (
                itertools.chain.from_iterable(_possible_paths(text) for text in expanded if text)
                if expanded
                else ()
            )
            if expanded is None and (start := self._known_start(word)):
                open_ended = True
                texts.append(start)
        found: list[ResolvedPath] = []
        unresolved = False
        for text in dict.fromkeys(texts):
            resolved = self.resolve([text])
            if resolved is None:
                unresolved = unresolved or "/" in text
            else:
                found += resolved
        return NamedPaths(list(dict.fromkeys(found)), unresolved, open_ended)

    def _known_start(self, word: Word) -> str:
        """Return the certain start of a path whose end is not certain."""
        text = ""
        for number, part in enumerate(word.parts):
            if part.kind == "text":
                text += (
                    str(self.directories.home) + part.text[1:]
                    if number == 0 and word.has_tilde
                    else part.text
                )
            elif (value := self._variable_value(part)) is not None:
                text += value
            else:
                break
        return text.rpartition("/")[0] + "/" if "/" in text else ""


def _unescape(pattern: str) -> str:
    """Return the name that a pattern without wildcards stands for."""
    return re.sub(r"\[([*?\[])\]", r"\1", pattern)


def _directory_changes(command: SimpleCommand) -> Iterator[Word | None]:
    """Yield the directories that a command changes to, for itself or for later commands.

    None is the home folder.
    """
    words = command.arguments
    if command.name in ("cd", "pushd"):
        targets = [word for word in words if word.text not in ("-L", "-P", "-e", "--")]
        unknown_target = any((word.text or "").startswith(("-", "+")) for word in targets)
        yield UNKNOWN if unknown_target else targets[0] if targets else None
    elif command.name in ("git", "make", "gmake", "tar", "env", "pnpm", "ninja"):
        for option, value in itertools.pairwise(words):
            if option.text in ("-C", "--directory", "--chdir"):
                yield value


def _possible_paths(text: str) -> Iterator[str]:
    """Yield what may be a path in an argument: all of it, the part after `=` or `:`, an option's value."""
    if _URL.match(text):
        return
    yield text
    for part in _SEPARATORS.split(text):
        if part and part != text:
            yield part
    if text.startswith("-"):
        slash = min(
            (position for position in (text.find("/"), text.find("~"), text.find("..")) if position > 0),
            default=-1,
        )
        if slash > 0:
            yield text[slash:]
        if len(text) > 2 and text[1] != "-":
            yield text[2:]
