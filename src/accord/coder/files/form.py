"""The form of a text on disk: its encoding and byte order mark. What is decoded here encodes back to the same bytes."""

import re
from dataclasses import dataclass
from typing import Final, Literal

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]

_MARKS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_UTF_32: Final = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_LOOKED_AT: Final = 64 * 1024
# Bytes that text in any of the single-byte encodings does not have: controls other than blanks, line ends and escapes.
_NO_TEXT: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_C1: Final = re.compile(rb"[\x80-\x9f]")
_BINARIES: Final = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x7fELF",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"BZh",
    b"7z\xbc\xaf",
)


@dataclass(frozen=True, slots=True)
class Form:
    """How a text is written as bytes."""

    encoding: Encoding = "utf-8"
    marked: bool = False
    """Whether a byte order mark stands before it."""

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text. Raises UnicodeEncodeError."""
        mark = (
            next((mark for mark, encoding in _MARKS if encoding == self.encoding), b"")
            if self.marked
            else b""
        )
        return mark + text.encode(self.encoding)


def decode(data: bytes) -> tuple[str, Form] | None:
    """The text in a file, and its form; None if it is not text."""
    if data.startswith((*_BINARIES, *_UTF_32)):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _tried(data, len(mark), encoding)
    if b"\0" in data[:_LOOKED_AT]:
        encoding = _unmarked_utf_16(data)
        return _tried(data, 0, encoding) if encoding else None
    if (text := _tried(data, 0, "utf-8")) is not None:
        return None if "\0" in text[0] else text
    if _NO_TEXT.search(data):
        return None
    if _C1.search(data) and (text := _tried(data, 0, "cp1252")) is not None:
        return text
    return _tried(data, 0, "latin-1")


def _tried(data: bytes, start: int, encoding: Encoding) -> tuple[str, Form] | None:
    try:
        text = data[start:].decode(encoding)
    except UnicodeDecodeError:
        return None
    form = Form(encoding, start > 0)
    return (text, form) if form.encode(text) == data else None


def _unmarked_utf_16(data: bytes) -> Encoding | None:
    """UTF-16 of mostly western text has a zero in every other byte, and none in between."""
    sample = data[:_LOOKED_AT]
    if len(data) % 2:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = len(sample) / 2
    if odd > half * 0.7 and even == 0:
        return "utf-16-le"
    if even > half * 0.7 and odd == 0:
        return "utf-16-be"
    return None
