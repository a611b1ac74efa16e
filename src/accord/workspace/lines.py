"""Lines of a text as `fs/read_text_file` counts them: the first is 1, and only a line feed ends one.

Line ends stay as they are, the last one included, so that parts read one after the other join to the original.
"""

import os
import threading
from typing import Final

from accord.errors import InvalidParams, RequestCancelled

_CHUNK: Final = 256 * 1024


class TooLong(Exception):
    """More bytes were asked for than the bound allows."""


def check_count(name: str, value: object) -> None:
    """Refuse a `line` or `limit` that is no whole number from 0 on."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise InvalidParams(f"{name} must be a whole number from 0 on, not {value!r:.80}")


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Of a whole text, `limit` lines from `line` on; "" past the end."""
    start = _after(text, "\n", max(line or 1, 1) - 1, 0)
    if start is None:
        return ""
    return text[start : None if limit is None else _after(text, "\n", limit, start)]


def read_lines(
    descriptor: int, line: int | None, limit: int | None, bound: int, stop: threading.Event
) -> bytes:
    """The same out of an open file, in chunks: memory stays within `bound`, however long the file is.

    Raises TooLong past the bound, RequestCancelled once `stop` is set.
    """
    skip = max(line or 1, 1) - 1
    kept = bytearray()
    while limit is None or limit > 0:
        if stop.is_set():
            raise RequestCancelled()
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        if skip:
            ends = chunk.count(b"\n")
            start = _after(chunk, b"\n", skip, 0)
            skip = max(skip - ends, 0)
            if start is None:
                continue
            chunk = chunk[start:]
        if limit is not None:
            ends = chunk.count(b"\n")
            chunk = chunk[: _after(chunk, b"\n", limit, 0)]
            limit = max(limit - ends, 0)
        kept += chunk
        if len(kept) > bound:
            raise TooLong
    return bytes(kept)


def _after(text: str | bytes, end: str | bytes, count: int, start: int) -> int | None:
    """The position behind the `count`-th line end from `start` on; None where there are fewer."""
    for _ in range(count):
        start = text.find(end, start) + 1  # pyright: ignore[reportArgumentType]
        if not start:
            return None
    return start
