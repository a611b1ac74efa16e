"""Makes text of other programs safe to show on a terminal.

`clean_text`, `clean_line` and the stateful `TextCleaner` are for text to read: they remove escape sequences
and control characters, and make characters visible that would reverse the order of the text.

`visible` and `one_line` are for text that the user decides about, such as a name, a command or a title: they
write out every character that could hide or change something.
"""

import re
from typing import Final

_MAX_LINE: Final = 200

_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that are not passed on unchanged. Joiners are: scripts and emoji need them."""

_REORDERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BREAKS: Final = frozenset("\x0b\x0c\x85\u2028\u2029")
_STRINGS: Final = frozenset("]PX^_")  # after ESC: start a string that ends with a terminator
_STRINGS_C1: Final = frozenset("\x90\x98\x9d\x9e\x9f")

# Each pattern finds the end of a sequence on the same line: no sequence can remove the lines after it.
_AFTER_ESCAPE: Final = re.compile(r"[ -/]*([0-~])?")
_CSI: Final = re.compile(r"[ -?]*([@-~])?")
_STRING: Final = re.compile("[^\x07\x18\x1a\x1b\x9c\n\r\x0b\x0c\x85\u2028\u2029]*")


class TextCleaner:
    """Cleans text that arrives in pieces. The result does not depend on where the pieces are cut."""

    __slots__ = ("_after_return", "_inside", "_intermediate")

    def __init__(self) -> None:
        # "" in plain text; else "escape", "csi", "string", or "string-escape" for an ESC in a string
        self._inside = ""
        self._intermediate = False
        self._after_return = False

    def feed(self, text: str) -> str:
        """Clean the next piece."""
        if not self._inside and not self._after_return and _SUSPECT.search(text) is None:
            return text
        kept: list[str] = []
        at, end = 0, len(text)
        while at < end:
            if self._inside:
                at = self._drop(text, at)
                continue
            if self._after_return:
                self._after_return = False
                if text[at] == "\n":
                    at += 1
                    continue
            found = _SUSPECT.search(text, at)
            if found is None:
                kept.append(text[at:])
                break
            kept.append(text[at : found.start()])
            kept.append(self._replacement(text[found.start()]))
            at = found.end()
        return "".join(kept)

    def _replacement(self, char: str) -> str:
        """The replacement of one suspect character; starts a sequence if the character does."""
        if char == "\r":
            self._after_return = True
            return "\n"
        if char == "\x1b":
            self._inside, self._intermediate = "escape", False
        elif char == "\x9b":
            self._inside = "csi"
        elif char in _STRINGS_C1:
            self._inside = "string"
        elif char in _REORDERING:
            return f"<U+{ord(char):04X}>"
        elif char in _BREAKS:
            return "\n"
        elif "\ud800" <= char <= "\udfff":
            return "\ufffd"
        return ""

    def _drop(self, text: str, at: int) -> int:
        """Skip characters of the current sequence; return the position after them."""
        inside = self._inside
        if inside == "string":
            at = _end(_STRING, text, at)
            if at < len(text):
                self._inside = "string-escape" if text[at] == "\x1b" else ""
                if text[at] in "\x07\x9c\x1b\x18\x1a":
                    at += 1
            return at
        if inside == "string-escape":  # the two-character terminator, or the start of another sequence
            self._inside = "" if text[at] == "\\" else "escape"
            self._intermediate = False
            return at + 1 if text[at] == "\\" else at
        if inside == "escape" and not self._intermediate and (text[at] == "[" or text[at] in _STRINGS):
            self._inside = "csi" if text[at] == "[" else "string"
            return at + 1
        found = (_CSI if inside == "csi" else _AFTER_ESCAPE).match(text, at)
        assert found is not None, "both patterns match the empty text"
        if found[1] is not None or found.end() < len(text):
            self._inside = ""
        self._intermediate = self._intermediate or found.end() > at
        return found.end()


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def clean_text(text: str) -> str:
    """The text without escape sequences and control characters; keeps its lines."""
    return TextCleaner().feed(text)


def clean_line(text: str) -> str:
    """Like `clean_text`, on one line."""
    return clean_text(text).replace("\n", " ").replace("\t", " ")


def visible(text: str) -> str:
    """The text with every character written out that could hide or change something on a terminal."""
    if text.isprintable():
        return text
    return "".join(
        [
            char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
            for char in text
        ]
    )


def one_line(text: str, longest: int = _MAX_LINE) -> str:
    """The text on one line, cut to `longest` characters, with every unprintable character written out."""
    line = visible(" ".join(text.split())[: longest + 1])
    return line if len(line) <= longest else line[: longest - 1] + "…"
