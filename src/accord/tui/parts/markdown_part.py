"""Markdown as parts of the transcript."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from accord.tui.parts.part import (
    DrawnPart,
    estimate_lines,
    highlight,
    prefix_lines,
    strip_of,
    wrap_cells,
    wrap_words,
)

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

    from accord.tui.theme import Palette


MAX_WIDTH: Final = 110
"""The maximum width of prose."""
MARGIN: Final = 2
"""Empty cells to the left."""
_MAX_DEPTH: Final = 12


class MarkdownPart(DrawnPart):
    """Some blocks of Markdown."""

    def __init__(self, text: str, *, gap: int = 1) -> None:
        super().__init__()
        self.text: str = text
        self.gap: int = gap

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        available = min(width - MARGIN, MAX_WIDTH)
        drawn = MarkdownDrawing(palette).draw(self.text, available)
        return [strip_of(Text(" " * MARGIN).append_text(line)) for line in drawn]

    def estimate(self, width: int) -> int:
        return estimate_lines(self.text, min(width, MAX_WIDTH))


class MarkdownDrawing:
    """Draws Markdown with one palette."""

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
            "hr": self._horizontal_rule,
            "table": self._table,
        }

    def draw(self, text: str, width: int) -> list[Text]:
        """Return the lines."""
        from markdown_it.tree import SyntaxTreeNode

        root = SyntaxTreeNode(_parser().parse(text.expandtabs(4)))
        return self._draw_all(root.children, width, 0)

    def _draw_all(
        self, nodes: "Sequence[SyntaxTreeNode]", width: int, depth: int, *, tight: bool = False
    ) -> list[Text]:
        lines: list[Text] = []
        for node in nodes:
            draw_block = self._blocks.get(node.type)
            if draw_block is None or depth > _MAX_DEPTH:
                drawn = wrap_words(Text(_plain_text(node), self._palette.text), width)
            else:
                drawn = draw_block(node, max(width, 8), depth)
            if lines and not tight:
                lines.append(Text())
            lines += drawn
        return lines

    def _inline_block(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        inline = node.children[0] if node.type == "paragraph" and node.children else node
        return wrap_words(self._inline(inline, self._palette.text), width)

    def _heading(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        style = self._palette.heading if node.tag in ("h1", "h2") else self._palette.strong
        inline = node.children[0] if node.children else node
        return wrap_words(self._inline(inline, style), width)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        lines: list[Text] = []
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
        for item in node.children:
            bullet = f"{number}. " if node.type == "ordered_list" else ("• ", "◦ ", "▪ ")[min(depth, 2)]
            number += 1
            done = _take_task_mark(item)
            if done is not None:
                bullet = ("" if bullet[0] in "•◦▪" else bullet) + ("☑ " if done else "☐ ")
            drawn = self._draw_all(item.children, width - len(bullet), depth + 1, tight=True)
            lines += prefix_lines(drawn, Text(bullet, self._palette.accent), " " * len(bullet))
        return lines

    def _quote(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        bar = Text("▎ ", self._palette.faint)
        drawn = self._draw_all(node.children, width - 2, depth + 1)
        for line in drawn:
            line.stylize_before(self._palette.muted)
        return prefix_lines(drawn, bar, bar)

    def _code(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
        language = (node.info or "").split()[0] if (node.info or "").split() else ""
        return draw_code(node.content.rstrip("\n"), language, width, self._palette)

    def _horizontal_rule(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Text]:
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
        sides = [
            str(cell.attrs.get("style", "")).rpartition(":")[2]
            for cell in node.children[0].children[0].children
        ]
        return _draw_table(rows, sides, width, self._palette.faint)

    # -- inline text --

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
                out.append(node.content, style + palette.inline_code)
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
            if depth < _MAX_DEPTH:
                self._span(child, style, out, depth + 1)

    def _link(self, node: "SyntaxTreeNode", style: Style, out: Text, depth: int) -> None:
        """Draw the text and the target of a link, so that the text cannot mislead."""
        before = len(out)
        self._spans(node, style + self._palette.link, out, depth)
        target = str(node.attrs.get("href", ""))
        if target and target != out.plain[before:]:
            out.append(f" ({target})", self._palette.muted)


def draw_code(code: str, language: str, width: int, palette: "Palette") -> list[Text]:
    """Return highlighted lines of code with a background, filled to the width."""
    lines: list[Text] = []
    for line in highlight(code, language, palette):
        for piece in wrap_cells(line, max(width - 2, 1)):
            drawn_line = Text(" ").append_text(piece)
            drawn_line.append(" " * max(width - cell_len(drawn_line.plain), 0))
            drawn_line.stylize_before(palette.code_block)
            lines.append(drawn_line)
    return lines


_TASK_MARKS: Final = {"[ ] ": False, "[x] ": True, "[X] ": True}


def _take_task_mark(item: "SyntaxTreeNode") -> bool | None:
    """Remove the mark of a task from a list item. Return whether the task is done; None if it is no task."""
    paragraph = item.children[0] if item.children else None
    if paragraph is None or paragraph.type != "paragraph" or not paragraph.children[0].children:
        return None
    first = paragraph.children[0].children[0]
    done = _TASK_MARKS.get(first.content[:4]) if first.type == "text" and first.token else None
    if done is not None and first.token is not None:
        first.token.content = first.content[4:]
    return done


def _draw_table(rows: list[list[Text]], sides: Sequence[str], width: int, faint: Style) -> list[Text]:
    """Draw the rows, the first as the head. `sides` are where the text of each column is."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    natural_widths = [
        max((cell_len(row[column].plain) for row in rows if column < len(row)), default=0)
        for column in range(columns)
    ]
    available = max(width - 3 * (columns - 1), columns)
    widths = _column_widths(natural_widths, available)
    lines: list[Text] = []
    for number, row in enumerate(rows):
        cells = [
            wrap_words(row[column], widths[column]) if column < len(row) else [Text()]
            for column in range(columns)
        ]
        for line_number in range(max(map(len, cells))):
            out = Text()
            for column, cell in enumerate(cells):
                if column:
                    out.append(" │ ", faint)
                piece = cell[line_number].copy() if line_number < len(cell) else Text()
                piece.rstrip()
                space = max(widths[column] - cell_len(piece.plain), 0)
                side = sides[column] if column < len(sides) else ""
                before = space if side == "right" else space // 2 if side == "center" else 0
                out.append(" " * before).append_text(piece)
                if column < columns - 1:
                    out.append(" " * (space - before))
            lines.append(out)
        if number == 0:
            lines.append(Text("─┼─".join("─" * column_width for column_width in widths), faint))
    return lines


def _column_widths(natural_widths: list[int], available: int) -> list[int]:
    """Return the column widths: narrow columns get what they need, wide ones share the rest."""
    widths = [max(width, 1) for width in natural_widths]
    while sum(widths) > available:
        widest = max(widths)
        if widest == 1:
            break
        second = max((width for width in widths if width < widest), default=1)
        for column, width in enumerate(widths):
            if width == widest and sum(widths) > available:
                widths[column] = max(
                    second, widest - max((sum(widths) - available) // widths.count(widest), 1)
                )
    return widths


def _plain_text(node: "SyntaxTreeNode") -> str:
    return node.content or "".join(child.content or "" for child in node.walk() if child.type == "text")


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
