"""Emphasis, code, links: what stands within a line of Markdown, found as the line comes.

Whatever may still become something is held back until it is decided: by its other end, by the end of the line, or by
the bound. So nothing is lost: a mark without its other end is shown as it is.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from accord.cli.output.style import BOLD, CYAN, DIM, ITALIC, STRUCK, UNDERLINE, Look

Take: TypeAlias = Callable[[str, Look], None]

FARTHEST: Final = 400
"""The other end of a mark is looked for so many characters on."""

_SPECIAL: Final = re.compile(r"[`*_~\[!\\]")
_RUN: Final = re.compile(r"(.)\1*", re.DOTALL)
_LINK: Final = re.compile(r'\[([^\[\]]*)\]\(<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"()]*")?\)')
_LINK_BEGUN: Final = re.compile(r"\[[^\[\]]*(?:\](?:\([^)]*(?:\([^)]*\)[^)]*)*)?)?\Z")
_ESCAPABLE: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_EMPHASIS: Final[dict[int, Look]] = {1: ITALIC, 2: BOLD, 3: BOLD + ITALIC}

_CODE_SPAN: Final = r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))|\\."
_CLOSERS: Final = {
    (mark, count): re.compile(
        rf"{_CODE_SPAN}|(?P<closer>(?<=[^\s{re.escape(mark)}]){re.escape(mark) * count}(?!{re.escape(mark)}"
        + (r"|\w))" if mark == "_" else "))")
    )
    for mark, count in [("*", 1), ("*", 2), ("*", 3), ("_", 1), ("_", 2), ("_", 3), ("~", 2)]
}


class _Open(Exception):
    """Not decided yet."""


class Inline:
    """One line at a time."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._held = ""
        self._before = ""
        self._look: Look = ()

    def begin(self, look: Look) -> None:
        """A line begins, in this look."""
        self._held = self._before = ""
        self._look = look

    def feed(self, text: str) -> None:
        """The next piece of the line."""
        held = self._held + text
        done = self._scan(held, self._before, self._look, final=False)
        if done:
            self._before = held[done - 1]
        self._held = held[done:]

    def end(self) -> None:
        """The line is over: what was open is no mark."""
        self._scan(self._held, self._before, self._look, final=True)
        self._held = ""

    def _scan(self, text: str, before: str, look: Look, *, final: bool) -> int:
        at = 0
        while at < len(text):
            found = _SPECIAL.search(text, at)
            if found is None:
                self._take(text[at:], look)
                return len(text)
            if found.start() > at:
                self._take(text[at : found.start()], look)
                at = found.start()
            window = text[at : at + FARTHEST]
            try:
                at += self._mark(
                    window,
                    text[at - 1] if at else before,
                    look,
                    complete=final or len(window) == FARTHEST,
                )
            except _Open:
                return at
        return at

    def _mark(self, text: str, before: str, look: Look, *, complete: bool) -> int:
        """Show what begins with this special character; how long it was."""
        mark = text[0]
        if mark == "\\":
            return self._escape(text, look, complete)
        if mark == "!":
            if len(text) == 1 and not complete:
                raise _Open
            if text[1:2] != "[":
                return self._literal(text, 1, look)
            return 1 + self._link(text[1:], look, complete, image=True)
        if mark == "[":
            return self._link(text, look, complete)
        run = _RUN.match(text)
        assert run is not None
        if run.end() == len(text) and not complete:
            raise _Open
        if mark == "`":
            return self._code(text, run.end(), look, complete)
        return self._emphasis(text, run.end(), before, look, complete)

    def _literal(self, text: str, count: int, look: Look) -> int:
        self._take(text[:count], look)
        return count

    def _escape(self, text: str, look: Look, complete: bool) -> int:
        if len(text) == 1:
            if not complete:
                raise _Open
            return self._literal(text, 1, look)
        if text[1] not in _ESCAPABLE:
            return self._literal(text, 1, look)
        self._take(text[1], look)
        return 2

    def _code(self, text: str, count: int, look: Look, complete: bool) -> int:
        ticks = text[:count]
        closer = re.compile(rf"(?<!`){ticks}(?!`)").search(text, count)
        if closer is not None and (closer.end() < len(text) or complete):
            inner = text[count : closer.start()]
            if inner[:1] == inner[-1:] == " " and inner.strip():
                inner = inner[1:-1]
            self._take(inner, look + CYAN)
            return closer.end()
        if not complete:
            raise _Open
        return self._literal(text, count, look)

    def _emphasis(self, text: str, count: int, before: str, look: Look, complete: bool) -> int:
        mark = text[0]
        closers = _CLOSERS.get((mark, count))
        # Between letters and digits a mark is more often meant than markup: 2*3*4, snake_case.
        if closers is None or text[count : count + 1].isspace() or before.isalnum() or count == len(text):
            return self._literal(text, count, look)
        behind = count
        for found in closers.finditer(text, count):
            if not complete and (found.end() == len(text) or "`" in text[behind : found.start()]):
                raise _Open  # it may go on, or stand within code that has not ended yet
            behind = found.end()
            if found["closer"] is None:
                continue
            own = STRUCK if mark == "~" else _EMPHASIS[count]
            self._scan(text[count : found.start()], mark, look + own, final=True)
            return found.end()
        if not complete:
            raise _Open
        return self._literal(text, count, look)

    def _link(self, text: str, look: Look, complete: bool, *, image: bool = False) -> int:
        found = _LINK.match(text)
        if found is None:
            if not complete and _LINK_BEGUN.match(text) is not None:
                raise _Open
            if image:
                self._take("!", look)
            return self._literal(text, 1, look)
        name, address = found[1], found[2]
        if name:
            self._scan(name, "[", look + UNDERLINE, final=True)
        # Where a link leads is always shown: its text may say anything.
        if address != name:
            self._take(f" ({address})" if name else address, look + DIM)
        return found.end()
