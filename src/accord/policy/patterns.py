"""The patterns of rules: paths, commands, hosts.

A pattern that forbids is read generously, one that allows strictly: case is ignored, the folder of a program is ignored and
what is not certain yet counts only where that tightens.
"""

import fnmatch
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from .bounds import Bounds, Place
from .programs.wrappers import STARTERS
from .shell.words import Command, Word

Match = Literal["no", "maybe", "yes"]

_WILD = re.compile(r"[*?\[\\]")


@lru_cache(maxsize=512)
def _glob(pattern: str, fold: bool) -> re.Pattern[str]:
    """A path pattern as in .gitignore, without its `!`. What matches a folder matches everything in it."""
    out, rest = "", pattern.rstrip("/")
    while rest:
        if rest.startswith("**/"):
            out, rest = out + "(?:.*/)?", rest[3:]
        elif rest == "/**":
            out, rest = out + "/.+", ""
        elif rest.startswith("**"):
            out, rest = out + ".*", rest[2:]
        elif rest[0] in "*?":
            out, rest = out + ("[^/]*" if rest[0] == "*" else "[^/]"), rest[1:]
        elif closed := re.match(r"\[([!^]?)(\]?[^\]/\\]*)\]", rest):
            body = closed[2].replace("[", r"\[").replace("]", r"\]").replace("^", r"\^").replace("&", r"\&")
            out, rest = out + f"(?!/)[{'^' if closed[1] else ''}{body}]", rest[closed.end() :]
        else:
            literal = rest[1:2] or rest if rest[0] == "\\" else rest[0]
            out, rest = out + re.escape(literal), rest[len(literal) + (rest[0] == "\\" and len(rest) > 1) :]
    return re.compile(f"{out}(?:/.*)?", re.DOTALL | (re.IGNORECASE if fold else 0))


@dataclass(frozen=True, slots=True)
class PathPattern:
    """`src/**` from the roots, `*.md` at any depth, `/etc/**` and `~/notes` as they are."""

    text: str

    @property
    def leads_outside(self) -> bool:
        """Whether it says in so many words where, so that it may speak of places outside the roots."""
        return self.text.startswith(("/", "~"))

    @property
    def names_it(self) -> bool:
        """Whether its last part says which file is meant, so that it may speak of a secret."""
        last = self.text.rstrip("/").rpartition("/")[2]
        return re.search(r"[\w]", re.sub(r"\[[^\]]*\]", "", last)) is not None

    def matches(self, place: Place, bounds: Bounds, *, tightens: bool) -> bool:
        """Whether this place is meant. A pattern that tightens is met by the name as by what it leads to."""
        paths = (place.real, place.named) if tightens else (place.real,)
        return any(self._matches(path, bounds, tightens) for path in paths)

    def below(self, folder: Path, bounds: Bounds) -> Match:
        """Whether something that is meant lies below a folder: whoever takes the whole folder takes it, too."""
        if self._anywhere:
            return "maybe"
        for root in (Path("/"),) if self.leads_outside else bounds.roots:
            fixed = _WILD.split(self._absolute(bounds, root))[0]
            start = Path(fixed if fixed == self._absolute(bounds, root) else os.path.dirname(fixed))
            if start.is_relative_to(folder):
                return "yes"
            if folder.is_relative_to(start):
                return "maybe"
        return "no"

    @property
    def _anywhere(self) -> bool:
        return not self.leads_outside and "/" not in self.text.rstrip("/")

    def _absolute(self, bounds: Bounds, root: Path) -> str:
        if self.text == "~" or self.text.startswith("~/"):
            return f"{bounds.home}{self.text[1:]}"
        return self.text if self.text.startswith("/") else str(root / self.text.removeprefix("./"))

    def _matches(self, path: Path, bounds: Bounds, fold: bool) -> bool:
        if self.leads_outside:
            return _glob(self._absolute(bounds, bounds.cwd), fold).fullmatch(path.as_posix()) is not None
        glob = _glob(f"**/{self.text}" if self._anywhere else self.text.removeprefix("./"), fold)
        candidates = bounds.relative(path)
        if fold and self._anywhere:
            candidates = [*candidates, path.as_posix().lstrip("/")]
        return any(glob.fullmatch(candidate) for candidate in candidates)


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """`npm test *`: a program and its arguments. `*` alone is any number of words, inside a word any letters."""

    words: tuple[str, ...]

    @staticmethod
    def of(text: str) -> "CommandPattern":
        """Read a pattern."""
        return CommandPattern(tuple(text.split()))

    def allows(self, command: Command) -> bool:
        """Whether this very command is meant, beyond doubt."""
        return _sequence(self.words, command.words, loose=False, fold=False)

    def forbids(self, command: Command) -> Match:
        """Whether it is meant, or may turn out to be: wherever its program lies, whatever options stand before."""
        readings = _readings(command.words)
        if any(_sequence(self.words, words, loose=False, fold=True) for words in readings):
            return "yes"
        if command.name in STARTERS:
            readings += [command.words[start:] for start in range(1, len(command.words))]
        return (
            "maybe"
            if any(_sequence(self.words, words, loose=True, fold=True) for words in readings)
            else "no"
        )


def _sequence(pattern: tuple[str, ...], words: tuple[Word, ...], *, loose: bool, fold: bool) -> bool:
    """Whether words fit a pattern. Where `loose`, a word that is not certain yet fits any number of words."""
    # The places in the pattern that may be reached before each word: as with any wildcard match, without going back.
    places = _past_stars(pattern, {0})
    for number, word in enumerate(words):
        text = word.text
        stay = {place for place in places if place < len(pattern) and pattern[place] == "*"}
        if text is None:
            reached = set(range(min(places), len(pattern) + 1)) if loose and places else set[int]()
        else:
            reached = {
                place + 1
                for place in places
                if place < len(pattern)
                and pattern[place] != "*"
                and _fits(pattern[place], text, fold, number == 0)
            }
        places = _past_stars(pattern, stay | reached)
    return len(pattern) in places


def _past_stars(pattern: tuple[str, ...], places: set[int]) -> set[int]:
    found = set(places)
    for place in places:
        while place < len(pattern) and pattern[place] == "*":
            place += 1
            found.add(place)
    return found


def _fits(pattern: str, text: str, fold: bool, program: bool) -> bool:
    stars = pattern.replace("[", "[[]").replace("?", "[?]")  # only `*` is special here
    if not fold:
        return fnmatch.fnmatchcase(text, stars)
    texts = (text, text.rpartition("/")[2]) if program else (text,)
    return any(fnmatch.fnmatchcase(one.casefold(), stars.casefold()) for one in texts)


def _readings(words: tuple[Word, ...]) -> list[tuple[Word, ...]]:
    """The command as it is, and without the options between a program and its subcommand, as far as they may go."""
    found = [words]
    if len(words) > 2 and (words[1].text or "-").startswith("-"):
        found += [(words[0], *words[start:]) for start in range(2, min(len(words), 10))]
    return found


def host_matches(pattern: str, host: str) -> bool:
    """`example.com` is that host, `*.example.com` whatever lies below it, `*` any."""
    pattern, host = pattern.casefold().rstrip("."), host.casefold().rstrip(".")
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return pattern == host
