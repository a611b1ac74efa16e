"""The text of a file with its encoding, byte order mark and line endings; a change as a diff."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from accord.schema.content import Diff

EncodingName = Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]

_BOM_BYTES: Final[tuple[tuple[bytes, EncodingName], ...]] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_UTF_32_BOM_BYTES: Final = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_SAMPLE_SIZE: Final = 64 * 1024
# Control bytes that never occur in text of a single-byte encoding.
_BINARY_BYTES: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_C1_CONTROLS: Final = re.compile(rb"[\x80-\x9f]")
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

    name: EncodingName = "utf-8"
    has_bom: bool = False
    """Whether the file starts with a byte order mark."""

    def encode(self, text: str) -> bytes:
        """Return the bytes of a file with this text. Raises UnicodeEncodeError."""
        bom = next((bom for bom, name in _BOM_BYTES if name == self.name), b"") if self.has_bom else b""
        return bom + text.encode(self.name)


def decode(data: bytes) -> tuple[str, TextEncoding] | None:
    """Return the text of a file and its encoding; None if it is not text."""
    if data.startswith((*_BINARY_HEADERS, *_UTF_32_BOM_BYTES)):
        return None
    for bom, name in _BOM_BYTES:
        if data.startswith(bom):
            return _try_decode(data, len(bom), name)
    if b"\0" in data[:_SAMPLE_SIZE]:
        name = _utf_16_without_bom(data)
        return _try_decode(data, 0, name) if name else None
    if (decoded := _try_decode(data, 0, "utf-8")) is not None:
        return None if "\0" in decoded[0] else decoded
    if _BINARY_BYTES.search(data):
        return None
    if _C1_CONTROLS.search(data) and (decoded := _try_decode(data, 0, "cp1252")) is not None:
        return decoded
    return _try_decode(data, 0, "latin-1")


def _try_decode(data: bytes, start: int, name: EncodingName) -> tuple[str, TextEncoding] | None:
    try:
        text = data[start:].decode(name)
    except UnicodeDecodeError:
        return None
    encoding = TextEncoding(name, has_bom=start > 0)
    return (text, encoding) if encoding.encode(text) == data else None


def _utf_16_without_bom(data: bytes) -> EncodingName | None:
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
BOM: Final = "\ufeff"
"""The byte order mark."""
_LONE_LINE_FEED: Final = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file, with its line ends and without its byte order mark."""

    text: str
    encoding: TextEncoding = field(default_factory=TextEncoding)
    disk_bytes: bytes | None = None
    """The bytes of the file on this machine, if it exists."""
    from_client: bool = False
    """Whether the text came from the client. A changed text is then written through it."""
    client_sends_bom: bool = False
    """Whether the client's text included the byte order mark."""

    @property
    def digest(self) -> str:
        """A hash that ignores line ends and the byte order mark, which editors and clients may change."""
        return hashlib.sha256(normalize_line_ends(self.text).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def line_end(self) -> LineEnd | None:
        """The line end of all lines; None if they are mixed or there is none."""
        return line_end_of(self.text)


def normalize_line_ends(text: str) -> str:
    """Return the text with line feeds as line ends."""
    return text.replace("\r\n", "\n")


def line_end_of(text: str) -> LineEnd | None:
    """Return the line end of all lines; None if they are mixed or there is none."""
    has_crlf = "\r\n" in text
    if _LONE_LINE_FEED.search(text):
        return None if has_crlf else "\n"
    return "\r\n" if has_crlf else None


def with_line_end(text: str, end: LineEnd | None) -> str:
    """Return the text with these line ends. None and a line feed change nothing."""
    return normalize_line_ends(text).replace("\n", "\r\n") if end == "\r\n" else text


def client_document(text: str, disk: Document | None) -> Document:
    """Return the document for a text from the client, with the encoding of the file on this machine.

    Clients may drop the byte order mark and change line ends. Other differences are unsaved changes.
    """
    has_bom = text.startswith(BOM)
    text = text.removeprefix(BOM)
    if disk is None:
        return Document(text, TextEncoding(has_bom=has_bom), None, True, has_bom)
    if normalize_line_ends(text) == normalize_line_ends(disk.text):
        text = disk.text
    elif "\r" not in text:
        text = with_line_end(text, disk.line_end)
    return Document(text, disk.encoding, disk.disk_bytes, True, has_bom)


_CONTEXT_LINES: Final = 3


def diff_of(path: str, old: str | None, new: str, max_chars: int) -> Diff:
    """Return the change as a diff, with line feeds as line ends. Without an old text the file is new.

    If both texts together have more than `max_chars` characters, the diff has only the changed lines and a
    few lines around them.
    """
    old, new = old and normalize_line_ends(old), normalize_line_ends(new)
    if old is None or len(old) + len(new) <= max_chars:
        return Diff(path, new if len(new) <= max_chars else new[:max_chars], old)
    before, after = old.split("\n"), new.split("\n")
    start = 0
    for old_line, new_line in zip(before, after, strict=False):
        if old_line != new_line:
            break
        start += 1
    end = 0
    for old_line, new_line in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if old_line != new_line:
            break
        end += 1
    first, trailing = max(start - _CONTEXT_LINES, 0), max(end - _CONTEXT_LINES, 0)
    cut_old, cut_new = before[first : len(before) - trailing], after[first : len(after) - trailing]
    return Diff(path, "\n".join(cut_new)[:max_chars], "\n".join(cut_old)[:max_chars])
