"""Lines broken between words, as the words come. What is out stays: the word at the end is held back until it is whole."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from accord.cli.output.style import PLAIN, Look, Style
from accord.cli.output.width import cells, fitting, is_wide, joins

Emit: TypeAlias = Callable[[str, int], None]
"""Takes text for the screen, and the column where the cursor stands after it."""

_TOKENS: Final = re.compile(r" +|[^ ]+")
_NARROWEST: Final = 10
_CLOSING: Final = frozenset("。、，．！？：；）」』】》〉〕］｝”’…")
"""What no line should begin with."""


class Wrapper:
    """Puts the pieces of one source line after the other onto lines of the screen."""

    def __init__(self, emit: Emit, width: Callable[[], int | None], style: Style) -> None:
        self._emit = emit
        self._width = width
        self._style = style
        self._limit: int | None = None
        self._column = 0
        self._hang = ""
        self._hang_cells = 0
        self._begun = False
        self._space: tuple[int, Look] = (0, PLAIN)
        self._word: list[tuple[str, Look]] = []
        self._word_cells = 0
        self._after_wide = False

    def begin(self, first: str = "", hang: str = "", *, painted: Look = PLAIN) -> None:
        """A source line begins: what stands before its first line, and before those it is broken into."""
        self._limit = self._width()
        paint = self._style.paint
        self._hang = paint(hang, painted) if hang.strip() else hang
        self._hang_cells = cells(hang)
        if self._limit is not None and self._limit - self._hang_cells < _NARROWEST:
            self._hang, self._hang_cells, first = "", 0, ""
        self._begun = self._after_wide = False
        self._column = 0
        if first:
            self._column = cells(first)
            self._emit(paint(first, painted) if first.strip() else first, self._column)

    def feed(self, text: str, look: Look) -> None:
        """The next piece; it may end anywhere, within a word as well."""
        if self._limit is None:
            self._put(text, look)
            return
        for found in _TOKENS.finditer(text.replace("\t", "    ") if "\t" in text else text):
            token = found[0]
            if token[0] == " ":
                self._flush()
                self._after_wide = False
                self._space = (self._space[0] + len(token), look)
            elif token.isascii():
                if self._after_wide:
                    self._flush()
                    self._after_wide = False
                self._add(token, look)
            else:
                self._add_wide(token, look)

    def settle(self) -> None:
        """Nothing more comes for a while: show the word at the end, whole or not."""
        self._flush()

    def end(self) -> None:
        """The source line is over."""
        self._flush()
        self._space = (0, PLAIN)
        self._emit("\n", 0)
        self._column = 0

    def _add_wide(self, token: str, look: Look) -> None:
        """On either side of a wide character a line may be broken; what takes no cell belongs to what is before it."""
        begun = 0
        for at, char in enumerate(token):
            wide = is_wide(char)
            if char in _CLOSING or (not wide and (not self._after_wide or joins(char))):
                continue
            if at > begun:
                self._add(token[begun:at], look)
            self._flush()
            begun, self._after_wide = at, wide
        self._add(token[begun:], look)

    def _add(self, text: str, look: Look) -> None:
        self._word.append((text, look))
        self._word_cells += cells(text)
        assert self._limit is not None
        room = self._limit - self._hang_cells
        while self._word_cells > room:  # no line can hold it
            if self._begun:
                self._break()
            self._space = (0, PLAIN)
            self._part(self._limit - self._column)

    def _part(self, room: int) -> None:
        """Put out so much of the word as fits, and break the line behind it."""
        while self._word and room > 0:
            text, look = self._word[0]
            count = fitting(text, room)
            if count == 0:
                break
            self._put(text[:count], look)
            used = cells(text[:count])
            room -= used
            self._word_cells -= used
            if count < len(text):
                self._word[0] = (text[count:], look)
                break
            del self._word[0]
        self._break()

    def _flush(self) -> None:
        if not self._word:
            return
        assert self._limit is not None
        count, look = self._space
        if not self._begun:
            self._put(" " * min(count, max(self._limit - self._column - self._word_cells, 0)), look)
        elif self._column + count + self._word_cells > self._limit:
            self._break()
        else:
            self._put(" " * count, look)
        for text, own in self._word:
            self._put(text, own)
        self._word, self._word_cells, self._space = [], 0, (0, PLAIN)

    def _break(self) -> None:
        self._emit("\n", 0)
        self._column = self._hang_cells
        self._begun = False
        if self._hang:
            self._emit(self._hang, self._column)

    def _put(self, text: str, look: Look) -> None:
        if text:
            self._begun = True
            self._column += cells(text)
            self._emit(self._style.paint(text, look), self._column)
