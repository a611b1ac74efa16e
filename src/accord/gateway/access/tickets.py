"""Tickets: what a page shows to open a WebSocket, where a browser can send no header. Used once, within 30 seconds.

A ticket may stand in an address: when that is logged, the ticket is spent. It is bound to a token, and to the origin of the page
that got it.
"""

import hashlib
import secrets
from typing import Final, NamedTuple

from accord.clock import Clock

LIFETIME: Final = 30.0
_MOST: Final = 1024


class _Ticket(NamedTuple):
    token: str
    origin: str | None
    until: float


class Tickets:
    """Those that are out. Only hashes are kept, in memory: a ticket does not outlive the gateway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._out: dict[bytes, _Ticket] = {}

    def __len__(self) -> int:
        return len(self._out)

    def issue(self, token: str, origin: str | None = None) -> str:
        """A new one for the holder of the token with this id."""
        now = self._clock.now()
        for key in [key for key, ticket in self._out.items() if ticket.until <= now]:
            del self._out[key]
        while len(self._out) >= _MOST:
            del self._out[next(iter(self._out))]  # the oldest: whoever asks for so many opens none of them
        text = secrets.token_urlsafe(32)
        self._out[_key(text)] = _Ticket(token, origin, now + LIFETIME)
        return text

    def redeem(self, text: str, origin: str | None = None) -> str | None:
        """The id of the token it stands for; None if it is none, spent, too old, or of a page from elsewhere."""
        ticket = self._out.pop(_key(text), None)
        if ticket is None or ticket.until <= self._clock.now():
            return None
        return ticket.token if ticket.origin in (None, origin) else None


def _key(text: str) -> bytes:
    """Looked up by its hash, a ticket cannot be found out by the time that looking takes."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
