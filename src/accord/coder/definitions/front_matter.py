"""Reads the header of a Markdown file: the part of YAML that commands, skills and agents are written in.

Quoted, folded and literal values, lists and nested maps are read. A plain value may contain colons, because
many files have them unquoted. All scalars are text.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, Union

Value: TypeAlias = Union[str, list["Value"], dict[str, "Value"]]

_HEADER: Final = re.compile(
    r"---[ \t]*\n(?P<header>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_BLOCK_SCALAR: Final = re.compile(r"[|>][+\-0-9]{0,2}(?:[ \t]+#.*)?")
_TIGHT_KEY: Final = re.compile(r"[A-Za-z][\w-]*:")
_MAX_DEPTH: Final = 6
_MAX_HEADER: Final = 16 * 1024


class MarkdownFile(NamedTuple):
    """A Markdown file with its header."""

    values: Mapping[str, Value]
    """The entries of the header, without the lines that cannot be read."""
    body: str
    has_header: bool
    problem: str
    """The first line of the header that cannot be read; empty if there is none."""

    def text(self, key: str) -> str:
        """A value on one line. A list is written as in YAML, because `[branch]` may be meant as text."""
        return _as_text(self.values.get(key, ""))

    def names(self, key: str) -> list[str] | None:
        """A list of names, or the names in a text with commas; None if the key is missing."""
        value = self.values.get(key)
        if isinstance(value, list):
            return [_as_text(item) for item in value]
        if isinstance(value, str):
            return [name.strip() for name in value.split(",") if name.strip()]
        return None

    def is_true(self, key: str) -> bool:
        """Whether the value is a YAML true."""
        return self.text(key).casefold() in ("true", "yes", "on")

    def is_false(self, key: str) -> bool:
        """Whether the value is a YAML false."""
        return self.text(key).casefold() in ("false", "no", "off")


def read_markdown(text: str) -> MarkdownFile:
    """Split a file into header and body. Keys are lower case, with `-` for `_`."""
    text = text.replace("\r\n", "\n")
    header = _HEADER.match(text)
    if header is None:
        return MarkdownFile({}, text.strip(), False, "")
    if len(header["header"]) > _MAX_HEADER:
        return MarkdownFile(
            {}, text[header.end() :].strip(), True, f"it has more than {_MAX_HEADER:,} characters"
        )
    reader = _HeaderReader(header["header"].split("\n"))
    values = reader.read()
    keys = {key.casefold().replace("_", "-"): value for key, value in values.items()}
    return MarkdownFile(keys, text[header.end() :].strip(), True, reader.problem)


class _HeaderReader:
    """Reads lines by their indentation. Lines that cannot be read are skipped, and the first is reported."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._next = 0
        self.problem = ""

    def read(self) -> dict[str, Value]:
        value = self._block(0, 0)
        while self._peek() is not None:  # indented less than the first line
            self._report(self._take())
        return value if isinstance(value, dict) else {}

    # -- lines -----------------------------------------------------------------------------------------------

    def _peek(self) -> tuple[int, str] | None:
        """The indentation and text of the next line that is neither empty nor a comment."""
        while self._next < len(self._lines):
            line = self._lines[self._next]
            text = line.strip()
            if text and not text.startswith("#"):
                return len(line) - len(line.lstrip(" \t")), text
            self._next += 1
        return None

    def _take(self) -> str:
        self._next += 1
        return self._lines[self._next - 1].strip()

    def _report(self, line: str) -> None:
        self.problem = self.problem or line

    # -- values ----------------------------------------------------------------------------------------------

    def _block(self, least_indent: int, depth: int) -> Value:
        """A list or a map whose lines are indented by at least `least_indent`."""
        first = self._peek()
        if first is None or first[0] < least_indent:
            return ""
        if depth > _MAX_DEPTH:
            self._report(self._take())
            return ""
        return self._list(first[0], depth) if _is_item(first[1]) else self._map(first[0], depth)

    def _list(self, indent: int, depth: int) -> Value:
        items: list[Value] = []
        while (line := self._peek()) is not None and line[0] == indent and _is_item(line[1]):
            text = self._take()[1:].strip()
            items.append(self._value(text, indent, depth) if text else self._block(indent + 1, depth + 1))
        return items

    def _map(self, indent: int, depth: int) -> Value:
        values: dict[str, Value] = {}
        while (line := self._peek()) is not None and line[0] >= indent:
            text = self._take()
            entry = _split_entry(text) if line[0] == indent else None
            if entry is None:
                self._report(text)
                continue
            key, rest = entry
            values[key] = self._entry_value(rest, indent, depth)
        return values

    def _entry_value(self, text: str, indent: int, depth: int) -> Value:
        if text and not text.startswith("#"):
            return self._value(text, indent, depth)
        following = self._peek()
        if following is not None and following[0] == indent and _is_item(following[1]):
            return self._list(indent, depth + 1)
        is_text = following is not None and not _is_item(following[1]) and not _split_entry(following[1])
        if is_text and following is not None and following[0] > indent:
            if following[1][0] in "[{":
                return self._flow(self._take(), indent)
            return self._plain("", indent)  # a text that begins on the next line
        return self._block(indent + 1, depth + 1)

    def _value(self, text: str, indent: int, depth: int) -> Value:
        if _BLOCK_SCALAR.fullmatch(text):
            return self._block_scalar(indent, folded=text.startswith(">"))
        if text[0] in "\"'":
            return self._quoted(text, indent)
        if text[0] in "[{":
            return self._flow(text, indent)
        return self._plain(text, indent)

    def _plain(self, text: str, indent: int) -> str:
        """A text without quotes; lines that are indented more continue it."""
        pieces = [re.split(r"[ \t]#", text, maxsplit=1)[0].strip()]
        while (line := self._peek()) is not None and line[0] > indent:
            pieces.append(re.split(r"[ \t]#", self._take(), maxsplit=1)[0].strip())
        return " ".join(filter(None, pieces))

    def _flow(self, text: str, indent: int) -> Value:
        """A list or map with brackets, which may go on in the next lines; else a text."""
        if (value := _flow_value(text)) is not None:
            return value
        text = self._plain(text, indent)
        while (line := self._peek()) is not None and line[1][0] in "]}":
            text = f"{text} {self._take()}"
        value = _flow_value(text)
        return text if value is None else value

    def _quoted(self, text: str, indent: int) -> str:
        quote = text[0]
        start = text
        while (end := _closing_quote(text, quote)) is None:
            line = self._peek()
            if line is None or line[0] <= indent:
                self._report(f"{start} (the quote is not closed)")
                return text
            text = f"{text} {self._take()}"
        if (rest := text[end + 1 :].strip()) and not rest.startswith("#"):
            return text  # such as `"a" or "b"`
        inner = text[1:end]
        return inner.replace("''", "'") if quote == "'" else _without_escapes(inner)

    def _block_scalar(self, indent: int, *, folded: bool) -> str:
        lines: list[str] = []
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            lines.append(line)
            self._next += 1
        margin = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
        texts = [line[margin:].rstrip() for line in lines]
        if not folded:
            return "\n".join(texts).strip("\n")
        paragraphs = "\n".join(texts).strip("\n").split("\n\n")
        return "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _split_entry(text: str) -> tuple[str, str] | None:
    """The key and the rest of a line; None if the line is no entry of a map."""
    if text[0] in "\"'":
        end = _closing_quote(text, text[0])
        if end is None or not text[end + 1 :].lstrip().startswith(":"):
            return None
        return text[1:end], text[end + 1 :].lstrip()[1:].strip()
    key, colon, rest = text.partition(": ")
    if not colon and text.endswith(":"):
        key, colon, rest = text[:-1], ":", ""
    if not colon and (match := _TIGHT_KEY.match(text)):
        key, colon, rest = match[0][:-1], ":", text[match.end() :]
    return (key.strip(), rest.strip()) if colon and key.strip() else None


def _closing_quote(text: str, quote: str) -> int | None:
    position = 1
    while (position := text.find(quote, position)) > 0:
        if quote == "'" and text.startswith("''", position):
            position += 2
        elif quote == '"' and (len(text[:position]) - len(text[:position].rstrip("\\"))) % 2:
            position += 1
        else:
            return position
    return None


def _without_escapes(text: str) -> str:
    plain = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), text)


_FLOW_TEXT: Final = re.compile(r"[^,\[\]{}]*")
_FLOW_KEY: Final = re.compile(r"[^,:\[\]{}\"']+")


def _flow_value(text: str) -> Value | None:
    """A list or map with brackets, such as `[a, b]`; None if the text is something else."""
    try:
        value, end = _read_flow(text, 0, 0)
    except (ValueError, IndexError):
        return None
    rest = text[end:].strip()
    return value if not rest or rest.startswith("#") else None


def _read_flow(text: str, start: int, depth: int) -> tuple[Value, int]:
    """The value at a position, and where it ends. Raises ValueError, IndexError."""
    opening = text[start]
    if opening in "\"'":
        return _flow_quoted(text, start)
    if opening not in "[{":
        found = _FLOW_TEXT.match(text, start)
        return (found[0].strip(), found.end()) if found else ("", start)
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    items: list[Value] = []
    values: dict[str, Value] = {}
    closing = "]" if opening == "[" else "}"
    position = _after_spaces(text, start + 1)
    while text[position] != closing:
        if opening == "{":
            key, position = _flow_key(text, position)
            values[key], position = _read_flow(text, _after_spaces(text, position), depth + 1)
        else:
            item, position = _read_flow(text, position, depth + 1)
            items.append(item)
        position = _after_spaces(text, position)
        if text[position] == ",":
            position = _after_spaces(text, position + 1)
        elif text[position] != closing:
            raise ValueError("no comma")
    return (items if opening == "[" else values), position + 1


def _flow_key(text: str, start: int) -> tuple[str, int]:
    """The key at a position, and where its value may begin. Raises ValueError, IndexError."""
    if text[start] in "\"'":
        key, end = _flow_quoted(text, start)
    elif found := _FLOW_KEY.match(text, start):
        key, end = found[0].strip(), found.end()
    else:
        raise ValueError("no key")
    end = _after_spaces(text, end)
    if text[end] != ":":
        raise ValueError("no colon")
    return key, end + 1


def _flow_quoted(text: str, start: int) -> tuple[str, int]:
    end = _closing_quote(text[start:], text[start])
    if end is None:
        raise ValueError("the quote is not closed")
    return text[start + 1 : start + end], start + end + 1


def _after_spaces(text: str, position: int) -> int:
    while text[position] == " ":
        position += 1
    return position


def _as_text(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_as_text, value))}]"
    return value if isinstance(value, str) else ""
