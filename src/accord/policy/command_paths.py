"""Which files the words of a command name, seen from every folder that the line may be in by then."""

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

_MOST_FOLDERS: Final = 16
_MOST_FILES: Final = 300
_LONGEST: Final = 4096
HARMLESS_DEVICES: Final = frozenset(
    f"/dev/{name}"
    for name in ("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty")
)
_ADDRESS: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[=:,@;]+")


class NamedPaths(NamedTuple):
    """The places that words may name."""

    places: list[ResolvedPath]
    lost: bool
    """Whether some could not be told."""
    open_ended: bool
    """Whether of some only the folder is certain."""


@dataclass(frozen=True, slots=True)
class PossibleDirectories:
    """Where a line may stand while it runs: every folder it may have changed to."""

    bounds: SessionDirectories
    folders: tuple[Path, ...]
    """Empty when nobody can tell."""

    @staticmethod
    def at(
        bounds: SessionDirectories, runs: ExecutedCommands, command: SimpleCommand, after: int
    ) -> "PossibleDirectories":
        """Where the line may stand when this command runs, behind so many others.

        A change of folder that must have succeeded leaves no choice; any other may or may not count. In a loop those behind
        count as well.
        """
        here = PossibleDirectories(bounds, (bounds.cwd,))
        for earlier in runs.commands if runs.loops else runs.commands[:after]:
            for target in _changes(earlier):
                surely = earlier.name == "cd" and any(earlier is given for given in command.given)
                here = here._moved(target, surely and not runs.loops)
        if command.name not in ("cd", "pushd"):
            for target in _changes(command):  # `git -C FOLDER`: for itself
                here = here._moved(target, surely=False)
        return here

    def _moved(self, target: Word | None, surely: bool) -> "PossibleDirectories":
        texts = self.texts(target) if target else [str(self.bounds.home)]
        if texts is None or not self.folders:
            return PossibleDirectories(self.bounds, ())
        places = [self.bounds.place(text, folder) for text in texts for folder in self.folders]
        found = [place.real for place in places if place]
        folders = tuple(dict.fromkeys(found if surely else (*self.folders, *found)))
        lost = None in places or len(folders) > _MOST_FOLDERS
        return PossibleDirectories(self.bounds, () if lost else folders)

    def texts(self, word: Word) -> list[str] | None:
        """What a word stands for, `~`, $HOME and patterns replaced; None where that is not certain."""
        pattern = self._pattern(word)
        if pattern is None or word.braces or len(pattern) > _LONGEST:
            return None
        if not word.globs:
            return [_unescaped(pattern)]
        if re.search(r"(?:^|/)\.[*?\[]", pattern):
            return None  # it may name the folder above
        found: list[str] = []
        for folder in self.folders:
            # A class of characters is read as "any character": more names than the shell would find, never fewer.
            wider = re.sub(r"\[(?![*?\[]\])[^\]/]*\]", "?", pattern)
            matches = glob.iglob(wider, root_dir=folder)
            found += itertools.islice(matches, _MOST_FILES + 1)
        if len(found) > _MOST_FILES or not self.folders or any(name.startswith("-") for name in found):
            return None
        return found or [word.spelled or pattern]

    def _pattern(self, word: Word) -> str | None:
        pattern = ""
        for number, part in enumerate(word.parts):
            if part.kind == "text":
                text = part.text
                if number == 0 and not part.quoted and text.startswith("~"):
                    if text.partition("/")[0] != "~" or (text == "~" and len(word.parts) > 1):
                        return None
                    pattern, text = glob.escape(str(self.bounds.home)), text[1:]
                pattern += glob.escape(text) if part.quoted else text
                continue
            value = self._value(part)
            if value is None or (not part.quoted and re.search(r"[\s*?\[]", value)):
                return None
            pattern += glob.escape(value)
        return pattern

    def _value(self, part: WordPart) -> str | None:
        """The value of the few variables that are known."""
        if part.kind == "variable" and part.text == "HOME":
            return str(self.bounds.home)
        if part.kind == "variable" and part.text == "PWD" and len(self.folders) == 1:
            return str(self.folders[0])
        return None

    def settled(self, command: SimpleCommand) -> SimpleCommand:
        """The command with words such as `--include=*.py` taken literally where no file has such a name."""
        words: list[Word] = []
        for word in command.words:
            spelled = word.spelled
            if spelled and spelled.startswith("-") and word.globs and self.texts(word) == [spelled]:
                word = literal(spelled)
            words.append(word)
        return replace(command, words=tuple(words))

    def places(self, texts: Iterable[str]) -> list[ResolvedPath] | None:
        """Where these paths lead, from every folder; None if one leads nowhere that can be told."""
        found: list[ResolvedPath] = []
        for text in texts:
            if text in HARMLESS_DEVICES or text == "-" or text.startswith("/dev/fd/"):
                continue
            if not self.folders and not os.path.isabs(text):
                return None
            for folder in self.folders or (self.bounds.cwd,):
                place = self.bounds.place(text, folder)
                if place is None:
                    return None
                found.append(place)
        return list(dict.fromkeys(found))

    def files(self, words: Iterable[Word]) -> list[ResolvedPath] | None:
        """Where words lead that are known to be files; None if one cannot be told."""
        texts: list[str] = []
        for word in words:
            some = self.texts(word)
            if some is None:
                return None
            texts += some
        return self.places(texts)

    def mentioned(self, words: Iterable[Word]) -> "NamedPaths":
        """Every place that words may name in any way: `of=x`, `-Ix`, `a:b`, the beginning of `x/$NAME`."""
        texts: list[str] = []
        open_ended = False
        for word in words:
            some = self.texts(word)
            texts += itertools.chain.from_iterable(_pieces(text) for text in some if text) if some else ()
            if some is None and (start := self._start(word)):
                open_ended = True
                texts.append(start)
        found: list[ResolvedPath] = []
        lost = False
        for text in dict.fromkeys(texts):
            some_places = self.places([text])
            if some_places is None:
                lost = lost or "/" in text
            else:
                found += some_places
        return NamedPaths(list(dict.fromkeys(found)), lost, open_ended)

    def _start(self, word: Word) -> str:
        """The certain beginning of a path whose end is not certain."""
        text = ""
        for number, part in enumerate(word.parts):
            if part.kind == "text":
                text += str(self.bounds.home) + part.text[1:] if number == 0 and word.tilde else part.text
            elif (value := self._value(part)) is not None:
                text += value
            else:
                break
        return text.rpartition("/")[0] + "/" if "/" in text else ""


def _unescaped(pattern: str) -> str:
    """The name that a pattern without wildcards stands for."""
    return re.sub(r"\[([*?\[])\]", r"\1", pattern)


def _changes(command: SimpleCommand) -> Iterator[Word | None]:
    """The folders that a command changes to, for itself or for what follows; None stands for home."""
    words = command.arguments
    if command.name in ("cd", "pushd"):
        targets = [word for word in words if word.text not in ("-L", "-P", "-e", "--")]
        back = any((word.text or "").startswith(("-", "+")) for word in targets)
        yield UNKNOWN if back else targets[0] if targets else None
    elif command.name in ("git", "make", "gmake", "tar", "env", "pnpm", "ninja"):
        for option, value in itertools.pairwise(words):
            if option.text in ("-C", "--directory", "--chdir"):
                yield value


def _pieces(text: str) -> Iterator[str]:
    """What in an argument may be a path: all of it, what follows `=` or `:`, what is glued to an option."""
    if _ADDRESS.match(text):
        return
    yield text
    for piece in _SEPARATORS.split(text):
        if piece and piece != text:
            yield piece
    if text.startswith("-"):
        slash = min((at for at in (text.find("/"), text.find("~"), text.find("..")) if at > 0), default=-1)
        if slash > 0:
            yield text[slash:]
        elif len(text) > 2 and text[1] != "-":
            yield text[2:]
