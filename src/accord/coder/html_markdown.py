"""Converts HTML to Markdown. Run as a script: HTML on standard input, the address of the page as argument.

A hostile page could keep the parser busy forever, so each page is converted in its own process. Standard
library only.
"""

import re
import signal
import sys
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SKIPPED: Final = _tags("script style noscript template svg math iframe object canvas select textarea")
_BLOCKS: Final = _tags(
    "address article aside body details dialog dd div dl dt fieldset figcaption figure footer form header "
    "hgroup hr html main menu nav p section summary table tbody tfoot thead tr caption center"
)
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_EMPHASIS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_VOID: Final = _tags("area base br col embed hr img input link meta source track wbr")
_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")
_MANY_LINES: Final = re.compile(r"\n{3,}")


class _MarkdownLines:
    """Collects the lines of Markdown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line = ""
        self.prefixes: list[str] = []
        """The prefixes of each line: quote marks and the indentation of lists."""
        self.bullet = ""
        """Replaces the last prefix of the next line."""

    def write(self, text: str) -> None:
        """Add running text; white space between words becomes one space."""
        text = _BLANKS.sub(" ", text)
        self.line += text.lstrip(" ") if not self.line or self.line.endswith(" ") else text

    def end_line(self, *, blank: bool = False) -> None:
        """Start a new line, with an empty line before it if `blank`."""
        text = self.line.rstrip(" ")
        if text:
            before = "".join(self.prefixes)
            if self.bullet:
                before = "".join(self.prefixes[:-1]) + self.bullet
                self.bullet = ""
            self.lines.append(before + text)
        self.line = ""
        if blank and self.lines and not self.bullet:
            empty = "".join(prefix for prefix in self.prefixes if ">" in prefix).rstrip()
            if self.lines[-1].strip("> "):
                self.lines.append(empty)
            else:
                self.lines[-1] = empty


class _MarkdownParser(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._base = base
        self._out = _MarkdownLines()
        self._skipped: list[str] = []
        self._in_title = False
        self._pre: list[str] | None = None
        self._links: list[tuple[str, int]] = []
        self._lists: list[int | None] = []
        self._cells: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self._skipped:
            self._in_title = True
        if self._skipped or tag in _SKIPPED:
            if tag not in _VOID:
                self._skipped += [tag] * (not self._skipped or tag == self._skipped[0])
            return
        attributes = {name: value or "" for name, value in attrs}
        out = self._out
        if self._pre is not None:
            return
        if tag == "pre":
            out.end_line(blank=True)
            self._pre = []
        elif tag in _HEADINGS:
            out.end_line(blank=True)
            out.write(f"{_HEADINGS[tag]} ")
        elif tag in ("ul", "ol"):
            out.end_line(blank=not self._lists)
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._item()
        elif tag == "blockquote":
            out.end_line(blank=True)
            out.prefixes.append("> ")
        elif tag == "br":
            out.end_line()
        elif tag == "tr":
            out.end_line()
            self._cells = []
        elif tag in ("td", "th"):
            self._cell()
        elif tag == "a":
            self._links.append((attributes.get("href", ""), len(out.line)))
        elif tag == "img":
            if attributes.get("alt", "").strip():
                out.write(f"![{attributes['alt']}]")
        elif tag == "code":
            out.write("`")
        elif tag in _EMPHASIS:
            out.write(_EMPHASIS[tag])
        elif tag == "hr":
            out.end_line(blank=True)
            out.write("---")
            out.end_line(blank=True)
        elif tag in _BLOCKS:
            out.end_line(blank=tag not in ("div", "tbody", "thead", "dd"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._skipped:
            if tag == self._skipped[0]:
                self._skipped.pop()
            return
        out = self._out
        if tag == "pre" and self._pre is not None:
            self._end_pre()
        elif self._pre is not None:
            return
        elif tag in _HEADINGS or tag in ("p", "table"):
            self._cell()
            out.end_line(blank=True)
        elif tag in ("ul", "ol") and self._lists:
            out.end_line()
            self._end_item()
            self._lists.pop()
            out.end_line(blank=not self._lists)
        elif tag == "li":
            out.end_line()
            self._end_item()
        elif tag == "blockquote":
            out.end_line()
            if "> " in out.prefixes:
                del out.prefixes[len(out.prefixes) - 1 - out.prefixes[::-1].index("> ")]
            out.end_line(blank=True)
        elif tag == "tr":
            self._row()
        elif tag == "a" and self._links:
            self._end_link()
        elif tag == "code":
            out.line = out.line[:-1] if out.line.endswith("`") and out.line.count("`") % 2 else out.line + "`"
        elif tag in _EMPHASIS:
            stripped = out.line.rstrip(" ")
            out.line = stripped + _EMPHASIS[tag] + out.line[len(stripped) :]
        elif tag in _BLOCKS:
            out.end_line()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self._skipped:
            return
        elif self._pre is not None:
            self._pre.append(data)
        else:
            self._out.write(data)

    def text(self) -> str:
        """The whole text."""
        if self._pre is not None:
            self._end_pre()
        self._row()
        self._out.end_line()
        return _MANY_LINES.sub("\n\n", "\n".join(self._out.lines)).strip()

    def _item(self) -> None:
        out = self._out
        out.end_line()
        self._end_item()
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        out.bullet = "- " if number is None else f"{number}. "
        out.prefixes.append(" " * len(out.bullet))

    def _end_item(self) -> None:
        depth = sum(not prefix.strip() for prefix in self._out.prefixes)
        if depth >= max(len(self._lists), 1) and self._out.prefixes and not self._out.prefixes[-1].strip():
            self._out.prefixes.pop()
            self._out.bullet = ""

    def _end_pre(self) -> None:
        out = self._out
        code = "".join(self._pre or ()).strip("\n").replace("\r\n", "\n")
        self._pre = None
        fence = "```"
        while fence in code:
            fence += "`"
        for line in (fence, *code.split("\n"), fence):
            out.lines.append("".join(out.prefixes) + line)
        out.end_line(blank=True)

    def _end_link(self) -> None:
        href, start = self._links.pop()
        out = self._out
        link_text = out.line[start:] if start <= len(out.line) else ""
        if not link_text.strip() or not href or href.startswith(("#", "javascript:", "data:", "mailto:")):
            return
        try:
            target = urljoin(self._base, href.strip())
        except ValueError:
            return
        lead = link_text[: len(link_text) - len(link_text.lstrip())]
        out.line = f"{out.line[:start]}{lead}[{link_text.strip()}]({target})"

    def _cell(self) -> None:
        """Everything written since the last cell becomes a cell."""
        if self._cells is not None and self._out.line.strip():
            self._cells.append(self._out.line.strip())
            self._out.line = ""

    def _row(self) -> None:
        self._cell()
        if self._cells:
            self._out.line = " | ".join(self._cells)
            self._out.end_line()
        self._cells = None


def markdown(html: str, base: str) -> str:
    """The page as Markdown, with its title on top; links are absolute."""
    reader = _MarkdownParser(base)
    reader.feed(html)
    reader.close()
    text = reader.text()
    title = " ".join(reader.title.split())
    if title and not text.startswith(f"# {title}"):
        return f"# {title}\n\n{text}"
    return text


if __name__ == "__main__":
    if hasattr(signal, "alarm"):
        signal.alarm(120)  # ends this process even in the middle of a page, if the parent does not
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.write(markdown(sys.stdin.read(), sys.argv[1]))
