"""JSON as people write it in settings: with comments and trailing commas, and with the place of every value in the text.

The places are what an edit needs that keeps the rest of the file as it is. A key that stands twice is refused: whoever
reads the file and whoever runs it must not see different things.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

DEEPEST: Final = 100

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"')
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?(?![0-9A-Za-z.+-])"
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_BOM: Final = "\ufeff"


class BadJson(ValueError):
    """The text is not JSON. The message says where and why, in one line."""


@dataclass(slots=True)
class Node:
    """One value and the span of text it stands in."""

    start: int
    end: int
    scalar: Any = None
    entries: "list[Entry] | None" = None
    """What an object or a list holds; None for everything else."""
    is_object: bool = False

    @property
    def value(self) -> Any:
        """The value in plain dicts, lists, strings, numbers, booleans and None."""
        if self.entries is None:
            return self.scalar
        if self.is_object:
            return {entry.key: entry.node.value for entry in self.entries}
        return [entry.node.value for entry in self.entries]

    def get(self, key: str) -> "Node | None":
        """The member of that name, if this is an object that has it."""
        found = next((entry for entry in self.entries or () if self.is_object and entry.key == key), None)
        return None if found is None else found.node


@dataclass(slots=True)
class Entry:
    """A member of an object, or an item of a list, which has no key."""

    start: int
    node: Node
    key: str | None = None
    comma: int | None = field(default=None)
    """Where the comma behind it stands."""


def parse(text: str, *, plain: bool = False) -> Node:
    """The value of the text. `plain` takes JSON only, without comments and trailing commas. Raises BadJson."""
    return _Reader(text, plain).whole()


class _Reader:
    """One reading from the first character to the last."""

    def __init__(self, text: str, plain: bool) -> None:
        self.text = text
        self.plain = plain
        self.at = 1 if text.startswith(_BOM) else 0
        self.depth = 0

    def whole(self) -> Node:
        self._skip()
        if self.at == len(self.text):
            raise self._bad("there is nothing in it")
        node = self._value()
        self._skip()
        if self.at < len(self.text):
            raise self._bad("there is something behind the end of the JSON")
        return node

    def _value(self) -> Node:
        start, char = self.at, self.text[self.at : self.at + 1]
        if char in ("{", "["):
            return self._container(char == "{")
        if char == '"':
            scalar: Any = self._string()
        elif number := _NUMBER.match(self.text, start):
            scalar = json.loads(number[0])
            self.at = number.end()
        else:
            word = re.compile(r"\w*").match(self.text, start)
            said = word[0] if word else ""
            if said not in _WORDS:
                raise self._bad(f"{said or char!r} is no value" if said or char else "it ends too early")
            scalar = _WORDS[said]
            self.at += len(said)
        return Node(start, self.at, scalar)

    def _container(self, is_object: bool) -> Node:
        start = self.at
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._bad("nested too deep")
        self.at += 1
        entries = list(self._entries("}" if is_object else "]", is_object))
        self.depth -= 1
        return Node(start, self.at, None, entries, is_object)

    def _entries(self, close: str, keyed: bool) -> Iterator[Entry]:
        seen: set[str] = set()
        entry: Entry | None = None
        while True:
            self._skip()
            if self._takes(close):
                if entry is not None and entry.comma is not None and self.plain:
                    raise self._bad(f"a comma stands before {close!r}")
                return
            if entry is not None and entry.comma is None:
                raise self._bad(f"a comma or {close!r} is missing" if self._more else "it ends too early")
            start, key = self.at, None
            if keyed:
                key = self._key(seen)
            self._skip()
            entry = Entry(start, self._value(), key)
            self._skip()
            if self.text[self.at : self.at + 1] == ",":
                entry.comma = self.at
                self.at += 1
            yield entry

    def _key(self, seen: set[str]) -> str:
        if self.text[self.at : self.at + 1] != '"':
            raise self._bad("a key in quotes is missing" if self._more else "it ends too early")
        before = self.at
        key = self._string()
        if key in seen:
            self.at = before
            raise self._bad(f"the key {key!r} stands twice")
        seen.add(key)
        self._skip()
        if not self._takes(":"):
            raise self._bad(f"a colon is missing behind {key!r}")
        return key

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self._bad("a text in quotes does not end, or has something in it that has to be escaped")
        text: str = json.loads(found[0])
        if any(0xD800 <= ord(char) < 0xE000 for char in text):
            raise self._bad("half of a surrogate pair is no character")
        self.at = found.end()
        return text

    def _takes(self, char: str) -> bool:
        if self.text[self.at : self.at + 1] != char:
            return False
        self.at += 1
        return True

    @property
    def _more(self) -> bool:
        return self.at < len(self.text)

    def _skip(self) -> None:
        while True:
            if space := _SPACE.match(self.text, self.at):
                self.at = space.end()
            if self.text[self.at : self.at + 1] != "/":
                return
            comment = _COMMENT.match(self.text, self.at)
            if comment is None or self.plain:
                raise self._bad("comments cannot be here" if comment else "'/' is no value")
            self.at = comment.end()

    def _bad(self, reason: str) -> BadJson:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        return BadJson(f"line {line}, column {column}: {reason}")
