"""What a terminal keeps of its command's output: valid text, bounded in bytes, the oldest dropped first.

Bytes become text as they arrive, so a character split over two reads comes out whole, bytes that are no UTF-8 become
U+FFFD, and the bound holds for what is sent, not for what was read. The cut never splits a character.
"""

import codecs


class OutputBuffer:
    """The last `limit` bytes of a stream of text, as UTF-8."""

    def __init__(self, limit: int) -> None:
        self.truncated = False
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = bytearray()

    def feed(self, data: bytes) -> str:
        """Take in what was read; returns the text that it completed."""
        return self._keep(self._decoder.decode(data))

    def finish(self) -> str:
        """The stream is over: half a character that still waited becomes U+FFFD."""
        return self._keep(self._decoder.decode(b"", final=True))

    @property
    def text(self) -> str:
        """What is kept."""
        return self._kept.decode()

    def _keep(self, text: str) -> str:
        kept = self._kept
        kept += text.encode()
        excess = len(kept) - self._limit
        if excess > 0:
            while excess < len(kept) and kept[excess] & 0xC0 == 0x80:
                excess += 1
            del kept[:excess]
            self.truncated = True
        return text
