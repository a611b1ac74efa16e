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


def _tag_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SKIPPED_TAGS: Final = _tag_set(
    "script style noscript template svg math iframe object canvas select textarea"
)
_BLOCK_TAGS: Final = _tag_set(
    "address article aside body details dialog dd div dl dt fieldset figcaption figure footer form header "
    "hgroup hr html main menu nav p section summary table tbody tfoot thead tr caption center"
)
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_EMPHASIS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_VOID_TAGS: Final = _tag_set("area base br col embed hr img input link meta source track wbr")
_WHITE_SPACE: Final = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


class _MarkdownLines:
    """Collects the lines of Markdown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.current = ""
        """The line that is not ended yet."""
        self.prefixes: list[str] = []
        """The prefixes of each line: quote marks and the indentation of lists."""
        self.bullet = ""
        """Replaces the last prefix of the next line."""

    def write(self, text: str) -> None:
        """Add running text; white space between words becomes one space."""
        text = _WHITE_SPACE.sub(" ", text)
        self.current += text.lstrip(" ") if not self.current or self.current.endswith(" ") else text

    def end_line(self, *, blank: bool = False) -> None:
        """Start a new line, with an empty line before it if `blank`."""
        text = self.current.rstrip(" ")
        if text:
            prefix = "".join(self.prefixes)
            if self.bullet:
                prefix = "".join(self.prefixes[:-1]) + self.bullet
                self.bullet = ""
            self.lines.append(prefix + text)
        self.current = ""
        if blank and self.lines and not self.bullet:
            empty = "".join(part for part in self.prefixes if ">" in part).rstrip()
            if self.lines[-1].strip("> "):
                self.lines.append(empty)
            else:
                self.lines[-1] = empty


class _MarkdownParser(HTMLParser):
    def __init__(self, base_url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._base_url = base_url
        self._lines = _MarkdownLines()
        self._skipped_tags: list[str] = []
        """The open tags whose content is left out."""
        self._in_title = False
        self._code: list[str] | None = None
        """The text of the open `pre`."""
        self._open_links: list[tuple[str, int]] = []
        """The address of each open link, and where its text begins in the line."""
        self._list_numbers: list[int | None] = []
        """The number of the next item of each open list; None for a list without numbers."""
        self._cells: list[str] | None = None
        """The cells of the open table row."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self._skipped_tags:
            self._in_title = True
        if self._skipped_tags or tag in _SKIPPED_TAGS:
            if tag not in _VOID_TAGS:
                self._skipped_tags += [tag] * (not self._skipped_tags or tag == self._skipped_tags[0])
            return
        attributes = {name: value or "" for name, value in attrs}
        lines = self._lines
        if self._code is not None:
            return
        if tag == "pre":
            lines.end_line(blank=True)
            self._code = []
        elif tag in _HEADINGS:
            lines.end_line(blank=True)
            lines.write(f"{_HEADINGS[tag]} ")
        elif tag in ("ul", "ol"):
            lines.end_line(blank=not self._list_numbers)
            self._list_numbers.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._start_item()
        elif tag == "blockquote":
            lines.end_line(blank=True)
            lines.prefixes.append("> ")
        elif tag == "br":
            lines.end_line()
        elif tag == "tr":
            lines.end_line()
            self._cells = []
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag == "a":
            self._open_links.append((attributes.get("href", ""), len(lines.current)))
        elif tag == "img":
            if attributes.get("alt", "").strip():
                lines.write(f"![{attributes['alt']}]")
        elif tag == "code":
            lines.write("`")
        elif tag in _EMPHASIS:
            lines.write(_EMPHASIS[tag])
        elif tag == "hr":
            lines.end_line(blank=True)
            lines.write("---")
            lines.end_line(blank=True)
        elif tag in _BLOCK_TAGS:
            lines.end_line(blank=tag not in ("div", "tbody", "thead", "dd"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._skipped_tags:
            if tag == self._skipped_tags[0]:
                self._skipped_tags.pop()
            return
        lines = self._lines
        if tag == "pre" and self._code is not None:
            self._end_code()
        elif self._code is not None:
            return
        elif tag in _HEADINGS or tag in ("p", "table"):
            self._end_cell()
            lines.end_line(blank=True)
        elif tag in ("ul", "ol") and self._list_numbers:
            lines.end_line()
            self._end_item()
            self._list_numbers.pop()
            lines.end_line(blank=not self._list_numbers)
        elif tag == "li":
            lines.end_line()
            self._end_item()
        elif tag == "blockquote":
            lines.end_line()
            if "> " in lines.prefixes:
                del lines.prefixes[len(lines.prefixes) - 1 - lines.prefixes[::-1].index("> ")]
            lines.end_line(blank=True)
        elif tag == "tr":
            self._end_row()
        elif tag == "a" and self._open_links:
            self._end_link()
        elif tag == "code":
            lines.current = (
                lines.current[:-1]
                if lines.current.endswith("`") and lines.current.count("`") % 2
                else lines.current + "`"
            )
        elif tag in _EMPHASIS:
            stripped = lines.current.rstrip(" ")
            lines.current = stripped + _EMPHASIS[tag] + lines.current[len(stripped) :]
        elif tag in _BLOCK_TAGS:
            lines.end_line()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self._skipped_tags:
            return
        elif self._code is not None:
            self._code.append(data)
        else:
            self._lines.write(data)

    def text(self) -> str:
        """The text of the page, after everything was parsed."""
        if self._code is not None:
            self._end_code()
        self._end_row()
        self._lines.end_line()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines.lines)).strip()

    def _start_item(self) -> None:
        lines = self._lines
        lines.end_line()
        self._end_item()
        number = self._list_numbers[-1] if self._list_numbers else None
        if number is not None:
            self._list_numbers[-1] = number + 1
        lines.bullet = "- " if number is None else f"{number}. "
        lines.prefixes.append(" " * len(lines.bullet))

    def _end_item(self) -> None:
        depth = sum(not prefix.strip() for prefix in self._lines.prefixes)
        if (
            depth >= max(len(self._list_numbers), 1)
            and self._lines.prefixes
            and not self._lines.prefixes[-1].strip()
        ):
            self._lines.prefixes.pop()
            self._lines.bullet = ""

    def _end_code(self) -> None:
        lines = self._lines
        code = "".join(self._code or ()).strip("\n").replace("\r\n", "\n")
        self._code = None
        fence = "```"
        while fence in code:
            fence += "`"
        for line in (fence, *code.split("\n"), fence):
            lines.lines.append("".join(lines.prefixes) + line)
        lines.end_line(blank=True)

    def _end_link(self) -> None:
        href, start = self._open_links.pop()
        lines = self._lines
        link_text = lines.current[start:] if start <= len(lines.current) else ""
        if not link_text.strip() or not href or href.startswith(("#", "javascript:", "data:", "mailto:")):
            return
        try:
            target = urljoin(self._base_url, href.strip())
        except ValueError:
            return
        indent = link_text[: len(link_text) - len(link_text.lstrip())]
        lines.current = f"{lines.current[:start]}{indent}[{link_text.strip()}]({target})"

    def _end_cell(self) -> None:
        """End a cell: it holds everything that was written since the last one."""
        if self._cells is not None and self._lines.current.strip():
            self._cells.append(self._lines.current.strip())
            self._lines.current = ""

    def _end_row(self) -> None:
        self._end_cell()
        if self._cells:
            self._lines.current = " | ".join(self._cells)
            self._lines.end_line()
        self._cells = None


def html_to_markdown(html: str, base_url: str) -> str:
    """The page as Markdown, with its title on top; links are absolute."""
    parser = _MarkdownParser(base_url)
    parser.feed(html)
    parser.close()
    text = parser.text()
    title = " ".join(parser.title.split())
    if title and not text.startswith(f"# {title}"):
        return f"# {title}\n\n{text}"
    return text


if __name__ == "__main__":
    if hasattr(signal, "alarm"):
        signal.alarm(120)  # ends this process even in the middle of a page, if the parent does not
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.write(html_to_markdown(sys.stdin.read(), sys.argv[1]))
