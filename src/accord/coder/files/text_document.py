"""The text of a file with its encoding, byte order mark and line endings; a change as a diff."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from accord.schema.content import Diff

# MERGED coder.files.form: The form of a text on disk: its encoding and byte order mark. What is decoded here encodes back to the same bytes.

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
class TextEncoding:
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


def decode(data: bytes) -> tuple[str, TextEncoding] | None:
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


def _tried(data: bytes, start: int, encoding: Encoding) -> tuple[str, TextEncoding] | None:
    try:
        text = data[start:].decode(encoding)
    except UnicodeDecodeError:
        return None
    form = TextEncoding(encoding, start > 0)
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


# MERGED coder.files.document: The text of a file as the tools work on it, and what is needed to put a changed text back in the same form.

LineEnd = Literal["\n", "\r\n"]
MARK: Final = "\ufeff"
_BARE: Final = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, with its line ends and without its byte order mark."""

    text: str
    form: TextEncoding = field(default_factory=TextEncoding)
    on_disk: bytes | None = None
    """The bytes of the file here, if it is here."""
    of_client: bool = False
    """Whether the client gave the text: then a changed one goes back to it."""
    client_marks: bool = False
    """Whether the client's text had the byte order mark in it."""

    @property
    def digest(self) -> str:
        """The same for texts that differ only in line ends and marks, which editors and clients change in passing."""
        return hashlib.sha256(plain(self.text).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def line_end(self) -> LineEnd | None:
        """The one line end of all lines; None for a text that mixes them or has none."""
        return line_end_of(self.text)


def plain(text: str) -> str:
    """The text with every line end a line feed."""
    return text.replace("\r\n", "\n")


def line_end_of(text: str) -> LineEnd | None:
    """The one line end of all lines; None for a text that mixes them or has none."""
    windows = "\r\n" in text
    if _BARE.search(text):
        return None if windows else "\n"
    return "\r\n" if windows else None


def with_line_end(text: str, end: LineEnd | None) -> str:
    """The text with these line ends; None, or a line feed, leaves it as it is."""
    return plain(text).replace("\n", "\r\n") if end == "\r\n" else text


def as_client_gave(text: str, disk: Document | None) -> Document:
    """The document that the client's text is, where the file here tells in which form it is kept.

    Clients may hand a text over without its mark and with other line ends; what differs otherwise is not saved yet.
    """
    marks = text.startswith(MARK)
    bare = text.removeprefix(MARK)
    if disk is None:
        return Document(bare, TextEncoding(marked=marks), None, True, marks)
    if plain(bare) == plain(disk.text):
        bare = disk.text
    elif "\r" not in bare:
        bare = with_line_end(bare, disk.line_end)
    return Document(bare, disk.form, disk.on_disk, True, marks)


# MERGED coder.files.change: A change of a file, as clients show it.

_AROUND: Final = 3


def diff_of(path: str, old: str | None, new: str, most: int) -> Diff:
    """The change with the whole texts; where they have more than `most` characters together, only the changed lines and
    those around them. No old text means a new file."""
    if old is None or len(old) + len(new) <= most:
        return Diff(path, new if len(new) <= most else new[:most], old)
    before, after = old.split("\n"), new.split("\n")
    start = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        start += 1
    end = 0
    for one, other in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if one != other:
            break
        end += 1
    first, trailing = max(start - _AROUND, 0), max(end - _AROUND, 0)
    cut_old, cut_new = before[first : len(before) - trailing], after[first : len(after) - trailing]
    return Diff(path, "\n".join(cut_new)[:most], "\n".join(cut_old)[:most])
