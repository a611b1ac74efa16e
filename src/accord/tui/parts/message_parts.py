"""Prompts, thoughts, and streaming messages of the agent.

Imported on first use.
"""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text
from textual.strip import Strip

from accord.safe_text import TextCleaner, clean_text
from accord.text_width import count_text
from accord.tui.parts.markdown_part import MARGIN, MAX_WIDTH, MarkdownPart, draw_code
from accord.tui.parts.part import DrawnPart, estimate_lines, strip_of, wrap_words

if TYPE_CHECKING:
    from accord.tui.theme import Palette


_FOLDED_LINES: Final = 40
"""Lines of a folded prompt."""


class PromptPart(DrawnPart):
    """A prompt of the user, with its own background."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: str = text
        self.folded: bool = True

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines: list[Text] = []
        for line in clean_text(self.text).expandtabs(4).split("\n"):
            lines += wrap_words(Text(line, palette.text), min(width - 3, MAX_WIDTH))
        if self.folded and len(lines) > _FOLDED_LINES:
            hidden_count = len(lines) - _FOLDED_LINES
            lines = [
                *lines[:_FOLDED_LINES],
                Text(f"… {count_text(hidden_count, 'more line')}", palette.muted),
            ]
        return [
            strip_of(Text("▌ ", palette.prompt_bar).append_text(line), background=palette.prompt, width=width)
            for line in lines
        ]

    def estimate(self, width: int) -> int:
        return estimate_lines(self.text, min(width, MAX_WIDTH))


class FoldableThought(DrawnPart):
    """A thought of the agent. Folded, it takes one line."""

    def __init__(self) -> None:
        super().__init__()
        self.text: str = ""
        self.folded: bool = True
        self.duration: str = ""
        """Set when the thought has ended, if it is known."""
        self.active: bool = False

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        cleaned = clean_text(self.text).strip()
        label = "Thinking…" if self.active else f"Thought for {self.duration}" if self.duration else "Thought"
        line = Text("  ").append("▸ " if self.folded else "▾ ", palette.faint).append(label, palette.muted)
        if self.folded:
            preview = (cleaned[-400:] if self.active else cleaned[:400]).split("\n")
            line_text = next(
                (text for text in (reversed(preview) if self.active else preview) if text.strip()), ""
            )
            line.append(f"  {line_text.strip()}", palette.faint)
            line.truncate(width, overflow="ellipsis")
            return [strip_of(line)]
        lines = [line]
        for text in cleaned.split("\n"):
            pieces = wrap_words(Text(text, palette.muted), min(width - 6, MAX_WIDTH))
            lines += [Text("  │ ", palette.faint).append_text(piece) for piece in pieces]
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        return 1 if self.folded else estimate_lines(self.text, width)


MAX_SEGMENT: Final = 6_000
"""Characters after which a long paragraph or list is cut."""
CODE_LINES: Final = 80
"""Lines after which a code block continues in the next segment."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)")
_ITEM: Final = re.compile(r" {0,3}([-*+]|[0-9]{1,9}[.)])\s")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s")


class Segment(NamedTuple):
    """A piece of the text: prose, or lines of one code block."""

    text: str
    code: bool = False
    language: str = ""
    first: bool = True
    """Whether it starts a paragraph, list or code block instead of continuing the one before."""
    item: bool = False
    """Whether it starts with a list item."""


class MarkdownSplitter:
    """Cuts streaming Markdown where it can no longer change, so that finished segments are drawn once.

    Works line by line and reads each character once.
    """

    def __init__(self) -> None:
        self._line = ""  # the unfinished line
        self._lines: list[str] = []  # lines of the open segment
        self._size = 0
        self._fence = ""  # the opening fence of the open code block
        self._item_fence = ""  # the same within a list item
        self._language = ""
        self._first = True
        self._blank = False
        self._finished: list[Segment] = []

    def feed(self, text: str) -> None:
        """Add text."""
        lines = (self._line + text).split("\n")
        self._line = lines.pop()
        for line in lines:
            self._add_line(line)
        while not self._fence and self._size + len(self._line) > MAX_SEGMENT:
            space = self._line.rfind(" ", 0, MAX_SEGMENT)
            if space <= 0:
                break
            self._lines.append(self._line[:space])
            self._line = self._line[space + 1 :]
            self._cut(first=False)

    def take_finished(self) -> list[Segment]:
        """Return the segments that were finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def open_segment(self) -> Segment | None:
        """Return the unfinished segment."""
        lines = [*self._lines, self._line] if self._line or not self._lines else self._lines
        if self._fence:
            if self._line and self._closes(self._line):
                lines = self._lines
            return Segment("\n".join(lines), True, self._language, self._first)
        if _FENCE.match(self._line) and len(lines) > 1:
            lines = lines[:-1]  # the language is not known yet
        text = "\n".join(lines)
        return self._prose(text) if text.strip() else None

    def _add_line(self, line: str) -> None:
        if self._fence:
            self._add_code_line(line)
            return
        if self._item_fence:
            if self._closes(line.strip(), self._item_fence):
                self._item_fence = ""
            self._add(line)
            return
        if not line.strip():
            self._blank = True
            if self._lines:
                self._add(line)
            return
        self._add_prose_line(line)

    def _add_prose_line(self, line: str) -> None:
        """Add a line of prose, or start a code block."""
        fence = _FENCE.match(line)
        in_list = bool(self._lines) and _ITEM.match(self._lines[0]) is not None
        in_item = in_list and line.startswith("  ")
        item = _ITEM.match(line) is not None
        if fence is not None and not in_item:
            self._cut()
            self._fence, self._language = fence[1], fence[2]
            return
        ends_segment = (self._blank and not in_item) or _HEADING.match(line) or self._was_heading()
        is_full = self._size > MAX_SEGMENT or (in_list and item and len(self._lines) > 30)
        if self._lines and (ends_segment or is_full):
            self._cut(first=bool(ends_segment))
        self._blank = False
        if in_item and (item_fence := _FENCE.match(line.strip())):
            self._item_fence = item_fence[1]
        self._add(line)

    def _add_code_line(self, line: str) -> None:
        if self._closes(line):
            self._finish_code()
            self._fence, self._first, self._blank = "", True, False
            return
        self._add(line)
        if len(self._lines) >= CODE_LINES or self._size > MAX_SEGMENT * 4:
            self._finish_code()
            self._first = False

    def _finish_code(self) -> None:
        if self._lines or self._first:
            self._finished.append(Segment("\n".join(self._lines), True, self._language, self._first))
        self._lines, self._size = [], 0

    def _was_heading(self) -> bool:
        return len(self._lines) == 1 and _HEADING.match(self._lines[0]) is not None

    def _closes(self, line: str, fence: str = "") -> bool:
        fence = fence or self._fence
        stripped = line.strip()
        return (
            len(stripped) >= len(fence)
            and stripped == stripped[:1] * len(stripped)
            and stripped[:1] == fence[0]
        )

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _cut(self, *, first: bool = True) -> None:
        text = "\n".join(self._lines)
        if text.strip():
            self._finished.append(self._prose(text))
            self._first = first
        self._lines, self._size, self._blank = [], 0, False

    def _prose(self, text: str) -> Segment:
        return Segment(text.strip("\n"), first=self._first, item=_ITEM.match(text) is not None)


class CodePart(DrawnPart):
    """Lines of a code block."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.text: str = segment.text
        self.language: str = segment.language
        self.gap = 1 if segment.first else 0

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines = draw_code(self.text, self.language, min(width - MARGIN, MAX_WIDTH), palette)
        return [strip_of(Text(" " * MARGIN).append_text(line)) for line in lines]

    def estimate(self, width: int) -> int:
        return estimate_lines(self.text, min(width, MAX_WIDTH))


class StreamingMessage:
    """The parts of a message that grows at its end."""

    def __init__(self) -> None:
        self.parts: list[DrawnPart] = []
        self._cleaner = TextCleaner()
        self._segments = MarkdownSplitter()
        self._text = ""
        self._open = False  # whether the last part may still change
        self._item = False  # whether the last finished part was a list item

    def show(self, text: str) -> bool:
        """Set the whole text; return whether it changed. Appended text is cheap to add."""
        if text == self._text:
            return False
        if not text.startswith(self._text):
            self.parts.clear()
            self._cleaner, self._segments, self._open, self._item = (
                TextCleaner(),
                MarkdownSplitter(),
                False,
                False,
            )
            self._text = ""
        piece = text[len(self._text) :]
        self._text = text
        self._segments.feed(self._cleaner.feed(piece))
        if self._open:
            self.parts.pop()
        for segment in self._segments.take_finished():
            self._add(segment)
        last = self._segments.open_segment()
        self._open = last is not None
        if last is not None:
            self.parts.append(self._part(last))
        return True

    def _add(self, segment: Segment) -> None:
        self.parts.append(self._part(segment))
        self._item = segment.item

    def _part(self, segment: Segment) -> DrawnPart:
        if segment.code:
            return CodePart(segment)
        joined = not segment.first or (segment.item and self._item)
        return MarkdownPart(segment.text, gap=0 if joined and self.parts else 1)
