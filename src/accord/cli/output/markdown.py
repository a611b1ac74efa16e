"""Markdown on a terminal, line by line as it comes: headings, lists, quotes, code, tables.

The kind of a line is told by its first characters, which are held back; then the line runs. Lines of code and of tables
come whole and are not broken: the terminal does that, and copying them gives what was written.
"""

import re
from collections.abc import Callable
from typing import Final

from accord.cli.output.inline import Inline
from accord.cli.output.style import BOLD, CYAN, DIM, GREEN, PLAIN, RED, UNDERLINE, Look, Style
from accord.cli.output.wrap import Emit, Wrapper

_ENOUGH: Final = 24
"""So many characters tell what kind of line it is; of most, the first does."""
_DEEPEST: Final = 200
"""A line that is indented more than this comes whole."""
_TELLING: Final = frozenset("#`~|>-*_+0123456789")
"""What a line that is not just text begins with."""

_FENCE: Final = re.compile(r"(`{3,}|~{3,})")
_RULE: Final = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*\Z")
_MAYBE_RULE: Final = re.compile(r"[-*_ \t]+\Z")
_TABLE_EDGE: Final = re.compile(r"\|?[-:| \t]+\Z")
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+")
_QUOTE: Final = re.compile(r">[ \t]?")
_ITEM: Final = re.compile(r"([-*+]|\d{1,9}[.)])[ \t]+(\[[ xX]\][ \t]+)?")
_DIFF_LOOKS: Final[dict[str, Look]] = {"+": GREEN, "-": RED, "@": CYAN}
_RULE_CELLS: Final = 40


class Markdown:
    """One text, from beginning to end."""

    def __init__(
        self, emit: Emit, width: Callable[[], int | None], style: Style, *, look: Look = PLAIN, mark: str = ""
    ) -> None:
        """`look` is that of the whole text, `mark` stands before each line of it. Without colour the marks of Markdown
        stay, since nothing else would tell.
        """
        self._emit = emit
        self._width = width
        self._style = style
        self._look = look
        self._mark = mark
        self._wrapper = Wrapper(emit, width, style)
        self._inline = Inline(self._wrapper.feed)
        self._parts: list[str] = []
        self._whole = False  # the line is shown when all of it is there
        self._running = False  # its kind is known and it is being shown
        self._fence = ""
        self._language = ""
        self._blank = False  # an empty line is owed before the next one
        self._begun = False

    def feed(self, text: str) -> None:
        """The next piece."""
        at = 0
        while at < len(text):
            end = text.find("\n", at)
            piece = text[at:] if end < 0 else text[at:end]
            if piece:
                self._piece(piece)
            if end < 0:
                return
            self._end_line()
            at = end + 1

    def settle(self) -> None:
        """Nothing more comes for a while: what is held back only for its place on the line is shown."""
        if self._running:
            self._wrapper.settle()

    def rest(self) -> None:
        """Somebody else writes before the next piece: a line that has begun is ended, what is held back stays so."""
        if self._running:
            self._end_line()

    def end(self) -> None:
        """The text is over."""
        if self._running or self._parts:
            self._end_line()

    def _piece(self, piece: str) -> None:
        if self._running:
            self._inline_feed(piece)
            return
        self._parts.append(piece)
        if self._whole or self._fence:
            return
        line = "".join(self._parts)
        self._parts = [line]
        text = line.lstrip(" \t")
        if len(line) - len(text) >= _DEEPEST:
            self._whole = True
        elif len(text) >= _ENOUGH or (text and text[0] not in _TELLING):
            self._classify(line, final=False)

    def _end_line(self) -> None:
        if not self._running:
            line = "".join(self._parts)
            self._parts = []
            if self._fence or self._whole:
                self._whole_line(line)
                return
            self._classify(line, final=True)
        if self._running:
            self._running = False
            self._inline_end()
        self._parts = []

    # -- what a line is -----------------------------------------------------------------------------------------

    def _classify(self, line: str, *, final: bool) -> None:
        """Decide by the first characters, never by those behind them: they may not be there yet."""
        text = line.lstrip(" \t")
        head = text[:_ENOUGH]
        if _FENCE.match(head) or head.startswith("|") or _MAYBE_RULE.match(head):
            if final:
                self._whole_line(line)
            else:
                self._whole = True
            return
        if not head:
            self._blank = self._begun
            return
        self._running = True
        self._run(text, len(line) - len(text), head)

    def _run(self, text: str, indent: int, head: str) -> None:
        self._separate()
        look, first, hang = self._look, self._mark + " " * indent, self._mark + " " * indent
        at = 0
        if not self._style.colour:
            item = _ITEM.match(head)
            self._wrapper.begin(first, hang + " " * (item.end() if item else 0))
            self._inline.begin(look)
            self._inline_feed(text)
            return
        signs = self._style.signs
        while quote := _QUOTE.match(head, at):
            first, hang, at = f"{first}{signs.bar} ", f"{hang}{signs.bar} ", quote.end()
            look = look + DIM if DIM[0] not in look else look
        if heading := _HEADING.match(head, at):
            at = heading.end()
            look = look + BOLD + (UNDERLINE if len(heading[1]) == 1 else PLAIN)
        elif item := _ITEM.match(head, at):
            at = item.end()
            sign = item[1] if item[1][0].isdigit() else signs.bullet
            if item[2]:
                sign = signs.unticked if item[2][1] == " " else signs.ticked
            first, hang = f"{first}{sign} ", hang + " " * (len(sign) + 1)
        self._wrapper.begin(first, hang, painted=DIM)
        self._inline.begin(look)
        self._inline_feed(text[at:])

    def _separate(self) -> None:
        if self._blank:
            self._emit(f"{self._mark.rstrip()}\n", 0)
        self._blank = False
        self._begun = True

    # -- lines that come whole ----------------------------------------------------------------------------------

    def _whole_line(self, line: str) -> None:
        self._whole = False
        text = line.lstrip(" \t")
        if self._fence:
            self._code(line, text)
            return
        if not text.strip():
            self._blank = self._begun
            return
        self._separate()
        fence = _FENCE.match(text)
        if fence is not None and ("`" not in text[fence.end() :] or fence[1][0] == "~"):
            self._fence = fence[1]
            self._language = text[fence.end() :].strip().lower()
            self._line(line, self._look + DIM)
        elif self._style.colour and _RULE.match(text):
            self._line(self._style.signs.rule * min(self._width() or _RULE_CELLS, _RULE_CELLS), DIM)
        elif text.startswith("|"):
            self._line(line, self._look + DIM if _TABLE_EDGE.match(text) else self._look)
        else:
            self._running = True
            self._run(text, len(line) - len(text), text[:_ENOUGH])
            self._running = False
            self._inline_end()

    def _code(self, line: str, text: str) -> None:
        closing = text.rstrip()
        if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
            self._fence = ""
            self._line(line, self._look + DIM)
            return
        look = _DIFF_LOOKS.get(line[:1], PLAIN) if self._language in ("diff", "patch") else PLAIN
        self._line(line, self._look + look)

    def _line(self, line: str, look: Look) -> None:
        self._emit(self._mark + self._style.paint(line, look) + "\n", 0)

    # -- lines that run -----------------------------------------------------------------------------------------

    def _inline_feed(self, text: str) -> None:
        if self._style.colour:
            self._inline.feed(text)
        else:
            self._wrapper.feed(text, PLAIN)

    def _inline_end(self) -> None:
        if self._style.colour:
            self._inline.end()
        self._wrapper.end()
