"""Changes to a JSON text that leave everything else in it as it is: comments, order, indentation, line endings.

Each function takes the text and gives the new text. What is not there is put at the end of its object or list.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from accord.client.servers.jsonc import BadJson, Entry, Node, parse

_FIRST_INDENT: Final = re.compile(r"\{\s*?\n([ \t]+)\S")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\n]*|(?:/\*[^\n]*?\*/[ \t]*)+(?=\r?\n|$))?[ \t]*")


def put(text: str, path: Sequence[str], value: Any, *, plain: bool = False) -> str:
    """Set the member at this path of keys; objects on the way are made where they are missing. Raises BadJson."""
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    node = parse(text, plain=plain)
    for depth, key in enumerate(path):
        if not node.is_object:
            raise BadJson(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        below = node.get(key)
        if below is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, node, key, value)
        node = below
    if _compact(node.value) == _compact(value):
        return text
    return text[: node.start] + _written(text, value, _indent_at(text, node.start)) + text[node.end :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Add an item to the list at this path, which must be there. Raises BadJson."""
    return _insert(text, _find(text, path), None, value)


def drop(text: str, path: Sequence[str], which: str | int, *, plain: bool = False) -> str:
    """Take out a member by its key or an item by its number, of the object or list at this path. Raises BadJson."""
    entries = _find(text, path, plain).entries or []
    for number, entry in enumerate(entries):
        if which == (entry.key if isinstance(which, str) else number):
            return _cut(text, entries, number)
    raise BadJson(f"{'.'.join(path)}: there is no {which!r}")


def _find(text: str, path: Sequence[str], plain: bool = False) -> Node:
    node = parse(text, plain=plain)
    for key in path:
        below = node.get(key)
        if below is None:
            raise BadJson(f"there is no {'.'.join(path)}")
        node = below
    return node


def _insert(text: str, node: Node, key: str | None, value: Any) -> str:
    entries = node.entries or []
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    last = entries[-1] if entries else None
    inside = text[node.start + 1 : node.end - 1]
    if last is not None and "\n" not in inside:
        comma = "" if last.comma is not None else ","
        place = (last.comma + 1) if last.comma is not None else last.node.end
        return f"{text[:place]}{comma} {label}{_compact(value)}{text[place:]}"
    outer = _indent_at(text, node.start)
    indent = (
        _indent_at(text, last.start) if last is not None and _begins_line(text, last) else outer + _unit(text)
    )
    line = _line_end(text)
    # Behind the last comment inside, so that it stays with what it is about.
    end = node.start + 1 + len(inside.rstrip(" \t\r\n"))
    fresh = f"{line}{indent}{label}{_written(text, value, indent)}"
    if last is not None and last.comma is not None:
        fresh += ","
    rest = text[end:] if "\n" in text[end : node.end] else line + outer + text[end:].lstrip(" \t")
    if last is None or last.comma is not None:
        return text[:end] + fresh + rest
    return f"{text[: last.node.end]},{text[last.node.end : end]}{fresh}{rest}"


def _cut(text: str, entries: list[Entry], number: int) -> str:
    entry = entries[number]
    start = entry.start
    end = entry.node.end if entry.comma is None else entry.comma + 1
    if _begins_line(text, entry):
        rest = _REST_OF_LINE.match(text, end)
        stop = rest.end() if rest else end
        if text[stop : stop + 1] in ("\r", "\n"):
            start = text.rfind("\n", 0, start) + 1
            end = text.index("\n", stop) + 1
    elif entry.comma is not None and number + 1 < len(entries):
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    before = entries[number - 1].comma if number else None
    if entry.comma is None and before is not None:
        # The comma before it would be left at the end, which plain JSON does not have.
        if not text[before + 1 : start].strip(" \t\r\n") and start == entry.start:
            start = before + 1
        return text[:before] + text[before + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _written(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    # A list of texts reads better on one line, as people write it.
    joined = re.sub(
        r'\[\n\s+("[^\n]*"(?:,\n\s+"[^\n]*")*)\n\s*\]',
        lambda found: "[" + re.sub(r",\n\s+", ", ", found[1]) + "]",
        "\n".join([lines[0], *(indent + line for line in lines[1:])]),
    )
    return joined.replace("\n", _line_end(text))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _unit(text: str) -> str:
    found = _FIRST_INDENT.search(text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _begins_line(text: str, entry: Entry) -> bool:
    return not text[text.rfind("\n", 0, entry.start) + 1 : entry.start].strip(" \t")


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]
