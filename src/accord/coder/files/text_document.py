"""The text of a file with its encoding, byte order mark and line endings; a change as a diff."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from accord.schema.content import Diff

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]

_MARKS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_UTF_32: Final = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_SAMPLE_SIZE: Final = 64 * 1024
# Control bytes that never occur in text of a single-byte encoding.
_BINARY_BYTES: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_C1: Final = re.compile(rb"[\x80-\x9f]")
_BINARY_HEADERS: Final = (
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
    """The encoding of a file. A decoded file always encodes back to the same bytes."""

    encoding: Encoding = "utf-8"
    marked: bool = False
    """Whether the file starts with a byte order mark."""

    def encode(self, text: str) -> bytes:
        """Return the bytes of a file with this text. Raises UnicodeEncodeError."""
        mark = (
            next((mark for mark, encoding in _MARKS if encoding == self.encoding), b"")
            if self.marked
            else b""
        )
        return mark + text.encode(self.encoding)


def decode(data: bytes) -> tuple[str, TextEncoding] | None:
    """Return the text of a file and its encoding; None if it is not text."""
    if data.startswith((*_BINARY_HEADERS, *_UTF_32)):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _try_decode(data, len(mark), encoding)
    if b"\0" in data[:_SAMPLE_SIZE]:
        encoding = _unmarked_utf_16(data)
        return _try_decode(data, 0, encoding) if encoding else None
    if (text := _try_decode(data, 0, "utf-8")) is not None:
        return None if "\0" in text[0] else text
    if _BINARY_BYTES.search(data):
        return None
    if _C1.search(data) and (text := _try_decode(data, 0, "cp1252")) is not None:
        return text
    return _try_decode(data, 0, "latin-1")


def _try_decode(data: bytes, start: int, encoding: Encoding) -> tuple[str, TextEncoding] | None:
    try:
        text = data[start:].decode(encoding)
    except UnicodeDecodeError:
        return None
    form = TextEncoding(encoding, start > 0)
    return (text, form) if form.encode(text) == data else None


def _unmarked_utf_16(data: bytes) -> Encoding | None:
    """Detect UTF-16 without a byte order mark: in western text, every other byte is zero."""
    sample = data[:_SAMPLE_SIZE]
    if len(data) % 2:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = len(sample) / 2
    if odd > half * 0.7 and even == 0:
        return "utf-16-le"
    if even > half * 0.7 and odd == 0:
        return "utf-16-be"
    return None


LineEnd = Literal["\n", "\r\n"]
MARK: Final = "\ufeff"
_BARE: Final = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file, with its line ends and without its byte order mark."""

    text: str
    form: TextEncoding = field(default_factory=TextEncoding)
    on_disk: bytes | None = None
    """The bytes of the file on this machine, if it exists."""
    of_client: bool = False
    """Whether the text came from the client. A changed text is then written through it."""
    client_marks: bool = False
    """Whether the client's text included the byte order mark."""

    @property
    def digest(self) -> str:
        """A hash that ignores line ends and the byte order mark, which editors and clients may change."""
        return hashlib.sha256(plain(self.text).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def line_end(self) -> LineEnd | None:
        """The line end of all lines; None if they are mixed or there is none."""
        return line_end_of(self.text)


def plain(text: str) -> str:
    """Return the text with line feeds as line ends."""
    return text.replace("\r\n", "\n")


def line_end_of(text: str) -> LineEnd | None:
    """Return the line end of all lines; None if they are mixed or there is none."""
    windows = "\r\n" in text
    if _BARE.search(text):
        return None if windows else "\n"
    return "\r\n" if windows else None


def with_line_end(text: str, end: LineEnd | None) -> str:
    """Return the text with these line ends. None and a line feed change nothing."""
    return plain(text).replace("\n", "\r\n") if end == "\r\n" else text


def client_document(text: str, disk: Document | None) -> Document:
    """Return the document for a text from the client, with the encoding of the file on this machine.

    Clients may drop the byte order mark and change line ends. Other differences are unsaved changes.
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


_CONTEXT_LINES: Final = 3


def diff_of(path: str, old: str | None, new: str, max_chars: int) -> Diff:
    """Return the change as a diff. Without an old text the file is new.

    If both texts have more than `max_chars` characters together, the diff has only the changed lines and some
    around.
    """
    if old is None or len(old) + len(new) <= max_chars:
        return Diff(path, new if len(new) <= max_chars else new[:max_chars], old)
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
    first, trailing = max(start - _CONTEXT_LINES, 0), max(end - _CONTEXT_LINES, 0)
    cut_old, cut_new = before[first : len(before) - trailing], after[first : len(after) - trailing]
    return Diff(path, "\n".join(cut_new)[:max_chars], "\n".join(cut_old)[:max_chars])
