"""What a child said on stderr last: the end of it kept as text, every line offered to whoever listens."""

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Final

KEPT_BYTES: Final = 8 * 1024
KEPT_LINES: Final = 40

_LONGEST_LINE: Final = 64 * 1024


class LastWords:
    """Takes stderr as it is read; keeps its last lines. Free-form text: bytes that are no UTF-8 are replaced."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._tail = b""
        self._cut = False
        self._on_line = on_line
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._line = ""

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        tail = self._tail + data if len(data) < KEPT_BYTES else data
        if len(tail) > KEPT_BYTES or len(data) >= KEPT_BYTES:
            self._cut = True
        self._tail = tail[-KEPT_BYTES:]
        if self._on_line is not None:
            self._tell(self._decoder.decode(data), self._on_line)

    def finish(self) -> None:
        """There is no more: a last line without an end is a line."""
        if self._on_line is not None and (self._line or self._decoder.getstate()[0]):
            self._tell(self._decoder.decode(b"", final=True) + "\n", self._on_line)

    @property
    def text(self) -> str:
        """The last lines, whole ones as far as they fit."""
        tail = self._tail
        if self._cut:
            first, newline, rest = tail.partition(b"\n")
            tail = rest if newline and rest else first.lstrip(bytes(range(0x80, 0xC0)))
        lines = tail.decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-KEPT_LINES:])

    def _tell(self, text: str, on_line: Callable[[str], None]) -> None:
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > _LONGEST_LINE:
            lines.append(self._line)
            self._line = ""
        for line in lines:
            on_line(line.removesuffix("\r"))
