"""Bytes to frames: one message a line, whatever the reads cut them into. Pure, no I/O.

A line end is LF or CRLF, a byte order mark before a line is dropped, blank lines are nothing. A line over the limit
becomes one `Oversized` in its place, and streams past in bounded memory: the limit refuses a message, never the stream.
The same bytes give the same frames however they are cut.
"""

from typing import Final

from accord.wire.transport import Frame, Oversized

DEFAULT_LIMIT: Final = 64 * 1024 * 1024
"""The longest frame taken, in bytes. Base64 images and replayed history are big; memory is not endless."""

SHOWN: Final = 4096
"""How many bytes of either end of an oversized frame are kept."""

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = b"\r"


class LineFramer:
    """Splits a stream into frames: `feed` every read, then `finish` once at its end."""

    __slots__ = ("_head", "_limit", "_line", "_most", "_passed")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        # Past this length a line is too long even if it turns out to carry a mark and a CR.
        self._most = max(limit, SHOWN + len(_CR)) + len(_BOM) + len(_CR)
        self._line = bytearray()  # the unfinished line; of one over the limit only its last bytes
        self._passed = 0  # bytes of an oversized line that are no longer in _line
        self._head = b""  # and its first ones

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order."""
        lines = data.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._line:
                frames += self._completed(lines[0])
                del lines[0]
            if len(data) > self._limit or _CR in data or (_BOM[0] in data and _BOM in data):
                for line in lines:
                    frames += self._trimmed(line)
            elif frames:
                frames += filter(bytes.strip, lines)
            else:
                frames = list(filter(bytes.strip, lines))
        if rest:
            self._keep(rest)
        return frames

    def finish(self) -> list[Frame]:
        """The last line, where the stream ended without a line end."""
        return self._completed(b"") if self._line else []

    def _keep(self, piece: bytes) -> None:
        line = self._line
        line += piece
        if self._passed:
            surplus = len(line) - SHOWN - len(_CR)
            self._passed += surplus
            del line[:surplus]
        elif len(line) > self._most:
            mark = len(_BOM) if line.startswith(_BOM) else 0
            self._head = bytes(line[mark : mark + SHOWN])
            self._line = line[-SHOWN - len(_CR) :]
            self._passed = len(line) - mark - len(self._line)

    def _completed(self, piece: bytes) -> list[Frame]:
        self._keep(piece)
        line, passed = self._line, self._passed
        self._line, self._passed = bytearray(), 0
        if not passed:
            return self._trimmed(bytes(line))
        if line.endswith(_CR):
            del line[-1:]
        return [Oversized(passed + len(line), self._head, bytes(line[-SHOWN:]))]

    def _trimmed(self, line: bytes) -> list[Frame]:
        line = line.removeprefix(_BOM).removesuffix(_CR)
        if len(line) > self._limit:
            return [Oversized(len(line), line[:SHOWN], line[-SHOWN:])]
        return [line] if line.strip() else []
