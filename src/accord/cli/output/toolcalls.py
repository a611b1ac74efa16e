"""Tool calls as lines: how far, what sort, what, where, how long; and below a finished one what came of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.cleaning import clean_text, one_line
from accord.cli.output.diffs import LONGEST_LINE, diff_lines
from accord.cli.output.style import CYAN, DIM, GREEN, PLAIN, RED, YELLOW, Look, Style
from accord.cli.output.width import cells, cut
from accord.client.words import outcome, seconds, short, words_of
from accord.schema import Content, Diff, Terminal
from accord.session import ToolCallState

if TYPE_CHECKING:
    from accord.client.terminals import TerminalView

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
class ShownCall:
    """A tool call and what is on the screen of it."""

    call: ToolCallState
    began: float
    took: float | None = None
    told: bool = False
    """Whether its line is out."""
    detailed: bool = False
    """Whether what came of it is."""


def call_line(
    shown: ShownCall, style: Style, duration: float, cwd: str, *, width: int | None = None, frame: str = ""
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
