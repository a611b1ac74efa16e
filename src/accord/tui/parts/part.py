"""`DrawnPart`, the base of everything that is drawn as lines, and helpers for text and code."""

import json
from collections.abc import Iterable
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

if TYPE_CHECKING:
    from accord.tui.theme import Palette


class DrawnPart:
    """A part of an item that draws its lines for a width.

    The layout sets `height` and `lines` and drops the lines of parts that are far from the screen.
    """

    gap: int = 1
    """Empty lines above the part."""

    def __init__(self) -> None:
        self.height: int | None = None
        self.lines: list[Strip] | None = None

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        """Return the lines, none wider than `width`."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """Estimate the number of lines without drawing them."""
        return 1

    def invalidate(self) -> None:
        """Draw and measure the part again: it has changed."""
        self.height = self.lines = None


@lru_cache(maxsize=1)
def console() -> Console:
    """Return the console that renders rich texts; it prints nothing."""
    return Console(
        width=1000, color_system="truecolor", force_terminal=True, file=StringIO(), legacy_windows=False
    )


def strip_of(text: Text, *, background: Style | None = None, width: int = 0) -> Strip:
    """Convert a text of one line to a strip; with a background, fill it up to the width."""
    if text.spans:
        segments = list(text.render(console()))
    else:  # rich does not apply the base style here
        segments = [Segment(text.plain, console().get_style(text.style))]
    strip = Strip(segments, cell_len(text.plain))
    if background is None:
        return strip
    if strip.cell_length < width:
        strip = strip.extend_cell_length(width)
    return strip.apply_style(background)


def wrap_words(text: Text, width: int) -> list[Text]:
    """Wrap a text between words."""
    if "\n" not in text.plain and cell_len(text.plain) <= width:
        return [text]
    out: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        pieces = list(line.wrap(console(), max(width, 1), overflow="fold", tab_size=4)) or [line]
        out += _joined(pieces, line.plain)
    return out or [text]


def wrap_cells(text: Text, width: int) -> list[Text]:
    """Wrap one line of code or output at any character; keeps spaces."""
    if cell_len(text.plain) <= width:
        return [text]
    cuts: list[int] = []
    used = 0
    for index, char in enumerate(text.plain):
        cells = 1 if char.isascii() else cell_len(char)
        if used + cells > width:
            cuts.append(index)
            used = 0
        used += cells
    return _joined(list(text.divide(cuts)), text.plain)


_WRAP: Final = "wrap"


def _joined(pieces: list[Text], line: str) -> list[Text]:
    """Note in each further piece of a wrapped line what was between it and the one before."""
    at = 0
    for number, piece in enumerate(pieces):
        plain = piece.plain
        start = at + len(line[at:]) - len(line[at:].lstrip()) if plain[:1].strip() else at
        if number and plain:
            before = pieces[number - 1].plain
            joiner = before[len(before.rstrip()) :] + line[at:start]
            piece.stylize(Style.from_meta({_WRAP: joiner}), 0, 1)
        at = start + len(plain)
    return pieces


def soft_wrap(strip: Strip) -> tuple[int, str] | None:
    """Where the text of a wrapped line continues, and what is between it and the line before; else None."""
    at = 0
    for text, style, _ in strip:
        if style is not None and (joiner := style.meta.get(_WRAP)) is not None:
            return at, joiner
        at += len(text)
    return None


def prefix_lines(lines: Iterable[Text], first: Text, other_prefix: str | Text) -> list[Text]:
    out: list[Text] = []
    for number, line in enumerate(lines):
        prefix = (
            first.copy()
            if number == 0
            else Text(other_prefix)
            if isinstance(other_prefix, str)
            else other_prefix.copy()
        )
        out.append(prefix.append_text(line))
    return out or [first]


def estimate_lines(text: str, width: int) -> int:
    """Estimate the number of lines of a text."""
    return text.count("\n") + 1 + len(text) // max(width, 1)


def json_value_text(value: Any) -> str:
    """Format a JSON value for reading, at most 20,000 characters of it."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    omitted = len(text) - _MAX_VALUE_LENGTH
    return text if omitted <= 0 else f"{text[:_MAX_VALUE_LENGTH]}\n… {omitted} more characters"


_MAX_VALUE_LENGTH: Final = 20_000
MAX_HIGHLIGHTED: Final = 200_000
"""Characters; longer code is not highlighted."""
_MAX_LINE: Final = 5_000
_TOKEN_KINDS: Final = (
    ("Comment", "comment"), ("Keyword.Type", "type"), ("Keyword.Constant", "number"), ("Keyword", "keyword"),
    ("Name.Class", "type"), ("Name.Builtin", "name"), ("Name.Function", "name"), ("Name.Decorator", "type"),
    ("Name.Tag", "keyword"), ("Name.Attribute", "name"), ("Name.Exception", "type"),
    ("Literal.String", "string"), ("Literal.Number", "number"), ("Literal", "string"),
    ("Operator.Word", "keyword"), ("Operator", "operator"),
    ("Generic.Heading", "keyword"), ("Generic.Inserted", "string"), ("Generic.Deleted", "number"),
)  # fmt: skip


def highlight(code: str, language: str, palette: "Palette") -> list[Text]:
    """Return the highlighted lines of cleaned code; plain lines if the language is unknown."""
    code = code.expandtabs(4)
    lexer = _lexer(language) if language and len(code) <= MAX_HIGHLIGHTED else None
    plain = palette.code_tokens["plain"]
    if lexer is None or _has_long_line(code):
        return [Text(line, plain) for line in code.split("\n")]
    lines = [Text(style=plain)]
    for kind, value in lexer.get_tokens(code):
        style = palette.code_tokens.get(_token_kind(kind))
        pieces = value.split("\n")
        for number, piece in enumerate(pieces):
            if number:
                lines.append(Text(style=plain))
            if piece:
                lines[-1].append(piece, style)
    line_count = code.count("\n") + 1
    del lines[line_count:]
    lines += [Text(style=plain) for _ in range(line_count - len(lines))]
    return lines


@lru_cache(maxsize=512)
def language_of(path: str) -> str:
    """Return the language of a file by its name; empty if it is unknown."""
    from pygments.lexers import find_lexer_class_for_filename

    lexer_class = find_lexer_class_for_filename(path.rpartition("/")[2][:200])
    return lexer_class.aliases[0] if lexer_class is not None and lexer_class.aliases else ""


def _has_long_line(code: str) -> bool:
    return len(code) > _MAX_LINE and any(len(line) > _MAX_LINE for line in code.split("\n"))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language[:40].lower(), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _token_kind(token: Any) -> str:
    name = str(token).removeprefix("Token.")
    return next((kind for prefix, kind in _TOKEN_KINDS if name.startswith(prefix)), "plain")
