"""Completion of commands and files, and its popup."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from accord.safe_text import clean_line
from accord.tui.theme import palette_of
from accord.workspace.file_search import LOOKED_AT, best_matches, paths_of

if TYPE_CHECKING:
    from textual import events


# MERGED tui.prompting.completing: What is being completed: a command of the agent at the beginning of a prompt, or a file behind an @.

_COMMAND: Final = re.compile(r"/([^\s/]*)\Z")
_FILE: Final = re.compile(r"""(?:^|(?<=[\s(\[{<"'`,;]))@([^\s@"'`<>]*)\Z""")


class Completion(NamedTuple):
    """One way to go on."""

    value: str
    """What stands there then."""
    label: str
    hint: str = ""
    after: str = ""
    """What is still to be written behind it, in words."""


class CompletionQuery(NamedTuple):
    """The word that is being written."""

    kind: Literal["command", "file"]
    start: int
    """Where in the line it begins."""
    letters: str


def completing(line: str, column: int, *, first: bool) -> CompletionQuery | None:
    """What is completed at a place of a line; `first` says that nothing stands above the line."""
    before = line[:column]
    if first and (found := _COMMAND.match(before)):
        return CompletionQuery("command", 0, found[1])
    if found := _FILE.search(before):
        return CompletionQuery("file", found.start(), found[1])
    return None


def mention(path: str) -> str:
    """A file as it is written in a prompt."""
    return f'@"{path}"' if re.search(r"[\s\"'`<>]", path) else f"@{path}"


# MERGED tui.prompting.popup: The list of completions above the editor.

ROWS: Final = 8


class CompletionPopup(Widget):
    """Shows completions; the editor keeps the keys and moves the mark."""

    DEFAULT_CSS = """
    CompletionPopup { display: none; height: auto; max-height: 8; margin: 0 1; padding: 0 1; background: $surface; }
    CompletionPopup.open { display: block; }
    """

    class Chosen(Message):
        """One was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self.completions: list[Completion] = []
        self.at = 0

    @property
    def open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.completions)

    @property
    def current(self) -> Completion | None:
        """The one that is marked."""
        return self.completions[self.at] if self.completions else None

    def show(self, completions: list[Completion]) -> None:
        """Offer these; none closes the list."""
        if completions != self.completions:
            self.completions, self.at = completions, 0
        self.set_class(bool(completions), "open")
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Mark another."""
        if self.completions:
            self.at = (self.at + by) % len(self.completions)
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        first = self._first
        out = Text(no_wrap=True, overflow="ellipsis")
        width = max((len(one.label) for one in self.completions[first : first + ROWS]), default=0)
        for number, one in enumerate(self.completions[first : first + ROWS], first):
            chosen = number == self.at
            if number > first:
                out.append("\n")
            out.append("▸ " if chosen else "  ", palette.accent)
            out.append(
                clean_line(one.label).ljust(min(width, 40)), palette.strong if chosen else palette.text
            )
            if one.hint:
                out.append(f"  {clean_line(one.hint)}", palette.muted)
        return out

    @property
    def _first(self) -> int:
        return min(max(self.at - ROWS + 1, 0), max(len(self.completions) - ROWS, 0)) if self.at >= ROWS else 0

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.completions), ROWS)

    def on_click(self, event: "events.Click") -> None:
        index = self._first + event.y
        if index < len(self.completions):
            self.post_message(self.Chosen(index))


# MERGED tui.prompting.files: The files of the session's folder. What git ignores is left out.


def list_files(folder: str) -> list[str]:
    """Relative paths of files and folders, folders with a slash at their end. Blocking: for a thread.

    In very large trees some are not among them, and have to be written.
    """
    return sorted(islice(paths_of(folder), LOOKED_AT), key=lambda path: (path.count("/"), path))


# MERGED tui.fuzzy: Finding things by a few letters of what they are called.


def ranked(texts: Iterable[str], letters: str, most: int = 50) -> list[str]:
    """The texts that have these letters in this order, the best first; without letters, the first as they come."""
    return best_matches(letters, texts, most) if letters else list(islice(texts, most))
