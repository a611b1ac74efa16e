"""Messages of the wire as rows, and one of them in full; cleaned of everything that a terminal would obey."""

import json
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text

from accord.trace import Seen
from accord.trace.summary import clean, clean_lines, cut, duration, size, summary
from accord.tui.lists.rows import Rows
from accord.tui.parts.code import highlighted

if TYPE_CHECKING:
    from accord.tui.palette import Palette

LONGEST: Final = 60_000
"""Characters of one message that are shown."""
_WIDE: Final = 76
_OTHERS: Final = {
    "noise": "no message",
    "cut": "too long",
    "stderr": "stderr",
    "closed": "closed",
    "exit": "exit",
    "lost": "lost",
}


class FrameRows(Rows):
    """One row for each."""

    def line(self, row: Any, width: int, palette: "Palette", marked: bool) -> Text:
        seen: Seen = row
        sent = seen.sender == "client"
        bad = seen.kind in ("error", "noise", "cut")
        style = palette.bad if bad else palette.accent if sent else palette.good
        if seen.sender == "stderr" or seen.kind in ("closed", "exit", "lost"):
            arrow, style = "·", palette.muted
        else:
            arrow = "→" if sent else "←"
        line = Text(f"{seen.at:>9.3f} ", palette.faint).append(f"{arrow} ", style)
        line.append(f"{name_of(seen):<28} ", palette.strong if marked else palette.text)
        line.append(f"{size(seen.size) if seen.size else '':>8} ", palette.muted)
        if width >= _WIDE:
            took = "" if seen.took is None else duration(seen.took)
            line.append(f"{took:>9}  ", palette.faint)
            room = max(width - cell_len(line.plain), 0)
            line.append(clean(summary(seen.step)[: room + 1]), palette.muted)
        return line


def name_of(seen: Seen) -> str:
    """What it is called: its method, and whether it answers."""
    name = seen.method or _OTHERS.get(seen.kind, seen.kind)
    sign = {"answer": "= ", "error": "✗ ", "request": "", "notification": ""}.get(seen.kind, "")
    id = f" #{seen.id}" if seen.id is not None else ""
    return cut(f"{sign}{clean(name)}{clean(id)}", 28)


def whole_text(seen: Seen) -> str:
    """All of it, its JSON on lines; what was a secret is not in it."""
    text = seen.entry.text if seen.kind not in ("closed", "exit", "lost") else summary(seen.step)
    if seen.kind not in ("noise", "cut", "stderr", "closed", "exit", "lost"):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # then as it came
    return clean_lines(text)


def drawn(seen: Seen, palette: "Palette") -> Text:
    """The same, with its head and in colours."""
    sides = {"client": "client → agent", "agent": "agent → client", "stderr": "stderr of the agent"}
    facts = [
        f"#{seen.number}",
        sides[seen.sender],
        seen.kind,
        clean(seen.method),
        size(seen.size),
        f"at {seen.at:.3f} s",
    ]
    if seen.took is not None:
        facts.append(f"took {duration(seen.took)}")
    if seen.session:
        facts.append(f"session {clean(seen.session)}")
    out = Text(" · ".join(filter(None, facts)), palette.muted).append("\n\n")
    text = whole_text(seen)
    for line in highlighted(text[:LONGEST], "json", palette):
        out.append_text(line).append("\n")
    if len(text) > LONGEST:
        out.append(f"… {len(text) - LONGEST:,} characters more; F8 copies all of it", palette.warn)
    return out
