"""Streaming Markdown on a terminal: blocks, inline marks, line wrapping."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from accord.cli.output.terminal_screen import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    ITALIC,
    PLAIN,
    RED,
    STRUCK,
    UNDERLINE,
    Look,
    Style,
    cells,
    fitting,
    is_wide,
    joins,
)

# MERGED cli.output.inline: Emphasis, code, links: what stands within a line of Markdown, found as the line comes.
#
# Whatever may still become something is held back until it is decided: by its other end, by the end of the line, or by
# the bound. So nothing is lost: a mark without its other end is shown as it is.

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


class InlineMarkdown:
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


# MERGED cli.output.wrap: Lines broken between words, as the words come. What is out stays: the word at the end is held back until it is whole.

Emit: TypeAlias = Callable[[str, int], None]
"""Takes text for the screen, and the column where the cursor stands after it."""

_TOKENS: Final = re.compile(r" +|[^ ]+")
_NARROWEST: Final = 10
_CLOSING: Final = frozenset("。、，．！？：；）」』】》〉〕］｝”’…")
"""What no line should begin with."""


class LineWrapper:
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


# MERGED cli.output.markdown: Markdown on a terminal, line by line as it comes: headings, lists, quotes, code, tables.
#
# The kind of a line is told by its first characters, which are held back; then the line runs. Lines of code and of tables
# come whole and are not broken: the terminal does that, and copying them gives what was written.

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


class TerminalMarkdown:
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
        self._wrapper = LineWrapper(emit, width, style)
        self._inline = InlineMarkdown(self._wrapper.feed)
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
