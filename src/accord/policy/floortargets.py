"""The paths that a destructive command means, as far as anybody can tell before it runs.

Unlike for permissions, a guess is welcome here: variables set in the same line are filled in, unset ones count as empty,
braces and patterns are opened, and `folder/*` counts as the folder.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .bounds import Bounds
from .naming import Standing
from .programs.runs import Runs
from .shell.words import Command, Part, Word

_MOST: Final = 64
_EVERYTHING: Final = re.compile(r"(?:\.?\*+|\.\?\?\*|\.\[!?\^?\.\]\*|\.\[\^.\]\*)")
_HERE: Final = re.compile(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_GUARDED: Final = re.compile(r"\$\{\w+:?[?]|\$\{\w+:?-[^}]")
_BRACE: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Target:
    """One path that is meant."""

    path: Path
    """With `..` folded and links on the way followed, but not a link at its end, unless that is followed, too."""
    real: Path
    uncertain: str = ""
    """The expansion that was taken to be empty."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Finds the targets of one command of a line."""

    bounds: Bounds
    runs: Runs
    command: Command
    after: int

    def of(self, words: Iterable[Word]) -> Iterator[Target]:
        """What these words may mean."""
        for word in words:
            for text, uncertain in self._texts(word):
                yield from self._at(text, uncertain)

    def here(self) -> Iterator[Target]:
        """The folders that the command may stand in."""
        for folder in self._folders():
            yield Target(folder, folder)

    def _folders(self) -> tuple[Path, ...]:
        standing = Standing.at(self.bounds, self.runs, self.command, self.after)
        return standing.folders or (self.bounds.cwd,)

    def _at(self, text: str, uncertain: str) -> Iterator[Target]:
        text = text.removeprefix("of=")
        if not text:
            return
        for folder in self._folders():
            whole = os.path.join(folder, text)
            head, tail = os.path.split(whole.rstrip("/"))
            everything = _EVERYTHING.fullmatch(tail) is not None
            follows = everything or whole.endswith("/") or tail in (".", "..")
            try:
                real = Path(os.path.realpath(head if everything else whole))
                kept = real if follows else Path(os.path.realpath(head)) / tail
            except (OSError, ValueError):
                continue
            named = Path(os.path.normpath(head if everything else whole))
            yield Target(kept, real, uncertain)
            if named != kept:
                yield Target(named, real, uncertain)

    def _texts(self, word: Word) -> Iterator[tuple[str, str]]:
        choices = [list(self._values(part, number == 0)) for number, part in enumerate(word.parts)]
        for chosen in itertools.islice(itertools.product(*choices), _MOST):
            text = "".join(value for value, _ in chosen)
            uncertain = next((unset for _, unset in chosen if unset), "")
            if uncertain and not text.startswith("/"):
                uncertain = ""
            for one in itertools.islice(_braces(text), _MOST) if word.braces else (text,):
                yield one, uncertain
                if word.globs:
                    for folder in self._folders():
                        matches = itertools.islice(glob.iglob(one, root_dir=folder), _MOST)
                        yield from ((os.path.join(folder, match), uncertain) for match in matches)

    def _values(self, part: Part, first: bool) -> Iterator[tuple[str, str]]:
        if part.kind == "text":
            tilde = first and not part.quoted and part.text.startswith("~")
            home = (
                {"~": self.bounds.home, "~root": Path("/root")}.get(part.text.partition("/")[0])
                if tilde
                else None
            )
            yield (f"{home}{part.text[len(part.text.partition('/')[0]) :]}" if home else part.text), ""
        elif part.kind == "variable":
            yield from self._variable(part.text)
        elif _HERE.fullmatch(part.text):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            yield ("x", "") if _GUARDED.match(part.text) else ("", part.text or "something")

    def _variable(self, name: str) -> Iterator[tuple[str, str]]:
        if name == "HOME":
            yield str(self.bounds.home), ""
        elif name in ("PWD", "OLDPWD"):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            values = [value for value in _assigned(self.runs, name) if value is not None]
            yield from ((value, "") for value in values)
            if not values:
                yield "", f"${name}"


def _assigned(runs: Runs, name: str) -> Iterator[str | None]:
    for command in itertools.chain(runs.commands, runs.settings):
        for assignment in command.assignments:
            if assignment.name == name:
                # `export A=x` keeps the whole word.
                spelled = (word.spelled for word in assignment.values)
                yield from (text and text.removeprefix(f"{name}=") for text in spelled)


def _braces(text: str) -> Iterator[str]:
    found = _BRACE.search(text)
    if found is None:
        yield text
        return
    for choice in found[1].split(","):
        yield from _braces(f"{text[: found.start()]}{choice}{text[found.end() :]}")
