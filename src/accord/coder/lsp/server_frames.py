"""The framing of language servers: `Content-Length` headers, bounded."""

import re
from collections.abc import Iterator
from typing import Final

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 4096
_LENGTH: Final = re.compile(rb"^content-length:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)


class BadServerOutput(Exception):
    """What a server wrote is no message; the text says why."""


class ServerFrames:
    """Splits what a server writes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete messages. Raises BadServerOutput."""
        self._data += data
        while True:
            if self._length is None:
                end = self._data.find(b"\r\n\r\n", 0, _MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._data) >= _MAX_HEADER_BYTES:
                        raise BadServerOutput("it writes something other than messages")
                    return
                self._length = _length_of(bytes(self._data[:end]))
                del self._data[: end + 4]
            if len(self._data) < self._length:
                return
            message, length = bytes(self._data[: self._length]), self._length
            del self._data[:length]
            self._length = None
            yield message


def _length_of(header: bytes) -> int:
    found = _LENGTH.search(header.replace(b"\r\n", b"\n"))
    if found is None:
        raise BadServerOutput("it writes something other than messages")
    length = int(found[1])
    if length > MAX_MESSAGE_BYTES:
        raise BadServerOutput(f"it sent a message of {length:,} bytes")
    return length


def frame(message: bytes) -> bytes:
    """The bytes of a message without its last line end, which the pipe adds."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(message) + 1, message)
