"""Login cookies and one-time WebSocket tickets of browsers."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from accord.clock import Clock
from accord.gateway.access.access_tokens import create_private_file
from accord.paths import data_dir, private_folder

# MERGED gateway.access.browsers: Browsers that are logged in: each has a cookie, which stands for the token it logged in with and goes with it.
#
# Kept as one small file each, named by the hash of the cookie, so that a restart of the gateway logs nobody out. The file's time is
# when the browser was heard of last.

COOKIE: Final = "accord"
LOGIN_LIFETIME: Final = 30 * 24 * 3600
"""So many seconds without a visit, and the browser has to log in again."""
_MAX_PER_TOKEN: Final = 64
_USE_INTERVAL: Final = 3600.0


class BrowserLogins:
    """All of them."""

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.folder = data_dir() / "gateway" / "browsers" if folder is None else folder
        self._now = now

    def log_in(self, token: str) -> str:
        """A new cookie for the holder of the token with this id. Raises OSError."""
        private_folder(self.folder)
        self._remove_old(token)
        cookie = secrets.token_urlsafe(32)
        create_private_file(self._path(cookie), token.encode(), self._now())
        return cookie

    def token(self, cookie: str) -> str | None:
        """The id of the token that the cookie stands for; None if it is none, or too old."""
        path = self._path(cookie)
        try:
            last_seen = path.stat().st_mtime
            token = path.read_bytes()[:64].decode("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        now = self._now()
        if now - last_seen >= LOGIN_LIFETIME:
            self.log_out(cookie)
            return None
        if now - last_seen >= _USE_INTERVAL:
            with suppress(OSError):
                os.utime(path, (now, now))
        return token

    def log_out(self, cookie: str) -> None:
        """The cookie is worth nothing any more."""
        with suppress(OSError):
            self._path(cookie).unlink(missing_ok=True)

    def forget(self, token: str) -> None:
        """Log out every browser that came with the token of this id."""
        for path, _ in self._files_of(token):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _remove_old(self, token: str) -> None:
        """Drop those too old, and make room: one token has so many browsers at most."""
        for path, last_seen in self._files():
            if self._now() - last_seen >= LOGIN_LIFETIME:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        same_token = sorted(self._files_of(token), key=lambda files: files[1])
        for path, _ in same_token[: max(0, len(same_token) - _MAX_PER_TOKEN + 1)]:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[Path, float]]:
        files: list[tuple[Path, float]] = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                with suppress(OSError):
                    files.append((path, path.stat().st_mtime))
        return files

    def _files_of(self, token: str) -> list[tuple[Path, float]]:
        files: list[tuple[Path, float]] = []
        for path, last_seen in self._files():
            with suppress(OSError):
                if path.read_bytes() == token.encode():
                    files.append((path, last_seen))
        return files

    def _path(self, cookie: str) -> Path:
        return self.folder / hashlib.sha256(cookie.encode(errors="surrogatepass")).hexdigest()


# MERGED gateway.access.tickets: Tickets: what a page shows to open a WebSocket, where a browser can send no header. Used once, within 30 seconds.
#
# A ticket may stand in an address: when that is logged, the ticket is spent. It is bound to a token, and to the origin of the page
# that got it.

TICKET_LIFETIME: Final = 30.0
_MAX_TICKETS: Final = 1024


class _Ticket(NamedTuple):
    token: str
    origin: str | None
    expires: float


class Tickets:
    """Those that are out. Only hashes are kept, in memory: a ticket does not outlive the gateway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[bytes, _Ticket] = {}

    def __len__(self) -> int:
        return len(self._issued)

    def issue(self, token: str, origin: str | None = None) -> str:
        """A new one for the holder of the token with this id."""
        now = self._clock.now()
        for key in [key for key, ticket in self._issued.items() if ticket.expires <= now]:
            del self._issued[key]
        while len(self._issued) >= _MAX_TICKETS:
            del self._issued[
                next(iter(self._issued))
            ]  # the oldest: whoever asks for so many opens none of them
        cookie = secrets.token_urlsafe(32)
        self._issued[_key(cookie)] = _Ticket(token, origin, now + TICKET_LIFETIME)
        return cookie

    def redeem(self, cookie: str, origin: str | None = None) -> str | None:
        """The id of the token it stands for; None if it is none, spent, too old, or of a page from elsewhere."""
        ticket = self._issued.pop(_key(cookie), None)
        if ticket is None or ticket.expires <= self._clock.now():
            return None
        return ticket.token if ticket.origin in (None, origin) else None


def _key(cookie: str) -> bytes:
    """Looked up by its hash, a ticket cannot be found out by the time that looking takes."""
    return hashlib.sha256(cookie.encode(errors="surrogatepass")).digest()
