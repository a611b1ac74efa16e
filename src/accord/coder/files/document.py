"""The text of a file as the tools work on it, and what is needed to put a changed text back in the same form."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from accord.coder.files.form import Form

LineEnd = Literal["\n", "\r\n"]
MARK: Final = "\ufeff"
_BARE: Final = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, with its line ends and without its byte order mark."""

    text: str
    form: Form = field(default_factory=Form)
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
        return Document(bare, Form(marked=marks), None, True, marks)
    if plain(bare) == plain(disk.text):
        bare = disk.text
    elif "\r" not in bare:
        bare = with_line_end(bare, disk.line_end)
    return Document(bare, disk.form, disk.on_disk, True, marks)
