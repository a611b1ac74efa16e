"""Records the demo of the README: `python -m tests.cli.demo_recording` writes docs/images/demo.svg.

A real `accord run` on a terminal. In the picture its lines appear one after another, once.
"""

import os
import re
import tempfile
from html import escape
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from tests.cli.terminal import in_terminal

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"
PROMPT = "plan: read; fix the greeting then read greeting.py then replace Helo with Hello in greeting.py"
CODE = 'def greet(name):\n    return f"Helo, {name}!"\n'

_ERASED_LINE = re.compile(r"^[^\n]*\r\x1b\[J", re.MULTILINE)  # a status line that another one replaced
_SESSION = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_CONSOLE = Console(width=200)
_COLUMNS, _CHAR, _LINE, _MARGIN = 110, 8.43, 18, 14
_TYPING, _STEP, _QUESTION = 1.6, 0.12, 1.5
"""Seconds until the command is typed, between two lines, and until the user answers."""


def record() -> str:
    """Run the command and return what the terminal showed."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        Path(folder, "greeting.py").write_text(CODE)
        env = {**os.environ, "ACCORD_HOME": home, "ACCORD_MODEL": "rehearsal", "COLUMNS": str(_COLUMNS)}
        with in_terminal("run", "--cwd", folder, PROMPT, env=env) as terminal:
            terminal.expect("Choose 1-")
            terminal.type("1\n")
            terminal.end()
    shown = _ERASED_LINE.sub("", terminal.shown.replace("\r\n", "\n"))
    return _SESSION.sub("5f0c6a1e-...", shown.replace(folder, "/home/me/project"))


def draw(shown: str) -> str:
    """Return the SVG of a recording."""
    lines = [Text.assemble(("$ ", "dim"), (f'accord run "{PROMPT}"', "bold")), Text()]
    lines += [Text.from_ansi(line) for line in shown.rstrip().split("\n")]
    start, rows, row = _TYPING, "", 0
    for line in lines:
        for piece in _wrapped(line):
            rows += _row(piece, row, 0.3 if row < 2 else start)
            row += 1
        start += _STEP + (_QUESTION if line.plain.startswith("Choose") else 0)
    width, height = round(_COLUMNS * _CHAR + 2 * _MARGIN), row * _LINE + 2 * _MARGIN
    ink, ground = DIMMED_MONOKAI.foreground_color.hex, DIMMED_MONOKAI.background_color.hex
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>accord run: the agent plans, reads a file, asks before it edits, and edits</title>
<style>
text {{ font: 14px Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {ink} }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation: show .2s backwards }} }}
@keyframes show {{ from {{ opacity: 0 }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="{ground}"/>
{rows}</svg>
"""


def _wrapped(line: Text) -> list[Text]:
    return [line[start : start + _COLUMNS] for start in range(0, max(len(line), 1), _COLUMNS)]


def _row(line: Text, row: int, start: float) -> str:
    if not line.plain.strip():
        return ""
    y = _MARGIN + row * _LINE + 14
    spans = "".join(_span(segment) for segment in line.render(_CONSOLE))
    style = f"animation-delay:{start:.2f}s"
    return f'<text x="{_MARGIN}" y="{y}" style="{style}" xml:space="preserve">{spans}</text>\n'


def _span(segment: Segment) -> str:
    text = escape(segment.text, quote=False)
    style = segment.style
    if style is None or not (style.color or style.dim or style.bold):
        return text
    attributes = f' fill="{style.color.get_truecolor(DIMMED_MONOKAI).hex}"' if style.color else ""
    attributes += ' opacity=".6"' if style.dim else ""
    attributes += ' font-weight="bold"' if style.bold else ""
    return f"<tspan{attributes}>{text}</tspan>"


if __name__ == "__main__":
    IMAGE.write_text(draw(record()), "utf-8")
