"""Parses server-sent events. No I/O."""

from typing import Final

from accord.wire.transport import DEFAULT_LIMIT, OVERSIZED_SAMPLE, Frame, OversizedFrame

_BOM: Final = b"\xef\xbb\xbf"
_MAX_ID_BYTES: Final = 1024
_MAX_FIELD_NAME: Final = 16
"""The longest name of a known field, with its colon and the space after it."""


class EventParser:
    """Parses the bytes of one stream: `feed` every read and get the data of each complete event.

    A line ends with LF, CR or CRLF. Several `data` lines make one event. Comments are keep-alives; other
    fields are ignored. An event over the limit becomes one `OversizedFrame` and takes bounded memory. No I/O.
    """

    __slots__ = (
        "_after_cr", "_data", "_first_line_read", "_id", "_limit", "_line", "_oversized", "comments",
        "last_id",
    )  # fmt: skip

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.last_id: str | None = None
        """The id of the last complete event that had one."""
        self.comments: int = 0
        self._limit = limit
        self._first_line_read = False
        self._after_cr = False
        self._line = bytearray()  # the unfinished line; if it is too long, only its end
        self._oversized = _OversizedLine()  # the dropped part of it
        self._data: list[bytes | OversizedFrame] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete, in order."""
        if not data:
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines(keepends=True)
        unfinished = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        frames: list[Frame] = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if self._line or len(text) > self._limit + _MAX_FIELD_NAME:
                self._append(text)
                self._finish_line(frames)
            else:
                self._parse_field(text, frames)
        if unfinished:
            self._append(unfinished)
        return frames

    def _append(self, part: bytes) -> None:
        self._line += part
        if self._oversized.size:
            self._oversized.size += len(part)
            del self._line[:-OVERSIZED_SAMPLE]
        elif len(self._line) > self._limit + _MAX_FIELD_NAME:
            self._oversized = _OversizedLine(
                len(self._line), bytes(self._line[: OVERSIZED_SAMPLE + _MAX_FIELD_NAME])
            )
            del self._line[:-OVERSIZED_SAMPLE]

    def _finish_line(self, frames: list[Frame]) -> None:
        line, oversized = bytes(self._line), self._oversized
        self._line, self._oversized = bytearray(), _OversizedLine()
        if not oversized.size:
            self._parse_field(line, frames)
            return
        name, separator, value = oversized.head.partition(b":")
        if name == b"data" and separator:
            head = value.removeprefix(b" ")
            size = oversized.size - (len(oversized.head) - len(head))
            self._data.append(OversizedFrame(size, head[:OVERSIZED_SAMPLE], line[-OVERSIZED_SAMPLE:]))

    def _parse_field(self, line: bytes, frames: list[Frame]) -> None:
        if not self._first_line_read:
            self._first_line_read = True
            line = line.removeprefix(_BOM)
        if not line:
            self._finish_event(frames)
        elif line.startswith(b":"):
            self.comments += 1
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"id" and b"\0" not in value and len(value) <= _MAX_ID_BYTES:
                self._id = value.removeprefix(b" ").decode(errors="replace")

    def _finish_event(self, frames: list[Frame]) -> None:
        data, self._data = self._data, []
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if not data:
            return
        frame = data[0] if len(data) == 1 else _join_data(data)
        if isinstance(frame, bytes) and len(frame) > self._limit:
            frame = OversizedFrame(len(frame), frame[:OVERSIZED_SAMPLE], frame[-OVERSIZED_SAMPLE:])
        if isinstance(frame, OversizedFrame) or frame.strip():
            frames.append(frame)


class _OversizedLine:
    """A line that is too long: its size so far, and its first bytes."""

    __slots__ = ("head", "size")

    def __init__(self, size: int = 0, head: bytes = b"") -> None:
        self.size = size
        self.head = head


def _join_data(data: list[bytes | OversizedFrame]) -> bytes | OversizedFrame:
    if all(isinstance(part, bytes) for part in data):
        return b"\n".join(part for part in data if isinstance(part, bytes))
    size = len(data) - 1 + sum(part.size if isinstance(part, OversizedFrame) else len(part) for part in data)
    first, last = data[0], data[-1]
    head = first.head if isinstance(first, OversizedFrame) else first[:OVERSIZED_SAMPLE]
    tail = last.tail if isinstance(last, OversizedFrame) else last[-OVERSIZED_SAMPLE:]
    return OversizedFrame(size, head, tail)
