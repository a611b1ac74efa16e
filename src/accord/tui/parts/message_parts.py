"""Prompts, thoughts, and agent messages that are still streaming.

Imported on first use.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text
from textual.strip import Strip

from accord.safe_text import TextCleaner, clean_text
from accord.tui.parts.markdown_part import MARGIN, WIDEST, MarkdownPart, code_block
from accord.tui.parts.part import DrawnPart, lines_of, strip_of, wrapped

if TYPE_CHECKING:
    from accord.tui.theme import Palette


# MERGED tui.parts.said: What the user said, and what the agent thought.

_LONGEST: Final = 40
"""Lines of a prompt that are shown while it is folded."""


class PromptPart(DrawnPart):
    """A prompt, on a ground of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.folded = True

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines: list[Text] = []
        for line in clean_text(self.text).expandtabs(4).split("\n"):
            lines += wrapped(Text(line, palette.text), min(width - 3, WIDEST))
        if self.folded and len(lines) > _LONGEST:
            left = len(lines) - _LONGEST
            lines = [*lines[:_LONGEST], Text(f"… {left} more lines", palette.muted)]
        return [
            strip_of(Text("▌ ", palette.bar).append_text(line), ground=palette.user, width=width)
            for line in lines
        ]

    def estimate(self, width: int) -> int:
        return lines_of(self.text, min(width, WIDEST))


class DrawnThought(DrawnPart):
    """A thought: one line that tells of it while it is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.folded = True
        self.took: str = ""
        """How long it took, once it is over and that is known."""
        self.going_on = False

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        cleaned = clean_text(self.text).strip()
        head = "Thinking…" if self.going_on else f"Thought for {self.took}" if self.took else "Thought"
        line = Text("  ").append("▸ " if self.folded else "▾ ", palette.faint).append(head, palette.muted)
        if self.folded:
            glimpse = (cleaned[-400:] if self.going_on else cleaned[:400]).split("\n")
            words = next(
                (text for text in (reversed(glimpse) if self.going_on else glimpse) if text.strip()), ""
            )
            line.append(f"  {words.strip()}", palette.faint)
            line.truncate(width, overflow="ellipsis")
            return [strip_of(line)]
        lines = [line]
        for text in cleaned.split("\n"):
            pieces = wrapped(Text(text, palette.muted), min(width - 6, WIDEST))
            lines += [Text("  │ ", palette.faint).append_text(piece) for piece in pieces]
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        return 1 if self.folded else lines_of(self.text, width)


# MERGED tui.parts.segments: Markdown that is still being written, cut where it can no longer change: what lies before a cut is never drawn again.
#
# Works line by line and looks at each character once, however long the text becomes.

LONGEST: Final = 6_000
"""Characters after which a paragraph or a list that does not end is cut all the same."""
CODE_LINES: Final = 80
"""Lines after which a block of code goes on in the next segment."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)")
_ITEM: Final = re.compile(r" {0,3}([-*+]|[0-9]{1,9}[.)])\s")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s")


class Segment(NamedTuple):
    """A stretch of the text: prose, or lines of one block of code."""

    text: str
    code: bool = False
    language: str = ""
    first: bool = True
    """Whether it begins a paragraph, a list or a block of code, and does not go on with the one before."""
    item: bool = False
    """Whether it begins with an item of a list."""


class Segments:
    """Feed it the text; take what is finished, and what is open."""

    def __init__(self) -> None:
        self._line = ""  # the line that has no end yet
        self._lines: list[str] = []  # of the open segment
        self._size = 0
        self._fence = ""  # what opened the block of code that is open
        self._inner = ""  # the same for code within an item of a list, which stays with its item
        self._language = ""
        self._first = True
        self._blank = False
        self._done: list[Segment] = []

    def feed(self, text: str) -> None:
        """The next piece."""
        lines = (self._line + text).split("\n")
        self._line = lines.pop()
        for line in lines:
            self._take(line)
        while not self._fence and self._size + len(self._line) > LONGEST:
            at = self._line.rfind(" ", 0, LONGEST)
            if at <= 0:
                break
            self._lines.append(self._line[:at])
            self._line = self._line[at + 1 :]
            self._cut(first=False)

    def finished(self) -> list[Segment]:
        """What was finished since the last call."""
        done, self._done = self._done, []
        return done

    def open(self) -> Segment | None:
        """What is being written, as far as it goes."""
        lines = [*self._lines, self._line] if self._line or not self._lines else self._lines
        if self._fence:
            if self._line and self._closes(self._line):
                lines = self._lines
            return Segment("\n".join(lines), True, self._language, self._first)
        if _FENCE.match(self._line) and len(lines) > 1:
            lines = lines[:-1]  # what code it will be is not known yet
        text = "\n".join(lines)
        return self._prose(text) if text.strip() else None

    def _take(self, line: str) -> None:
        if self._fence:
            self._take_code(line)
            return
        if self._inner:
            if self._closes(line.strip(), self._inner):
                self._inner = ""
            self._add(line)
            return
        if not line.strip():
            self._blank = True
            if self._lines:
                self._add(line)
            return
        self._begin(line)

    def _begin(self, line: str) -> None:
        """A line of prose, or one that opens something."""
        fence = _FENCE.match(line)
        in_list = bool(self._lines) and _ITEM.match(self._lines[0]) is not None
        within = in_list and line.startswith("  ")
        item = _ITEM.match(line) is not None
        if fence is not None and not within:
            self._cut()
            self._fence, self._language = fence[1], fence[2]
            return
        ends = (self._blank and not within) or _HEADING.match(line) or self._was_heading()
        full = self._size > LONGEST or (in_list and item and len(self._lines) > 30)
        if self._lines and (ends or full):
            self._cut(first=bool(ends))
        self._blank = False
        if within and (inner := _FENCE.match(line.strip())):
            self._inner = inner[1]
        self._add(line)

    def _take_code(self, line: str) -> None:
        if self._closes(line):
            self._finish_code()
            self._fence, self._first, self._blank = "", True, False
            return
        self._add(line)
        if len(self._lines) >= CODE_LINES or self._size > LONGEST * 4:
            self._finish_code()
            self._first = False

    def _finish_code(self) -> None:
        if self._lines or self._first:
            self._done.append(Segment("\n".join(self._lines), True, self._language, self._first))
        self._lines, self._size = [], 0

    def _was_heading(self) -> bool:
        return len(self._lines) == 1 and _HEADING.match(self._lines[0]) is not None

    def _closes(self, line: str, fence: str = "") -> bool:
        fence = fence or self._fence
        mark = line.strip()
        return len(mark) >= len(fence) and mark == mark[:1] * len(mark) and mark[:1] == fence[0]

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _cut(self, *, first: bool = True) -> None:
        text = "\n".join(self._lines)
        if text.strip():
            self._done.append(self._prose(text))
            self._first = first
        self._lines, self._size, self._blank = [], 0, False

    def _prose(self, text: str) -> Segment:
        return Segment(text.strip("\n"), first=self._first, item=_ITEM.match(text) is not None)


def segments_of(text: str) -> Iterator[Segment]:
    """All of a text."""
    segments = Segments()
    segments.feed(text)
    yield from segments.finished()
    last = segments.open()
    if last is not None:
        yield last


# MERGED tui.parts.prose: A message of the agent as parts: finished stretches of Markdown, and the one that is being written.


class CodePart(DrawnPart):
    """Lines of a block of code."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.text = segment.text
        self.language = segment.language
        self.gap = 1 if segment.first else 0

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines = code_block(self.text, self.language, min(width - MARGIN, WIDEST), palette)
        return [strip_of(Text(" " * MARGIN).append_text(line)) for line in lines]

    def estimate(self, width: int) -> int:
        return lines_of(self.text, min(width, WIDEST))


class StreamingMessage:
    """The parts of a text that grows at its end."""

    def __init__(self) -> None:
        self.parts: list[DrawnPart] = []
        self._cleaner = TextCleaner()
        self._segments = Segments()
        self._taken = ""
        self._open = False  # whether the last part may still change
        self._item = False  # whether the last finished part was an item of a list

    def show(self, text: str) -> bool:
        """The whole text as it is now; whether anything changed. What is new at its end is cheap, another text is not."""
        if text == self._taken:
            return False
        if not text.startswith(self._taken):
            self.parts.clear()
            self._cleaner, self._segments, self._open, self._item = TextCleaner(), Segments(), False, False
            self._taken = ""
        piece = text[len(self._taken) :]
        self._taken = text
        self._segments.feed(self._cleaner.feed(piece))
        if self._open:
            self.parts.pop()
        for segment in self._segments.finished():
            self._add(segment)
        last = self._segments.open()
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
