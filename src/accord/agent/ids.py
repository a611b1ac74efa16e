"""The ids an agent mints: nobody can guess a session's, and no two things of a session share one, not even after a load."""

import os


def new_session_id() -> str:
    """A fresh id with 122 random bits, in the usual notation of a version 4 UUID."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Ids:
    """The ids of one activation of a session: a random part, and a number that counts up."""

    def __init__(self) -> None:
        self._random = os.urandom(6).hex()
        self._count = 0

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._random}-{self._count}"

    def message(self) -> str:
        """The id of a message."""
        return self._next("msg")

    def tool_call(self) -> str:
        """The id of a tool call."""
        return self._next("call")

    def compaction(self) -> str:
        """The id of a compaction."""
        return self._next("compaction")
