"""Streaming Markdown on a terminal: blocks, inline markup, line wrapping.

`TerminalMarkdown` decides the kind of a line by its first characters, which are held back until then. Lines
of code and tables are written when they are complete and are not wrapped, so that copying them gives the
original text.

`InlineMarkdown` holds back markup that may still be open until its closing mark, the end of the line or the
limit. A mark without a closing mark is shown as text, so nothing is lost.

`LineWrapper` breaks lines between words. It holds back the last word until it is complete; text that is
written stays.
"""

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
    Attributes,
    Style,
)
from accord.text_width import cell_width, fitting_length, is_combining, is_wide

WriteText: TypeAlias = Callable[[str, Attributes], None]
"""Takes a text and its attributes."""

MAX_MARKUP_LENGTH: Final = 400
"""How far ahead a closing mark is searched, in characters."""

_SPECIAL: Final = re.compile(r"[`*_~\[!\\]")
_RUN: Final = re.compile(r"(.)\1*", re.DOTALL)
_LINK: Final = re.compile(r'\[([^\[\]]*)\]\(<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"()]*")?\)')
_OPEN_LINK: Final = re.compile(r"\[[^\[\]]*(?:\](?:\([^)]*(?:\([^)]*\)[^)]*)*)?)?\Z")
_ESCAPABLE: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_EMPHASIS: Final[dict[int, Attributes]] = {1: ITALIC, 2: BOLD, 3: BOLD + ITALIC}

_CODE_SPAN: Final = r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))|\\."
_CLOSERS: Final = {
    (mark, count): re.compile(
        rf"{_CODE_SPAN}|(?P<closer>(?<=[^\s{re.escape(mark)}]){re.escape(mark) * count}(?!{re.escape(mark)}"
        + (r"|\w))" if mark == "_" else "))")
    )
    for mark, count in [("*", 1), ("*", 2), ("*", 3), ("_", 1), ("_", 2), ("_", 3), ("~", 2)]
}


class _Undecided(Exception):
    """The text so far does not tell whether a mark is markup."""


class InlineMarkdown:
    """Renders emphasis, code and links within one line at a time."""

    def __init__(self, write: WriteText) -> None:
        self._write = write
        self._pending = ""
        self._previous_char = ""
        self._attributes: Attributes = ()

    def begin(self, attributes: Attributes) -> None:
        """Start a line with these attributes."""
        self._pending = self._previous_char = ""
        self._attributes = attributes

    def feed(self, text: str) -> None:
        """Add the next chunk of the line."""
        pending = self._pending + text
        written = self._scan(pending, self._previous_char, self._attributes, final=False)
        if written:
            self._previous_char = pending[written - 1]
        self._pending = pending[written:]

    def end(self) -> None:
        """End the line. Open marks are shown as text."""
        self._scan(self._pending, self._previous_char, self._attributes, final=True)
        self._pending = ""

    def _scan(self, text: str, previous_char: str, attributes: Attributes, *, final: bool) -> int:
        position = 0
        while position < len(text):
            match = _SPECIAL.search(text, position)
            if match is None:
                self._write(text[position:], attributes)
                return len(text)
            if match.start() > position:
                self._write(text[position : match.start()], attributes)
                position = match.start()
            window = text[position : position + MAX_MARKUP_LENGTH]
            try:
                position += self._write_markup(
                    window,
                    text[position - 1] if position else previous_char,
                    attributes,
                    complete=final or len(window) == MAX_MARKUP_LENGTH,
                )
            except _Undecided:
                return position
        return position

    def _write_markup(self, text: str, previous_char: str, attributes: Attributes, *, complete: bool) -> int:
        """Write the markup at the start of the text and return its length."""
        mark = text[0]
        if mark == "\\":
            return self._escape(text, attributes, complete)
        if mark == "!":
            if len(text) == 1 and not complete:
                raise _Undecided
            if text[1:2] != "[":
                return self._literal(text, 1, attributes)
            return 1 + self._link(text[1:], attributes, complete, image=True)
        if mark == "[":
            return self._link(text, attributes, complete)
        run = _RUN.match(text)
        assert run is not None
        if run.end() == len(text) and not complete:
            raise _Undecided
        if mark == "`":
            return self._code(text, run.end(), attributes, complete)
        return self._emphasis(text, run.end(), previous_char, attributes, complete)

    def _literal(self, text: str, count: int, attributes: Attributes) -> int:
        self._write(text[:count], attributes)
        return count

    def _escape(self, text: str, attributes: Attributes, complete: bool) -> int:
        if len(text) == 1:
            if not complete:
                raise _Undecided
            return self._literal(text, 1, attributes)
        if text[1] not in _ESCAPABLE:
            return self._literal(text, 1, attributes)
        self._write(text[1], attributes)
        return 2

    def _code(self, text: str, count: int, attributes: Attributes, complete: bool) -> int:
        ticks = text[:count]
        closer = re.compile(rf"(?<!`){ticks}(?!`)").search(text, count)
        if closer is not None and (closer.end() < len(text) or complete):
            inner = text[count : closer.start()]
            if inner[:1] == inner[-1:] == " " and inner.strip():
                inner = inner[1:-1]
            self._write(inner, attributes + CYAN)
            return closer.end()
        if not complete:
            raise _Undecided
        return self._literal(text, count, attributes)

    def _emphasis(
        self, text: str, count: int, previous_char: str, attributes: Attributes, complete: bool
    ) -> int:
        mark = text[0]
        closers = _CLOSERS.get((mark, count))
        # After a letter or digit a mark is rarely markup: 2*3*4, snake_case.
        if (
            closers is None
            or text[count : count + 1].isspace()
            or previous_char.isalnum()
            or count == len(text)
        ):
            return self._literal(text, count, attributes)
        checked = count
        for match in closers.finditer(text, count):
            if not complete and (match.end() == len(text) or "`" in text[checked : match.start()]):
                raise _Undecided  # the mark may be longer, or inside code that has not ended
            checked = match.end()
            if match["closer"] is None:
                continue
            emphasis = STRUCK if mark == "~" else _EMPHASIS[count]
            self._scan(text[count : match.start()], mark, attributes + emphasis, final=True)
            return match.end()
        if not complete:
            raise _Undecided
        return self._literal(text, count, attributes)

    def _link(self, text: str, attributes: Attributes, complete: bool, *, image: bool = False) -> int:
        match = _LINK.match(text)
        if match is None:
            if not complete and _OPEN_LINK.match(text) is not None:
                raise _Undecided
            if image:
                self._write("!", attributes)
            return self._literal(text, 1, attributes)
        name, address = match[1], match[2]
        if name:
            self._scan(name, "[", attributes + UNDERLINE, final=True)
        # The address is always shown, because the text of a link may mislead.
        if address != name:
            self._write(f" ({address})" if name else address, attributes + DIM)
        return match.end()


Emit: TypeAlias = Callable[[str, int], None]
"""Takes text for the screen and the cursor's column after it."""

_TOKENS: Final = re.compile(r" +|[^ ]+")
_MIN_TEXT_CELLS: Final = 10
_CLOSING: Final = frozenset("。、，．！？：；）」』】》〉〕］｝”’…")
"""Characters that should not start a line."""


class LineWrapper:
    """Wraps one source line at a time onto lines of the screen."""

    def __init__(self, emit: Emit, width: Callable[[], int | None], style: Style) -> None:
        self._emit = emit
        self._width = width
        self._style = style
        self._limit: int | None = None
        self._column = 0
        self._indent = ""
        self._indent_cells = 0
        self._has_text = False
        self._space: tuple[int, Attributes] = (0, PLAIN)
        self._word: list[tuple[str, Attributes]] = []
        self._word_cells = 0
        self._after_wide = False

    def begin(self, prefix: str = "", indent: str = "", *, painted: Attributes = PLAIN) -> None:
        """Start a source line: the prefixes of its first screen line and of the following ones."""
        self._limit = self._width()
        paint = self._style.paint
        self._indent = paint(indent, painted) if indent.strip() else indent
        self._indent_cells = cell_width(indent)
        if self._limit is not None and self._limit - self._indent_cells < _MIN_TEXT_CELLS:
            self._indent, self._indent_cells, prefix = "", 0, ""
        self._has_text = self._after_wide = False
        self._column = 0
        if prefix:
            self._column = cell_width(prefix)
            self._emit(paint(prefix, painted) if prefix.strip() else prefix, self._column)

    def feed(self, text: str, attributes: Attributes) -> None:
        """Add the next chunk. It may end within a word."""
        if self._limit is None:
            self._put(text, attributes)
            return
        for match in _TOKENS.finditer(text.replace("\t", "    ") if "\t" in text else text):
            token = match[0]
            if token[0] == " ":
                self.flush_word()
                self._after_wide = False
                self._space = (self._space[0] + len(token), attributes)
            elif token.isascii():
                if self._after_wide:
                    self.flush_word()
                    self._after_wide = False
                self._add(token, attributes)
            else:
                self._add_wide(token, attributes)

    def flush_word(self) -> None:
        """Write the last word, even if it is incomplete."""
        if not self._word:
            return
        assert self._limit is not None
        count, attributes = self._space
        if not self._has_text:
            self._put(" " * min(count, max(self._limit - self._column - self._word_cells, 0)), attributes)
        elif self._column + count + self._word_cells > self._limit:
            self._break()
        else:
            self._put(" " * count, attributes)
        for text, word_attributes in self._word:
            self._put(text, word_attributes)
        self._word, self._word_cells, self._space = [], 0, (0, PLAIN)

    def end(self) -> None:
        """End the source line."""
        self.flush_word()
        self._space = (0, PLAIN)
        self._emit("\n", 0)
        self._column = 0

    def _add_wide(self, token: str, attributes: Attributes) -> None:
        """Add text with wide characters.

        Lines may be broken next to one; combining characters stay with theirs.
        """
        start = 0
        for at, char in enumerate(token):
            wide = is_wide(char)
            if char in _CLOSING or (not wide and (not self._after_wide or is_combining(char))):
                continue
            if at > start:
                self._add(token[start:at], attributes)
            self.flush_word()
            start, self._after_wide = at, wide
        self._add(token[start:], attributes)

    def _add(self, text: str, attributes: Attributes) -> None:
        self._word.append((text, attributes))
        self._word_cells += cell_width(text)
        assert self._limit is not None
        available = self._limit - self._indent_cells
        while self._word_cells > available:  # longer than a line
            if self._has_text:
                self._break()
            self._space = (0, PLAIN)
            self._split_word(self._limit - self._column)

    def _split_word(self, available: int) -> None:
        """Write as much of the word as fits and break the line after it."""
        while self._word and available > 0:
            text, attributes = self._word[0]
            count = fitting_length(text, available)
            if count == 0:
                break
            self._put(text[:count], attributes)
            used = cell_width(text[:count])
            available -= used
            self._word_cells -= used
            if count < len(text):
                self._word[0] = (text[count:], attributes)
                break
            del self._word[0]
        self._break()

    def _break(self) -> None:
        self._emit("\n", 0)
        self._column = self._indent_cells
        self._has_text = False
        if self._indent:
            self._emit(self._indent, self._column)

    def _put(self, text: str, attributes: Attributes) -> None:
        if text:
            self._has_text = True
            self._column += cell_width(text)
            self._emit(self._style.paint(text, attributes), self._column)


_PREFIX_LENGTH: Final = 24
"""The characters that decide the kind of a line. For most lines the first one is enough."""
_MAX_INDENT: Final = 200
"""A line with a deeper indent is written when it is complete."""
_BLOCK_STARTS: Final = frozenset("#`~|>-*_+0123456789")
"""The characters that can start a line which is not plain text."""

_FENCE: Final = re.compile(r"(`{3,}|~{3,})")
_RULE: Final = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*\Z")
_MAYBE_RULE: Final = re.compile(r"[-*_ \t]+\Z")
_TABLE_EDGE: Final = re.compile(r"\|?[-:| \t]+\Z")
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+")
_QUOTE: Final = re.compile(r">[ \t]?")
_ITEM: Final = re.compile(r"([-*+]|\d{1,9}[.)])[ \t]+(\[[ xX]\][ \t]+)?")
_DIFF_ATTRIBUTES: Final[dict[str, Attributes]] = {"+": GREEN, "-": RED, "@": CYAN}
_RULE_CELLS: Final = 40


class TerminalMarkdown:
    """Renders one text that arrives in chunks."""

    def __init__(
        self,
        emit: Emit,
        width: Callable[[], int | None],
        style: Style,
        *,
        attributes: Attributes = PLAIN,
        line_prefix: str = "",
    ) -> None:
        """`attributes` applies to the whole text, `line_prefix` starts each line.

        Without color the Markdown marks stay visible.
        """
        self._emit = emit
        self._width = width
        self._style = style
        self._attributes = attributes
        self._line_prefix = line_prefix
        self._wrapper = LineWrapper(emit, width, style)
        self._inline = InlineMarkdown(self._wrapper.feed)
        self._parts: list[str] = []
        self._buffering = False  # the line is written when it is complete
        self._streaming = False  # the kind of the line is known and it is being written
        self._fence = ""
        self._language = ""
        self._blank_before_next = False  # write an empty line before the next one
        self._has_lines = False

    def feed(self, text: str) -> None:
        """Add the next chunk."""
        at = 0
        while at < len(text):
            end = text.find("\n", at)
            chunk = text[at:] if end < 0 else text[at:end]
            if chunk:
                self._add_chunk(chunk)
            if end < 0:
                return
            self._end_line()
            at = end + 1

    def flush_word(self) -> None:
        """Write the last word of a running line, because no chunk arrived for a while."""
        if self._streaming:
            self._wrapper.flush_word()

    def end_line(self) -> None:
        """End a running line, because other output follows. Held-back text stays held back."""
        if self._streaming:
            self._end_line()

    def end(self) -> None:
        """End the text."""
        if self._streaming or self._parts:
            self._end_line()

    def _add_chunk(self, chunk: str) -> None:
        if self._streaming:
            self._inline_feed(chunk)
            return
        self._parts.append(chunk)
        if self._buffering or self._fence:
            return
        line = "".join(self._parts)
        self._parts = [line]
        text = line.lstrip(" \t")
        if len(line) - len(text) >= _MAX_INDENT:
            self._buffering = True
        elif len(text) >= _PREFIX_LENGTH or (text and text[0] not in _BLOCK_STARTS):
            self._classify(line, final=False)

    def _end_line(self) -> None:
        if not self._streaming:
            line = "".join(self._parts)
            self._parts = []
            if self._fence or self._buffering:
                self._write_complete_line(line)
                return
            self._classify(line, final=True)
        if self._streaming:
            self._streaming = False
            self._inline_end()
        self._parts = []

    # -- the kind of a line ----------------------------------------------------------------------------------

    def _classify(self, line: str, *, final: bool) -> None:
        """Decide by the first characters only: later ones may not have arrived."""
        text = line.lstrip(" \t")
        line_start = text[:_PREFIX_LENGTH]
        if _FENCE.match(line_start) or line_start.startswith("|") or _MAYBE_RULE.match(line_start):
            if final:
                self._write_complete_line(line)
            else:
                self._buffering = True
            return
        if not line_start:
            self._blank_before_next = self._has_lines
            return
        self._streaming = True
        self._start_line(text, len(line) - len(text), line_start)

    def _start_line(self, text: str, spaces: int, line_start: str) -> None:
        self._write_blank_line()
        attributes = self._attributes
        prefix = indent = self._line_prefix + " " * spaces
        at = 0
        if not self._style.color:
            item = _ITEM.match(line_start)
            self._wrapper.begin(prefix, indent + " " * (item.end() if item else 0))
            self._inline.begin(attributes)
            self._inline_feed(text)
            return
        symbols = self._style.symbols
        while quote := _QUOTE.match(line_start, at):
            prefix, indent, at = f"{prefix}{symbols.bar} ", f"{indent}{symbols.bar} ", quote.end()
            attributes = attributes + DIM if DIM[0] not in attributes else attributes
        if heading := _HEADING.match(line_start, at):
            at = heading.end()
            attributes = attributes + BOLD + (UNDERLINE if len(heading[1]) == 1 else PLAIN)
        elif item := _ITEM.match(line_start, at):
            at = item.end()
            symbol = item[1] if item[1][0].isdigit() else symbols.bullet
            if item[2]:
                symbol = symbols.unticked if item[2][1] == " " else symbols.ticked
            prefix, indent = f"{prefix}{symbol} ", indent + " " * (len(symbol) + 1)
        self._wrapper.begin(prefix, indent, painted=DIM)
        self._inline.begin(attributes)
        self._inline_feed(text[at:])

    def _write_blank_line(self) -> None:
        if self._blank_before_next:
            self._emit(f"{self._line_prefix.rstrip()}\n", 0)
        self._blank_before_next = False
        self._has_lines = True

    # -- lines written when complete -------------------------------------------------------------------------

    def _write_complete_line(self, line: str) -> None:
        self._buffering = False
        text = line.lstrip(" \t")
        if self._fence:
            self._code(line, text)
            return
        if not text.strip():
            self._blank_before_next = self._has_lines
            return
        self._write_blank_line()
        fence = _FENCE.match(text)
        if fence is not None and ("`" not in text[fence.end() :] or fence[1][0] == "~"):
            self._fence = fence[1]
            self._language = text[fence.end() :].strip().lower()
            self._emit_line(line, self._attributes + DIM)
        elif self._style.color and _RULE.match(text):
            self._emit_line(self._style.symbols.rule * min(self._width() or _RULE_CELLS, _RULE_CELLS), DIM)
        elif text.startswith("|"):
            self._emit_line(line, self._attributes + DIM if _TABLE_EDGE.match(text) else self._attributes)
        else:
            self._streaming = True
            self._start_line(text, len(line) - len(text), text[:_PREFIX_LENGTH])
            self._streaming = False
            self._inline_end()

    def _code(self, line: str, text: str) -> None:
        closing = text.rstrip()
        if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
            self._fence = ""
            self._emit_line(line, self._attributes + DIM)
            return
        attributes = _DIFF_ATTRIBUTES.get(line[:1], PLAIN) if self._language in ("diff", "patch") else PLAIN
        self._emit_line(line, self._attributes + attributes)

    def _emit_line(self, line: str, attributes: Attributes) -> None:
        self._emit(self._line_prefix + self._style.paint(line, attributes) + "\n", 0)

    # -- lines written as they arrive ------------------------------------------------------------------------

    def _inline_feed(self, text: str) -> None:
        if self._style.color:
            self._inline.feed(text)
        else:
            self._wrapper.feed(text, PLAIN)

    def _inline_end(self) -> None:
        if self._style.color:
            self._inline.end()
        self._wrapper.end()
