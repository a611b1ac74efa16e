"""Completion of slash commands and files, and its popup."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from accord.safe_text import clean_line
from accord.tui.theme import palette_of
from accord.workspace.file_search import best_matches

if TYPE_CHECKING:
    from textual import events


_COMMAND: Final = re.compile(r"/([^\s/]*)\Z")
_FILE: Final = re.compile(r"""(?:^|(?<=[\s(\[{<"'`,;]))@([^\s@"'`<>]*)\Z""")


class Completion(NamedTuple):
    """One completion."""

    value: str
    """The text that is inserted."""
    label: str
    hint: str = ""


class CompletionQuery(NamedTuple):
    """The word at the cursor."""

    kind: Literal["command", "file"]
    start: int
    """Its start in the line."""
    text: str


def completion_query(line: str, column: int, *, first: bool) -> CompletionQuery | None:
    """Return the word to complete at a column; `first` says whether it is the first line."""
    before = line[:column]
    if first and (match := _COMMAND.match(before)):
        return CompletionQuery("command", 0, match[1])
    if match := _FILE.search(before):
        return CompletionQuery("file", match.start(), match[1])
    return None


def format_mention(path: str) -> str:
    """Return the mention of a file in a prompt."""
    return f'@"{path}"' if re.search(r"[\s\"'`<>]", path) else f"@{path}"


MAX_ROWS: Final = 8


class CompletionPopup(Widget):
    """Shows completions; the editor handles the keys."""

    DEFAULT_CSS: ClassVar[str] = """
    CompletionPopup { display: none; height: auto; max-height: 8; margin: 0 1; padding: 0 1;
        background: $surface; }
    CompletionPopup.open { display: block; }
    """

    class Chosen(Message):
        """A completion was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class Toggled(Message):
        """The list was opened or closed."""

    def __init__(self) -> None:
        super().__init__()
        self.completions: list[Completion] = []
        self.selected: int = 0

    @property
    def open(self) -> bool:
        """Whether there are completions."""
        return bool(self.completions)

    @property
    def current(self) -> Completion | None:
        """The selected completion."""
        return self.completions[self.selected] if self.completions else None

    def show(self, completions: list[Completion]) -> None:
        """Show completions; an empty list closes the popup."""
        if completions != self.completions:
            self.completions, self.selected = completions, 0
        was_open = self.has_class("open")
        self.set_class(bool(completions), "open")
        if was_open != bool(completions):
            self.post_message(self.Toggled())
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Move the selection."""
        if self.completions:
            self.selected = (self.selected + by) % len(self.completions)
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        first = self._first
        out = Text(no_wrap=True, overflow="ellipsis")
        width = max(
            (len(completion.label) for completion in self.completions[first : first + MAX_ROWS]), default=0
        )
        for number, completion in enumerate(self.completions[first : first + MAX_ROWS], first):
            is_selected = number == self.selected
            if number > first:
                out.append("\n")
            out.append("▸ " if is_selected else "  ", palette.accent)
            out.append(
                clean_line(completion.label).ljust(min(width, 40)),
                palette.strong if is_selected else palette.text,
            )
            if completion.hint:
                out.append(f"  {clean_line(completion.hint)}", palette.muted)
        return out

    @property
    def _first(self) -> int:
        return (
            min(max(self.selected - MAX_ROWS + 1, 0), max(len(self.completions) - MAX_ROWS, 0))
            if self.selected >= MAX_ROWS
            else 0
        )

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.completions), MAX_ROWS)

    def on_click(self, event: "events.Click") -> None:
        index = self._first + event.y
        if index < len(self.completions):
            self.post_message(self.Chosen(index))


def best_completions(texts: Iterable[str], query: str, limit: int = 50) -> list[str]:
    """Return the best matches, best first; without a query, the first texts."""
    return best_matches(query, texts, limit) if query else list(islice(texts, limit))
