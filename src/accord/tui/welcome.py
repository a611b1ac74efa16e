"""The first screen of a new session: model and key, examples, earlier sessions, agents to choose from.

Loaded before the first paint: keep the client out. Facts are filled in later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from accord.safe_text import clean_line, one_line
from accord.tui.parts.part import wrap_words
from accord.tui.theme import palette_of

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size

    from accord.tui.chat_types import KeyState
    from accord.tui.session_panels import Status
    from accord.tui.theme import Palette

EXAMPLES: Final = (
    "Explain this project to me",
    "Find a bug here, and fix it",
    "Write a test for the part that needs one most",
)
MAX_WIDTH: Final = 110
_MAX_ROWS: Final = 5
_OTHER_LINES: Final = 7
"""Lines of the screen for everything but this and the prompt: tabs, title, notes, status, footer."""
_ARROW: Final = "▸ "
_COLUMN_GAP: Final = 3
_SESSIONS: Final = "Continue in this folder"

WelcomeKind = Literal["example", "session", "agent", "agents", "sign_in", "tour"]


@dataclass(frozen=True, slots=True)
class WelcomeRow:
    """One row to choose."""

    kind: WelcomeKind
    name: str
    note: str = ""
    value: Any = None


@dataclass(slots=True)
class WelcomeFacts:
    """What the screen shows. Texts of agents are cleaned when they are drawn."""

    key: "KeyState | None" = None
    """None until it is known, and for agents that keep their own key."""
    sessions: list[WelcomeRow] = field(default_factory=list[WelcomeRow])
    agents: list[WelcomeRow] = field(default_factory=list[WelcomeRow])


def _note_column(rows: Sequence[WelcomeRow], width: int) -> int:
    """Where the notes of these rows begin: behind the longest name, if they fit. 0: there is no room."""
    notes = max((cell_len(one_line(clean_line(row.note))) for row in rows), default=0)
    names = max((cell_len(clean_line(row.name)) for row in rows), default=0)
    column = min(cell_len(_ARROW) + names + _COLUMN_GAP, width - min(notes, width // 2))
    return column if notes else 0


class WelcomePanel(Widget, can_focus=True):
    """Shows what to do first. Tab goes here from the prompt."""

    DEFAULT_CSS: ClassVar[str] = """
    WelcomePanel { height: auto; padding: 1 2; }
    WelcomePanel.hidden { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k,shift+tab", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("enter", "choose", "Choose", show=False),
        Binding("tab", "leave", "Prompt", show=False),
    ]

    class Chosen(Message):
        """A row was chosen."""

        def __init__(self, row: WelcomeRow) -> None:
            super().__init__()
            self.row = row

    class Left(Message):
        """The focus goes back to the prompt."""

    def __init__(
        self, status: "Status", key_of: Callable[[str], str], prompt_height: Callable[[], int]
    ) -> None:
        """`key_of` returns the key of an action, `prompt_height` the lines of the prompt."""
        super().__init__()
        self._prompt_height = prompt_height
        self.facts: WelcomeFacts = WelcomeFacts()
        self.selected: int = 0
        self._status = status
        self._key_of = key_of
        self._rows: list[WelcomeRow] = []
        self._row_lines: list[int | None] = []
        """For each line the row on it."""

    @property
    def shown(self) -> bool:
        """Whether the screen is visible."""
        return not self.has_class("hidden")

    def update(self) -> None:
        """Draw the facts again."""
        self.refresh(layout=True)

    # -- drawing --

    def get_content_height(self, container: "Size", viewport: "Size", width: int) -> int:
        return len(self._lines(width, viewport.height)[0])

    def render(self) -> Text:
        lines, self._rows, self._row_lines = self._lines(self.content_size.width, self.screen.size.height)
        self.selected = min(self.selected, max(len(self._rows) - 1, 0))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)

    def _lines(self, width: int, height: int) -> tuple[list[Text], list[WelcomeRow], list[int | None]]:
        """The lines that fit, the rows on them, and for each line its row."""
        palette, width = palette_of(self), min(width, MAX_WIDTH)
        lines: list[Text] = []
        rows: list[WelcomeRow] = []
        at: list[int | None] = []
        agents = self._agents_title
        for count in range(_MAX_ROWS, 0, -1):
            lines, rows, at = [], [], []
            for line in self._head(palette, width):
                lines.append(line)
                at.append(None)
            for title, found in self._sections():
                if title:
                    lines += [Text(), Text(title, palette.heading)]
                    at += [None, None]
                shown = found[: count if title in (_SESSIONS, agents) else None]
                column = _note_column(shown, width)
                for row in shown:
                    lines.append(self._row(row, palette, width, column, selected=len(rows) == self.selected))
                    at.append(len(rows))
                    rows.append(row)
            if len(lines) <= height - _OTHER_LINES - self._prompt_height():
                return lines, rows, at
        room = max(height - _OTHER_LINES - self._prompt_height(), 1)
        shown = [row for row in at[:room] if row is not None]
        return lines[:room], rows[: len(shown)], at[:room]

    def _head(self, palette: "Palette", width: int) -> list[Text]:
        """The agent with its model and key, and what is missing."""
        key, status = self.facts.key, self._status
        head = Text(clean_line(status.agent), palette.strong)
        problem = Text(f"! {one_line(key.problem)}" if key is not None and key.problem else "", palette.warn)
        if problem and key is not None and not key.model and head.cell_len + 3 + problem.cell_len <= width:
            return [head.append(" · ", palette.faint).append_text(problem)]
        model = one_line(clean_line(status.model or (key.model if key is not None else "")), 60)
        head.append(" · " if model else "", palette.faint).append(model, palette.text)
        if key is not None and key.key and not key.problem:
            head.append(" · ", palette.faint).append(f"key: {one_line(key.key, 60)}", palette.good)
        head.truncate(width, overflow="ellipsis")
        return [head, *wrap_words(problem, width)] if problem else [head]

    def _sections(self) -> Sequence[tuple[str, Sequence[WelcomeRow]]]:
        facts = self.facts
        sections: list[tuple[str, Sequence[WelcomeRow]]] = []
        if facts.key is not None and facts.key.problem:
            sign_in = "Enter the key of a model provider"
            tour = "Take the tour: two minutes, without a key"
            rows = [
                WelcomeRow("sign_in", sign_in, self._key_of("sign_in")),
                WelcomeRow("tour", tour, self._key_of("tour")),
            ]
            sections.append(("", rows))
        sections.append(("Try", [WelcomeRow("example", text) for text in EXAMPLES]))
        if facts.sessions:
            sections.append((_SESSIONS, facts.sessions))
        if facts.agents:
            sections.append((self._agents_title, facts.agents))
        return sections

    @property
    def _agents_title(self) -> str:
        return f"Agents · {self._key_of('agent')} lists all"

    def _row(self, row: WelcomeRow, palette: "Palette", width: int, column: int, *, selected: bool) -> Text:
        chosen = selected and self.has_focus
        line = Text(_ARROW if chosen else "  ", palette.accent, no_wrap=True)
        line.append(clean_line(row.name), palette.strong if chosen else palette.text)
        if row.note and column:
            line.truncate(column - _COLUMN_GAP, overflow="ellipsis")
            line.append(" " * (column - line.cell_len)).append(one_line(clean_line(row.note)), palette.muted)
        line.truncate(width, overflow="ellipsis", pad=chosen)
        if chosen:
            line.stylize_before(palette.prompt)
        return line

    # -- keys --

    def action_move(self, by: int) -> None:
        self.selected = min(max(self.selected + by, 0), max(len(self._rows) - 1, 0))
        self.refresh()

    def action_choose(self) -> None:
        if self._rows:
            self.post_message(self.Chosen(self._rows[self.selected]))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_click(self, event: "events.Click") -> None:
        offset = event.get_content_offset(self)
        row = self._row_lines[offset.y] if offset is not None and offset.y < len(self._row_lines) else None
        if row is not None:
            self.selected = row
            self.action_choose()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
