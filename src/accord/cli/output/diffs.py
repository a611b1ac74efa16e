"""A change of a file as a few lines: what goes, what comes, and the lines around it."""

import difflib
from typing import Final

from accord.cleaning import clean_line, clean_text
from accord.cli.output.style import CYAN, DIM, GREEN, PLAIN, RED, Look, Style
from accord.cli.output.width import cut
from accord.schema import Diff

CONTEXT: Final = 3
LONGEST: Final = 60
"""So many lines of a change are shown."""
LONGEST_LINE: Final = 500
"""So many cells of a line."""
_TOO_MUCH: Final = 20_000
"""Files of more lines are not compared: that would take long. The counts are told."""

_LOOKS: Final[dict[str, Look]] = {"+": GREEN, "-": RED, "@": CYAN}


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
    lines += [style.paint(cut(line, LONGEST_LINE), _LOOKS.get(line[:1], PLAIN)) for line in changed[:longest]]
    if len(changed) > longest:
        lines.append(style.paint(f"{style.signs.more} {len(changed) - longest} more lines", DIM))
    return lines


def _headline(name: str, style: Style, note: str, counts: str) -> str:
    return f"{name} {style.paint(f'({note}{counts})', DIM)}"


def _lines(text: str) -> list[str]:
    return clean_text(text).expandtabs(4).splitlines()
