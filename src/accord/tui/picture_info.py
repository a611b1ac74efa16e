"""What is known of a picture without decoding it: its format, its size, and how to say that in one line."""

import struct
from typing import Final, NamedTuple

from accord.frontend.attachments import picture_type

HEAD_BYTES: Final = 256 * 1024
"""How much of a file is looked at: a JPEG can have its size behind a preview."""
_NO_SIZE: Final = frozenset((0xC4, 0xC8, 0xCC))
"""Segments of a JPEG between 0xC0 and 0xCF that hold no size."""


class PictureInfo(NamedTuple):
    """The format and size of a picture; 0 if the size is not known."""

    format: str
    width: int = 0
    height: int = 0

    def describe(self, size: int) -> str:
        """Such as `PNG, 640×480, 12 kB`."""
        pixels = f", {self.width}×{self.height}" if self.width and self.height else ""
        amount = f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{max(size // 1_000, 1)} kB"
        return f"{self.format}{pixels}, {amount}"


def picture_info(head: bytes) -> PictureInfo | None:
    """Read the first bytes of a file; None if it is no picture."""
    kind = picture_type(head)
    if kind is None:
        return None
    try:
        return PictureInfo(kind.partition("/")[2].upper(), *_SIZES[kind](head))
    except (struct.error, IndexError):
        return PictureInfo(kind.partition("/")[2].upper())


def _png(head: bytes) -> tuple[int, int]:
    return struct.unpack(">II", head[16:24])


def _gif(head: bytes) -> tuple[int, int]:
    return struct.unpack("<HH", head[6:10])


def _webp(head: bytes) -> tuple[int, int]:
    if head[12:16] == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", head[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(head: bytes) -> tuple[int, int]:
    at = 2
    while head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", head[at + 2 : at + 4])[0]
    return 0, 0


_SIZES: Final = {"image/png": _png, "image/gif": _gif, "image/webp": _webp, "image/jpeg": _jpeg}
