"""Tool calls as lines, live and finished, with small diffs."""

import difflib
import os
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.cli.output.terminal_screen import CYAN, DIM, GREEN, PLAIN, RED, YELLOW, Look, Style, cells, cut
from accord.clock import Clock
from accord.frontend.display_text import outcome, seconds, short, words_of
from accord.safe_text import clean_line, clean_text, one_line
from accord.schema import Content, Diff, Terminal
from accord.session import ToolCallState

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.client.client_events import TerminalView


# MERGED cli.output.diffs: A change of a file as a few lines: what goes, what comes, and the lines around it.

CONTEXT: Final = 3
LONGEST: Final = 60
"""So many lines of a change are shown."""
LONGEST_LINE: Final = 500
"""So many cells of a line."""
_TOO_MUCH: Final = 20_000
"""Files of more lines are not compared: that would take long. The counts are told."""

_DIFF_STYLES: Final[dict[str, Look]] = {"+": GREEN, "-": RED, "@": CYAN}


def diff_lines(diff: Diff, style: Style, *, path: str | None = None, longest: int = LONGEST) -> list[str]:
    """The change in unified form, a headline first: the path, and how many lines come and go."""
    before = _lines(diff.old_text or "")
    after = _lines(diff.new_text)
    new = not isinstance(diff.old_text, str)
    name = clean_line(path or diff.path)
    if len(before) + len(after) > _TOO_MUCH:
        return [_headline(name, style, "" if new else f"{len(before)} lines before, ", f"{len(after)} lines")]
    changed = list(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]
    added = sum(line.startswith("+") for line in changed)
    removed = sum(line.startswith("-") for line in changed)
    lines = [_headline(name, style, "new, " if new else "", f"+{added} -{removed}")]
    if new:
        changed = changed[1:]  # all of it comes: where says nothing
    lines += [
        style.paint(cut(line, LONGEST_LINE), _DIFF_STYLES.get(line[:1], PLAIN)) for line in changed[:longest]
    ]
    if len(changed) > longest:
        lines.append(style.paint(f"{style.signs.more} {len(changed) - longest} more lines", DIM))
    return lines


def _headline(name: str, style: Style, note: str, counts: str) -> str:
    return f"{name} {style.paint(f'({note}{counts})', DIM)}"


def _lines(text: str) -> list[str]:
    return clean_text(text).expandtabs(4).splitlines()


# MERGED cli.output.toolcalls: Tool calls as lines: how far, what sort, what, where, how long; and below a finished one what came of it.

TAIL: Final = 10
"""So many lines of what a command printed are shown."""
_TAIL_CHARACTERS: Final = 16 * 1024
_LONGEST_TITLE: Final = 300
_LOCATIONS: Final = 2
_INDENT: Final = "    "

_LOOKS: Final[dict[str, Look]] = {
    "pending": DIM,
    "in_progress": CYAN,
    "completed": GREEN,
    "failed": RED,
    "cancelled": YELLOW,
    "ended without a result": YELLOW,
}


@dataclass(slots=True)
class ToolCallLines:
    """A tool call and what is on the screen of it."""

    call: ToolCallState
    began: float
    took: float | None = None
    told: bool = False
    """Whether its line is out."""
    detailed: bool = False
    """Whether what came of it is."""


def call_line(
    shown: ToolCallLines,
    style: Style,
    duration: float,
    cwd: str,
    *,
    width: int | None = None,
    frame: str = "",
) -> str:
    """The line of a call, at most so many cells wide; `frame` turns instead of the sign while it runs."""
    call, how = shown.call, outcome(shown.call)
    signs = style.signs
    sign = {
        "pending": signs.pending,
        "in_progress": frame or signs.running,
        "completed": signs.done,
        "failed": signs.failed,
        "cancelled": signs.cancelled,
    }.get(how, signs.unknown)
    kind = one_line(clean_text(call.display_kind), 20)
    words = [] if how in ("completed", "in_progress") else [one_line(how, 40)]
    end = f" ({', '.join([*words, seconds(duration)])})"
    head = f"{sign} {kind} " if kind != "other" else f"{sign} "
    title = one_line(clean_text(call.label), _LONGEST_TITLE)
    where = _where(call, cwd, title)
    if width is not None:
        room = width - cells(head) - cells(end)
        title = cut(title, room)
        where = where if cells(where) <= room - cells(title) else ""
    look = _LOOKS.get(how, PLAIN)
    return (
        style.paint(sign, look)
        + style.paint(head[len(sign) :], DIM)
        + title
        + style.paint(where + end, RED if how == "failed" else DIM)
    )


def details(
    call: ToolCallState, style: Style, cwd: str, terminals: "Mapping[str, TerminalView]"
) -> list[str]:
    """What came of a finished call: its diffs, what its commands printed, and why it failed."""
    lines: list[str] = []
    for item in call.content:
        match item:
            case Diff():
                lines += diff_lines(item, style, path=short(item.path, cwd))
            case Terminal():
                view = terminals.get(item.terminal_id)
                gone = style.paint("(a terminal that is not here)", DIM)
                lines += [gone] if view is None else _printed(view, style)
            case Content() if call.kind == "execute" or call.status == "failed":
                lines += tail(words_of(item.content), style)
            case _:
                pass
    return [_INDENT + line for line in lines]


def last_words(view: "TerminalView") -> str:
    """The last line that a command printed, so far."""
    lines = _settled(view.text[-_TAIL_CHARACTERS:])
    return lines[-1] if lines else ""


def tail(text: str, style: Style) -> list[str]:
    """The end of what was printed; the fence that agents put around it is no part of it."""
    lines = _settled(text[-_TAIL_CHARACTERS:])
    if lines and lines[0].startswith("```"):
        lines = lines[1:]
    if lines and lines[-1].startswith("```"):
        lines = lines[:-1]
    kept = [style.paint(cut(line, LONGEST_LINE), DIM) for line in lines[-TAIL:]]
    left = len(lines) - len(kept)
    if left or len(text) > _TAIL_CHARACTERS:
        kept.insert(0, style.paint(f"{style.signs.more} {left} lines before", DIM))
    return kept


def _printed(view: "TerminalView", style: Style) -> list[str]:
    lines = tail(view.text, style)
    status = view.exit_status
    if status is not None and (status.exit_code or status.signal):
        how = f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
        lines.append(style.paint(one_line(how), RED))
    return lines


def _settled(text: str) -> list[str]:
    """The lines as a terminal shows them in the end: what was written over is gone."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return clean_text("\n".join(lines)).expandtabs(8).strip("\n").split("\n") if text.strip() else []


def _where(call: ToolCallState, cwd: str, title: str) -> str:
    names: list[str] = []
    for location in call.locations[:_LOCATIONS]:
        name = one_line(clean_text(short(location.path, cwd)))
        if location.line:
            name += f":{location.line}"
        if name not in title and name not in names and os.path.basename(location.path) not in title:
            names.append(name)
    more = len(call.locations) - _LOCATIONS
    if names and more > 0:
        names.append(f"+{more}")
    return f"  {' '.join(names)}" if names else ""


# MERGED cli.output.calls: The tool calls of a turn: live lines while they run, lines that stay once they are done.

_MOST_LIVE: Final = 6


class ToolCallDisplay:
    """What is known of each call, and what of it is on the screen."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._session: ClientSession | None = None
        self._known: dict[str, ToolCallLines] = {}
        self._running: dict[str, ToolCallLines] = {}

    def opened(self, session: "ClientSession") -> None:
        """The session whose calls come."""
        self._session = session

    def changed(self, call: ToolCallState) -> list[str]:
        """A call appeared or changed: the lines that are to stay, often none."""
        shown = self._known.get(call.tool_call_id)
        if shown is None:
            shown = self._known[call.tool_call_id] = ToolCallLines(call, self._clock.now())
            self._running[call.tool_call_id] = shown
        shown.call = call
        return [] if call.open else self._ended(shown)

    def waited(self, call_id: str) -> None:
        """A call waited for an answer until now: that is not its own time."""
        if call_id in self._running:
            self._running[call_id].began = self._clock.now()

    def left_open(self) -> list[str]:
        """The turn is over: the lines of the calls that never ended."""
        lines: list[str] = []
        for call_id, shown in list(self._running.items()):
            known = None if self._session is None else self._session.state.tool_calls.get(call_id)
            shown.call = copy(known or shown.call)
            shown.call.give_up("ended_without_result")
            lines += self._ended(shown)
        return lines

    def live(self, width: int, frame: str) -> list[str]:
        """The calls that run, and what their commands printed last."""
        lines: list[str] = []
        running = list(self._running.values())
        for shown in running[:_MOST_LIVE]:
            took = self._clock.now() - shown.began
            lines.append(call_line(shown, self._style, took, self._cwd, width=width, frame=frame))
            last = self._last_words(shown.call)
            if last:
                lines.append(self._style.paint(cut(f"    {last}", width), DIM))
        if len(running) > _MOST_LIVE:
            lines.append(self._style.paint(f"and {len(running) - _MOST_LIVE} more", DIM))
        return lines

    @property
    def _cwd(self) -> str:
        return "" if self._session is None else self._session.state.cwd

    @property
    def _views(self) -> "Mapping[str, TerminalView]":
        return {} if self._session is None else self._session.terminals

    def _last_words(self, call: ToolCallState) -> str:
        views = self._views
        for terminal_id in reversed(call.terminal_ids):
            if terminal_id in views:
                return last_words(views[terminal_id])
        return ""

    def _ended(self, shown: ToolCallLines) -> list[str]:
        self._running.pop(shown.call.tool_call_id, None)
        lines: list[str] = []
        if not shown.told:
            shown.told = True
            shown.took = self._clock.now() - shown.began
            lines.append(call_line(shown, self._style, shown.took, self._cwd))
        if not shown.detailed:  # some agents tell that it is done first, and then what came of it
            came = details(shown.call, self._style, self._cwd, self._views)
            shown.detailed = bool(came)
            lines += came
        return lines
