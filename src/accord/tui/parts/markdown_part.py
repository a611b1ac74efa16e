"""Drawn Markdown, notes of the client, and warm-up imports."""

import gc
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from accord.safe_text import clean_text
from accord.tui.parts.part import DrawnPart, folded, highlighted, indented, lines_of, strip_of, wrapped

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

    from accord.tui.theme import Palette


# MERGED tui.parts.markdown: A piece of Markdown, drawn: paragraphs, headings, lists, quotes, tables and code.

WIDEST: Final = 110
"""Prose is not set wider: long lines are hard to read."""
MARGIN: Final = 2
"""Free cells to its left."""
_DEEPEST: Final = 12


class MarkdownPart(DrawnPart):
    """Some blocks of Markdown that no longer change, or the ones being written."""

    def __init__(self, text: str, *, gap: int = 1) -> None:
        super().__init__()
        self.text = text
        self.gap = gap

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        room = min(width - MARGIN, WIDEST)
        drawn = MarkdownDrawing(palette).of(self.text, room)
        return [strip_of(Text(" " * MARGIN).append_text(line)) for line in drawn]

    def estimate(self, width: int) -> int:
        return lines_of(self.text, min(width, WIDEST))


class MarkdownDrawing:
    """Draws a text with one palette."""

    def __init__(self, palette: "Palette") -> None:
        self._palette = palette
        self._blocks: dict[str, Callable[[Any, int, int], list[Text]]] = {
            "paragraph": self._inline_block,
            "inline": self._inline_block,
            "heading": self._heading,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "blockquote": self._quote,
            "fence": self._code,
            "code_block": self._code,
            "hr": self._rule,
            "table": self._table,
        }

    def of(self, text: str, width: int) -> list[Text]:
        """The lines."""
        from markdown_it.tree import SyntaxTreeNode

        root = SyntaxTreeNode(_parser().parse(text.expandtabs(4)))
        return self._all(root.children, width, 0)

    def _all(
        self, nodes: "Sequence[SyntaxTreeNode]", width: int, depth: int, *, tight: bool = False
    ) -> list[Text]:
        lines: list[Text] = []
        for node in nodes:
            draw = self._blocks.get(node.type)
            if draw is None or depth > _DEEPEST:
                drawn = wrapped(Text(_source(node), self._palette.text), width)
            else:
                drawn = draw(node, max(width, 8), depth)
            if lines and not tight:
                lines.append(Text())
            lines += drawn
        return lines

    def _inline_block(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        inline = node.children[0] if node.type == "paragraph" and node.children else node
        return wrapped(self._inline(inline, self._palette.text), width)

    def _heading(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        style = self._palette.heading if node.tag in ("h1", "h2") else self._palette.strong
        inline = node.children[0] if node.children else node
        return wrapped(self._inline(inline, style), width)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        lines: list[Text] = []
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
        for item in node.children:
            mark = f"{number}. " if node.type == "ordered_list" else ("• ", "◦ ", "▪ ")[min(depth, 2)]
            number += 1
            drawn = self._all(item.children, width - len(mark), depth + 1, tight=True)
            lines += indented(drawn, Text(mark, self._palette.accent), " " * len(mark))
        return lines

    def _quote(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        bar = Text("▎ ", self._palette.faint)
        drawn = self._all(node.children, width - 2, depth + 1)
        for line in drawn:
            line.stylize_before(self._palette.muted)
        return indented(drawn, bar, bar)

    def _code(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        language = (node.info or "").split()[0] if (node.info or "").split() else ""
        return code_block(node.content.rstrip("\n"), language, width, self._palette)

    def _rule(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        return [Text("─" * width, self._palette.faint)]

    def _table(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        rows: list[list[Text]] = []
        for section in node.children:
            for row in section.children:
                style = self._palette.strong if section.type == "thead" else self._palette.text
                rows.append(
                    [
                        self._inline(cell.children[0], style) if cell.children else Text()
                        for cell in row.children
                    ]
                )
        return _tabulated(rows, width, self._palette.faint)

    # -- within a line ------------------------------------------------------------------------------------------

    def _inline(self, node: "SyntaxTreeNode", style: Style) -> Text:
        out = Text(style=style)
        for child in node.children:
            self._span(child, style, out, 0)
        return out

    def _span(self, node: "SyntaxTreeNode", style: Style, out: Text, depth: int) -> None:
        palette = self._palette
        match node.type:
            case "text" | "html_inline":
                out.append(node.content, style)
            case "softbreak":
                out.append(" ", style)
            case "hardbreak":
                out.append("\n", style)
            case "code_inline":
                out.append(node.content, style + palette.code)
            case "strong":
                self._spans(node, style + Style(bold=True), out, depth)
            case "em":
                self._spans(node, style + Style(italic=True), out, depth)
            case "s":
                self._spans(node, style + Style(strike=True), out, depth)
            case "link":
                self._link(node, style, out, depth)
            case "image":
                out.append(f"[{node.content or 'image'}]", style + palette.link)
                out.append(f" ({node.attrs.get('src', '')})", palette.muted)
            case _:
                out.append(node.content or "", style)

    def _spans(self, node: "SyntaxTreeNode", style: Style, out: Text, depth: int) -> None:
        for child in node.children:
            if depth < _DEEPEST:
                self._span(child, style, out, depth + 1)

    def _link(self, node: "SyntaxTreeNode", style: Style, out: Text, depth: int) -> None:
        """The words, and where they lead to: nobody has to trust what a link calls itself."""
        before = len(out)
        self._spans(node, style + self._palette.link, out, depth)
        target = str(node.attrs.get("href", ""))
        if target and target != out.plain[before:]:
            out.append(f" ({target})", self._palette.muted)


def code_block(code: str, language: str, width: int, palette: "Palette") -> list[Text]:
    """Lines of code on their ground, filled to the width."""
    lines: list[Text] = []
    for line in highlighted(code, language, palette):
        for piece in folded(line, max(width - 2, 1)):
            shown = Text(" ").append_text(piece)
            shown.append(" " * max(width - cell_len(shown.plain), 0))
            shown.stylize_before(palette.block)
            lines.append(shown)
    return lines


def _tabulated(rows: list[list[Text]], width: int, faint: Style) -> list[Text]:
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    wanted = [
        max((cell_len(row[at].plain) for row in rows if at < len(row)), default=0) for at in range(columns)
    ]
    room = max(width - 3 * (columns - 1), columns)
    widths = _shares(wanted, room)
    lines: list[Text] = []
    for number, row in enumerate(rows):
        cells = [wrapped(row[at], widths[at]) if at < len(row) else [Text()] for at in range(columns)]
        for line in range(max(map(len, cells))):
            out = Text()
            for at, cell in enumerate(cells):
                if at:
                    out.append(" │ ", faint)
                piece = cell[line].copy() if line < len(cell) else Text()
                piece.rstrip()
                if at < columns - 1:
                    piece.append(" " * max(widths[at] - cell_len(piece.plain), 0))
                out.append_text(piece)
            lines.append(out)
        if number == 0:
            lines.append(Text("─┼─".join("─" * one for one in widths), faint))
    return lines


def _shares(wanted: list[int], room: int) -> list[int]:
    """What each column gets: the narrow ones what they want, the wide ones equal parts of the rest."""
    widths = [max(one, 1) for one in wanted]
    while sum(widths) > room:
        widest = max(widths)
        if widest == 1:
            break
        second = max((one for one in widths if one < widest), default=1)
        for at, one in enumerate(widths):
            if one == widest and sum(widths) > room:
                widths[at] = max(second, widest - max((sum(widths) - room) // widths.count(widest), 1), 1)
    return widths


def _source(node: "SyntaxTreeNode") -> str:
    return node.content or "".join(child.content or "" for child in node.walk() if child.type == "text")


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])


# MERGED tui.parts.note: Lines that this client itself puts into the conversation: how a turn ended, what went wrong, what can be done about it.

Tone: TypeAlias = Literal["quiet", "good", "warn", "bad"]

_SIGNS = {"quiet": "·", "good": "✓", "warn": "!", "bad": "✗"}


class NotePart(DrawnPart):
    """A note, and below it, indented, what belongs to it."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.text = text
        self.tone: Tone = tone
        self.details = details

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        styles = {"quiet": palette.muted, "good": palette.good, "warn": palette.warn, "bad": palette.bad}
        style = styles[self.tone]
        room = min(width - 4, WIDEST)
        lines: list[Text] = []
        for number, line in enumerate(clean_text(self.text).strip().split("\n")):
            sign = f"  {_SIGNS[self.tone]} " if number == 0 else "    "
            lines += indented(wrapped(Text(line, style), room), Text(sign, style), "    ")
        for line in clean_text(self.details).strip("\n").split("\n") if self.details.strip() else ():
            lines += indented(
                wrapped(Text(line, palette.muted), room - 2), Text("    │ ", palette.faint), "    │ "
            )
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        return 1 + self.details.count("\n")


# MERGED tui.parts.warming: What would hold the keys up if it happened at its own time: imports, done in a thread, and the collection of garbage.


def warm_up() -> None:
    """Have the parser of Markdown and the lexers at hand."""
    from markdown_it import MarkdownIt
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    MarkdownIt("commonmark").parse("warm")
    find_lexer_class_for_filename("a.py")
    for name in ("python", "bash", "json", "diff", "typescript"):
        get_lexer_by_name(name)
    leave_alone()


def leave_alone() -> None:
    """What is there now stays: the collector, which stops everything while it looks, need not look at it again."""
    gc.freeze()


def let_go() -> None:
    """A session is over: what it held may go."""
    gc.unfreeze()
