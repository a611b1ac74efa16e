"""JSON with comments: parse, edit in place, save in one step under a lock.

The parser accepts comments and trailing commas, and records the position of every value, so that an edit
keeps comments, order, indentation and line endings. Duplicate keys are refused, because readers could
disagree about them. Saving replaces the file atomically, follows links, keeps the mode, and never overwrites
another change.
"""

import json
import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from accord.errors import UsageError
from accord.private_files import private_folder, wait_for_lock, write_atomically

_MAX_DEPTH: Final = 100

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"')
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?(?![0-9A-Za-z.+-])"
)
_LITERALS: Final = {"true": True, "false": False, "null": None}
_BOM: Final = "\ufeff"


class BadJson(ValueError):
    """The text is not valid JSON. The message says where and why, in one line."""


@dataclass(slots=True)
class JsonNode:
    """One value and its span in the text."""

    start: int
    end: int
    scalar: Any = None
    entries: "list[JsonMember] | None" = None
    """The content of an object or a list; None for other values."""
    is_object: bool = False

    @property
    def value(self) -> Any:
        """The value as dict, list, str, number, bool or None."""
        if self.entries is None:
            return self.scalar
        if self.is_object:
            return {entry.key: entry.node.value for entry in self.entries}
        return [entry.node.value for entry in self.entries]

    def get(self, key: str) -> "JsonNode | None":
        """The member with this key, or None."""
        match = next((entry for entry in self.entries or () if self.is_object and entry.key == key), None)
        return None if match is None else match.node


@dataclass(slots=True)
class JsonMember:
    """A member of an object, or an item of a list, which has no key."""

    start: int
    node: JsonNode
    key: str | None = None
    comma: int | None = field(default=None)
    """The position of the comma after it."""


def parse(text: str, *, plain: bool = False) -> JsonNode:
    """Parse a text. `plain` accepts only JSON without comments and trailing commas. Raises BadJson."""
    return _Parser(text, plain).parse()


class _Parser:
    def __init__(self, text: str, plain: bool) -> None:
        self.text = text
        self.plain = plain
        self.position = 1 if text.startswith(_BOM) else 0
        self.depth = 0

    def parse(self) -> JsonNode:
        self._skip()
        if self.position == len(self.text):
            raise self._bad("the file is empty")
        node = self._value()
        self._skip()
        if self.position < len(self.text):
            raise self._bad("unexpected text after the end of the JSON")
        return node

    def _value(self) -> JsonNode:
        start, char = self.position, self.text[self.position : self.position + 1]
        if char in ("{", "["):
            return self._container(char == "{")
        if char == '"':
            scalar: Any = self._string()
        elif number := _NUMBER.match(self.text, start):
            scalar = json.loads(number[0])
            self.position = number.end()
        else:
            word = re.compile(r"\w*").match(self.text, start)
            name = word[0] if word else ""
            if name not in _LITERALS:
                raise self._bad(f"{name or char!r} is not a value" if name or char else "it ends too early")
            scalar = _LITERALS[name]
            self.position += len(name)
        return JsonNode(start, self.position, scalar)

    def _container(self, is_object: bool) -> JsonNode:
        start = self.position
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._bad("nested too deep")
        self.position += 1
        entries = list(self._entries("}" if is_object else "]", is_object))
        self.depth -= 1
        return JsonNode(start, self.position, None, entries, is_object)

    def _entries(self, close: str, is_object: bool) -> Iterator[JsonMember]:
        keys: set[str] = set()
        entry: JsonMember | None = None
        while True:
            self._skip()
            if self._accept(close):
                if entry is not None and entry.comma is not None and self.plain:
                    raise self._bad(f"unexpected comma before {close!r}")
                return
            if entry is not None and entry.comma is None:
                raise self._bad(f"a comma or {close!r} is missing" if self._has_more else "it ends too early")
            start, key = self.position, None
            if is_object:
                key = self._key(keys)
            self._skip()
            entry = JsonMember(start, self._value(), key)
            self._skip()
            if self.text[self.position : self.position + 1] == ",":
                entry.comma = self.position
                self.position += 1
            yield entry

    def _key(self, keys: set[str]) -> str:
        if self.text[self.position : self.position + 1] != '"':
            raise self._bad("a key in quotes is missing" if self._has_more else "it ends too early")
        before = self.position
        key = self._string()
        if key in keys:
            self.position = before
            raise self._bad(f"duplicate key {key!r}")
        keys.add(key)
        self._skip()
        if not self._accept(":"):
            raise self._bad(f"a colon is missing after {key!r}")
        return key

    def _string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if match is None:
            raise self._bad("a string does not end, or contains a character that must be escaped")
        text: str = json.loads(match[0])
        if any(0xD800 <= ord(char) < 0xE000 for char in text):
            raise self._bad("a string contains half of a surrogate pair")
        self.position = match.end()
        return text

    def _accept(self, char: str) -> bool:
        if self.text[self.position : self.position + 1] != char:
            return False
        self.position += 1
        return True

    @property
    def _has_more(self) -> bool:
        return self.position < len(self.text)

    def _skip(self) -> None:
        while True:
            if space := _SPACE.match(self.text, self.position):
                self.position = space.end()
            if self.text[self.position : self.position + 1] != "/":
                return
            comment = _COMMENT.match(self.text, self.position)
            if comment is None or self.plain:
                raise self._bad("comments are not allowed here" if comment else "'/' is not a value")
            self.position = comment.end()

    def _bad(self, reason: str) -> BadJson:
        line = self.text.count("\n", 0, self.position) + 1
        column = self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1
        return BadJson(f"line {line}, column {column}: {reason}")


# -- edits: each function takes the text and returns the new text --------------------------------------------

_FIRST_INDENT: Final = re.compile(r"\{\s*?\n([ \t]+)\S")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\n]*|(?:/\*[^\n]*?\*/[ \t]*)+(?=\r?\n|$))?[ \t]*")


def set_member(text: str, path: Sequence[str], value: Any, *, plain: bool = False) -> str:
    """Set the member at this path of keys; creates missing objects on the way. Raises BadJson."""
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    node = parse(text, plain=plain)
    for depth, key in enumerate(path):
        if not node.is_object:
            raise BadJson(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        child = node.get(key)
        if child is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, node, key, value)
        node = child
    if _compact(node.value) == _compact(value):
        return text
    return text[: node.start] + _format_value(text, value, _indent_at(text, node.start)) + text[node.end :]


def append_item(text: str, path: Sequence[str], value: Any) -> str:
    """Add an item to the existing list at this path. Raises BadJson."""
    return _insert(text, _find(text, path), None, value)


def remove_member(text: str, path: Sequence[str], key_or_index: str | int, *, plain: bool = False) -> str:
    """Remove a member by key, or an item by number, from the object or list at this path. Raises BadJson."""
    entries = _find(text, path, plain).entries or []
    for number, entry in enumerate(entries):
        if key_or_index == (entry.key if isinstance(key_or_index, str) else number):
            return _remove_entry(text, entries, number)
    raise BadJson(f"{'.'.join(path)}: {key_or_index!r} does not exist")


def _find(text: str, path: Sequence[str], plain: bool = False) -> JsonNode:
    node = parse(text, plain=plain)
    for key in path:
        child = node.get(key)
        if child is None:
            raise BadJson(f"{'.'.join(path)} does not exist")
        node = child
    return node


def _insert(text: str, node: JsonNode, key: str | None, value: Any) -> str:
    entries = node.entries or []
    key_text = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    last = entries[-1] if entries else None
    inside = text[node.start + 1 : node.end - 1]
    if last is not None and "\n" not in inside:
        comma = "" if last.comma is not None else ","
        position = (last.comma + 1) if last.comma is not None else last.node.end
        return f"{text[:position]}{comma} {key_text}{_compact(value)}{text[position:]}"
    outer = _indent_at(text, node.start)
    indent = (
        _indent_at(text, last.start)
        if last is not None and _begins_line(text, last)
        else outer + _indent_unit(text)
    )
    line_end = _line_end(text)
    # After the last comment inside, so that the comment stays with its member.
    end = node.start + 1 + len(inside.rstrip(" \t\r\n"))
    new_member = f"{line_end}{indent}{key_text}{_format_value(text, value, indent)}"
    if last is not None and last.comma is not None:
        new_member += ","
    rest = text[end:] if "\n" in text[end : node.end] else line_end + outer + text[end:].lstrip(" \t")
    if last is None or last.comma is not None:
        return text[:end] + new_member + rest
    return f"{text[: last.node.end]},{text[last.node.end : end]}{new_member}{rest}"


def _remove_entry(text: str, entries: list[JsonMember], number: int) -> str:
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
    comma = entries[number - 1].comma if number else None
    if entry.comma is None and comma is not None:
        # The comma before it would become a trailing comma, which plain JSON does not allow.
        if not text[comma + 1 : start].strip(" \t\r\n") and start == entry.start:
            start = comma + 1
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _format_value(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_indent_unit(text)).split("\n")
    # Put a list of strings on one line.
    joined = re.sub(
        r'\[\n\s+("[^\n]*"(?:,\n\s+"[^\n]*")*)\n\s*\]',
        lambda match: "[" + re.sub(r",\n\s+", ", ", match[1]) + "]",
        "\n".join([lines[0], *(indent + line for line in lines[1:])]),
    )
    return joined.replace("\n", _line_end(text))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indent_unit(text: str) -> str:
    match = _FIRST_INDENT.search(text)
    return match[1] if match else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _begins_line(text: str, entry: JsonMember) -> bool:
    return not text[text.rfind("\n", 0, entry.start) + 1 : entry.start].strip(" \t")


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


# -- files ---------------------------------------------------------------------------------------------------

BACKUP: Final = ".accord-backup"
_MAX_BYTES: Final = 16 * 1024 * 1024


@contextmanager
def edit_lock(path: Path, *, private: bool = False) -> Generator[None]:
    """Lock a file while it is read, changed and written. Creates its directory.

    With `private`, only the user can access that directory. The lock is on the directory, so that no lock
    file is left behind. Raises UsageError.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        private_folder(folder) if private else folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be written ({error.strerror})") from None
    try:
        lock = wait_for_lock(folder)
    except TimeoutError:
        raise UsageError(f"{path}: another program keeps it locked; try again") from None
    except OSError:
        lock = -1  # folders cannot be locked here; `replace_file` still detects another change
    try:
        yield
    finally:
        if lock >= 0:
            os.close(lock)


def read_bytes(path: Path, *, max_bytes: int = _MAX_BYTES) -> bytes | None:
    """Read a file; None if it does not exist. Raises UsageError."""
    try:
        # O_NONBLOCK: do not wait if the path is a pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path}: it is not a regular file")
            content = file.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from None
    if len(content) > max_bytes:
        raise UsageError(f"{path}: it is larger than {max_bytes // 1024} KiB")
    return content


def replace_file(
    path: Path, before: bytes | None, after: bytes, *, mode: int = 0o600, backup: bool = False
) -> Path | None:
    """Replace the content `before` by `after`. Returns the path of the backup, if one was made.

    A symbolic link stays; its target is replaced. `mode` is for a new file. Raises UsageError, also if the
    content is no longer `before`.
    """
    target = Path(os.path.realpath(path))
    if read_bytes(target) != before:
        raise UsageError(f"{path}: another program changed it; nothing was written, try again")
    backup_path: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        status = None if before is None else target.stat()
        if before is not None:
            if not os.access(target, os.W_OK):
                raise UsageError(f"{path}: it is read-only; nothing was written")
            if backup:
                backup_path = target.with_name(target.name + BACKUP)
                write_atomically(backup_path, before, like=status)
        write_atomically(target, after, mode=mode, like=status)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be written ({error.strerror})") from None
    return backup_path
