"""The base of everything drawn as lines; highlighted code."""

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


# MERGED tui.parts.part: One part of the conversation: a piece that is drawn, measured and forgotten on its own.
#
# A part knows how to make its lines for a width. Whether they are kept is the layout's business, so what is far from the screen costs
# only its text.


class DrawnPart:
    """Something that is drawn. `height` and `kept` belong to the layout."""

    gap = 1
    """Empty lines above it."""

    def __init__(self) -> None:
        self.height: int | None = None
        self.kept: list[Strip] | None = None

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        """Its lines, none wider than the width."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """About how many lines that will be, without drawing them."""
        return 1

    def forget(self) -> None:
        """It has changed: it is drawn and measured anew."""
        self.height = self.kept = None


@lru_cache(maxsize=1)
def console() -> Console:
    """What rich's texts are rendered with; it writes nowhere."""
    return Console(
        width=1000, color_system="truecolor", force_terminal=True, file=StringIO(), legacy_windows=False
    )


def strip_of(text: Text, *, ground: Style | None = None, width: int = 0) -> Strip:
    """A text of one line as a strip; with a ground it is filled up to the width."""
    if text.spans:
        segments = list(text.render(console()))
    else:  # rich leaves the style of the whole to whoever prints it
        segments = [Segment(text.plain, console().get_style(text.style))]
    strip = Strip(segments, cell_len(text.plain))
    if ground is None:
        return strip
    if strip.cell_length < width:
        strip = strip.extend_cell_length(width)
    return strip.apply_style(ground)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text on lines of at most so many cells, broken between words where that goes."""
    if "\n" not in text.plain and cell_len(text.plain) <= width:
        return [text]
    return list(text.wrap(console(), max(width, 1), overflow="fold", tab_size=4)) or [text]


def folded(text: Text, width: int) -> list[Text]:
    """One line of code or output on as many lines as it needs, broken anywhere: its spaces stay as they are."""
    if cell_len(text.plain) <= width:
        return [text]
    cuts: list[int] = []
    used = 0
    for at, char in enumerate(text.plain):
        cells = 1 if char.isascii() else cell_len(char)
        if used + cells > width:
            cuts.append(at)
            used = 0
        used += cells
    return list(text.divide(cuts))


def indented(lines: Iterable[Text], first: Text, rest: str | Text) -> list[Text]:
    """The lines with something in front of the first, and of the others."""
    out: list[Text] = []
    for number, line in enumerate(lines):
        lead = first.copy() if number == 0 else Text(rest) if isinstance(rest, str) else rest.copy()
        out.append(lead.append_text(line))
    return out or [first]


def lines_of(text: str, width: int) -> int:
    """About how many lines a text takes."""
    return text.count("\n") + 1 + len(text) // max(width, 1)


# MERGED tui.parts.code: Code with its colours: lexed by pygments, painted with the palette.

LONGEST: Final = 200_000
"""Characters; more is shown without colours."""
_LONGEST_LINE: Final = 5_000
_KINDS: Final = (
    ("Comment", "comment"), ("Keyword.Type", "type"), ("Keyword.Constant", "number"), ("Keyword", "keyword"),
    ("Name.Class", "type"), ("Name.Builtin", "name"), ("Name.Function", "name"), ("Name.Decorator", "type"),
    ("Name.Tag", "keyword"), ("Name.Attribute", "name"), ("Name.Exception", "type"),
    ("Literal.String", "string"), ("Literal.Number", "number"), ("Literal", "string"),
    ("Operator.Word", "keyword"), ("Operator", "operator"),
    ("Generic.Heading", "keyword"), ("Generic.Inserted", "string"), ("Generic.Deleted", "number"),
)  # fmt: skip


def highlighted(code: str, language: str, palette: "Palette") -> list[Text]:
    """The lines of some code, which has been cleaned. A language that nobody knows stays plain."""
    code = code.expandtabs(4)
    lexer = _lexer(language) if language and len(code) <= LONGEST else None
    plain = palette.tokens["plain"]
    if lexer is None or _has_endless_line(code):
        return [Text(line, plain) for line in code.split("\n")]
    lines = [Text(style=plain)]
    for kind, value in lexer.get_tokens(code):
        style = palette.tokens.get(_kind(kind))
        pieces = value.split("\n")
        for number, piece in enumerate(pieces):
            if number:
                lines.append(Text(style=plain))
            if piece:
                lines[-1].append(piece, style)
    wanted = code.count("\n") + 1
    del lines[wanted:]
    lines += [Text(style=plain) for _ in range(wanted - len(lines))]
    return lines


@lru_cache(maxsize=512)
def language_of(path: str) -> str:
    """The name of the language a file is in, by its name; "" where nobody knows."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(path.rpartition("/")[2][:200])
    return found.aliases[0] if found is not None and found.aliases else ""


def _has_endless_line(code: str) -> bool:
    return len(code) > _LONGEST_LINE and any(len(line) > _LONGEST_LINE for line in code.split("\n"))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language[:40].lower(), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _kind(token: Any) -> str:
    name = str(token).removeprefix("Token.")
    return next((kind for prefix, kind in _KINDS if name.startswith(prefix)), "plain")
