"""Server-sent events from bytes, however the reads cut them. Pure, no I/O.

A line ends with LF, CR or CRLF; several `data` lines make one event; comments are signs of life; other fields mean nothing
here. An event over the limit becomes one `Oversized` in its place and streams past in bounded memory.
"""

from typing import Final

from accord.wire.framing import DEFAULT_LIMIT, SHOWN
from accord.wire.transport import Frame, Oversized

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_ID: Final = 1024
_SLACK: Final = 16  # the name of a field and the blank behind it


class EventParser:
    """Feed it every read of one stream; it gives the data of each event that is complete."""

    __slots__ = ("_after_cr", "_begun", "_data", "_id", "_limit", "_line", "_passing", "comments", "last_id")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.last_id: str | None = None
        """The id of the last complete event that had one."""
        self.comments = 0
        self._limit = limit
        self._begun = False
        self._after_cr = False
        self._line = bytearray()  # the unfinished line; of one that is too long only its ends
        self._passing = _Passing()  # what went by of it
        self._data: list[bytes | Oversized] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The events that these bytes complete, in order."""
        if not data:
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines(keepends=True)
        rest = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        frames: list[Frame] = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if self._line or len(text) > self._limit + _SLACK:
                self._keep(text)
                self._finish_line(frames)
            else:
                self._field(text, frames)
        if rest:
            self._keep(rest)
        return frames

    def _keep(self, piece: bytes) -> None:
        self._line += piece
        if self._passing.size:
            self._passing.size += len(piece)
            del self._line[:-SHOWN]
        elif len(self._line) > self._limit + _SLACK:
            self._passing = _Passing(len(self._line), bytes(self._line[: SHOWN + _SLACK]))
            del self._line[:-SHOWN]

    def _finish_line(self, frames: list[Frame]) -> None:
        line, passed = bytes(self._line), self._passing
        self._line, self._passing = bytearray(), _Passing()
        if not passed.size:
            self._field(line, frames)
            return
        name, mark, value = passed.head.partition(b":")
        if name == b"data" and mark:
            head = value.removeprefix(b" ")
            size = passed.size - (len(passed.head) - len(head))
            self._data.append(Oversized(size, head[:SHOWN], line[-SHOWN:]))

    def _field(self, line: bytes, frames: list[Frame]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(frames)
        elif line.startswith(b":"):
            self.comments += 1
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"id" and b"\0" not in value and len(value) <= _LONGEST_ID:
                self._id = value.removeprefix(b" ").decode(errors="replace")

    def _dispatch(self, frames: list[Frame]) -> None:
        data, self._data = self._data, []
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if not data:
            return
        frame = data[0] if len(data) == 1 else _joined(data)
        if isinstance(frame, bytes) and len(frame) > self._limit:
            frame = Oversized(len(frame), frame[:SHOWN], frame[-SHOWN:])
        if isinstance(frame, Oversized) or frame.strip():
            frames.append(frame)


class _Passing:
    """A line that is too long: how much of it there was so far, and how it began."""

    __slots__ = ("head", "size")

    def __init__(self, size: int = 0, head: bytes = b"") -> None:
        self.size = size
        self.head = head


def _joined(data: list[bytes | Oversized]) -> bytes | Oversized:
    if all(isinstance(part, bytes) for part in data):
        return b"\n".join(part for part in data if isinstance(part, bytes))
    size = len(data) - 1 + sum(part.size if isinstance(part, Oversized) else len(part) for part in data)
    first, last = data[0], data[-1]
    head = first.head if isinstance(first, Oversized) else first[:SHOWN]
    tail = last.tail if isinstance(last, Oversized) else last[-SHOWN:]
    return Oversized(size, head, tail)
