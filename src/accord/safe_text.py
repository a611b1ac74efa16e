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
_LINE_BREAKS: Final = frozenset("\x0b\x0c\x85\u2028\u2029")
_STRING_STARTS: Final = frozenset("]PX^_")  # after ESC: start a string that ends with a terminator
_C1_STRING_STARTS: Final = frozenset("\x90\x98\x9d\x9e\x9f")

# Each pattern finds the end of a sequence on the same line: no sequence can remove the lines after it.
_AFTER_ESCAPE: Final = re.compile(r"[ -/]*([0-~])?")
_CSI: Final = re.compile(r"[ -?]*([@-~])?")
_STRING: Final = re.compile("[^\x07\x18\x1a\x1b\x9c\n\r\x0b\x0c\x85\u2028\u2029]*")


class TextCleaner:
    """Cleans text that arrives in pieces. The result does not depend on where the pieces are cut."""

    __slots__ = ("_after_return", "_intermediate", "_sequence")

    def __init__(self) -> None:
        # "" in plain text; else "escape", "csi", "string", or "string-escape" for an ESC in a string
        self._sequence = ""
        self._intermediate = False
        self._after_return = False

    def feed(self, text: str) -> str:
        """Clean the next piece."""
        if not self._sequence and not self._after_return and _SUSPECT.search(text) is None:
            return text
        parts: list[str] = []
        position, end = 0, len(text)
        while position < end:
            if self._sequence:
                position = self._skip_sequence(text, position)
                continue
            if self._after_return:
                self._after_return = False
                if text[position] == "\n":
                    position += 1
                    continue
            match = _SUSPECT.search(text, position)
            if match is None:
                parts.append(text[position:])
                break
            parts.append(text[position : match.start()])
            parts.append(self._replacement(text[match.start()]))
            position = match.end()
        return "".join(parts)

    def _replacement(self, char: str) -> str:
        """The replacement of one suspect character; starts a sequence if the character does."""
        if char == "\r":
            self._after_return = True
            return "\n"
        if char == "\x1b":
            self._sequence, self._intermediate = "escape", False
        elif char == "\x9b":
            self._sequence = "csi"
        elif char in _C1_STRING_STARTS:
            self._sequence = "string"
        elif char in _REORDERING:
            return f"<U+{ord(char):04X}>"
        elif char in _LINE_BREAKS:
            return "\n"
        elif "\ud800" <= char <= "\udfff":
            return "\ufffd"
        return ""

    def _skip_sequence(self, text: str, position: int) -> int:
        """Skip characters of the current sequence; return the position after them."""
        sequence = self._sequence
        if sequence == "string":
            position = _match_end(_STRING, text, position)
            if position < len(text):
                self._sequence = "string-escape" if text[position] == "\x1b" else ""
                if text[position] in "\x07\x9c\x1b\x18\x1a":
                    position += 1
            return position
        if sequence == "string-escape":  # the two-character terminator, or the start of another sequence
            self._sequence = "" if text[position] == "\\" else "escape"
            self._intermediate = False
            return position + 1 if text[position] == "\\" else position
        if (
            sequence == "escape"
            and not self._intermediate
            and (text[position] == "[" or text[position] in _STRING_STARTS)
        ):
            self._sequence = "csi" if text[position] == "[" else "string"
            return position + 1
        match = (_CSI if sequence == "csi" else _AFTER_ESCAPE).match(text, position)
        assert match is not None, "both patterns match the empty text"
        if match[1] is not None or match.end() < len(text):
            self._sequence = ""
        self._intermediate = self._intermediate or match.end() > position
        return match.end()


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()


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


def one_line(text: str, max_length: int = _MAX_LINE) -> str:
    """The text on one line, cut to `max_length` characters, with every unprintable character written out."""
    line = visible(" ".join(text.split())[: max_length + 1])
    return line if len(line) <= max_length else line[: max_length - 1] + "…"
