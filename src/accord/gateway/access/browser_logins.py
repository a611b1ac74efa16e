"""Login cookies and one-time WebSocket tickets of browsers."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from accord.clock import Clock
from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.gateway.access.access_contracts import RedeemedTicket
from accord.paths import data_dir
from accord.private_files import create_file, private_folder

COOKIE: Final = "accord"
LOGIN_LIFETIME: Final = 30 * 24 * 3600
"""Seconds without a request after which a browser must log in again."""
MAX_LOGINS: Final = 64
"""How many browsers one token can log in."""
USE_INTERVAL: Final = 3600.0
"""Seconds between two records of a browser's use."""

_FORMAT: Final = FileFormat(2)
"""A file of version 1 contains only the id of the token."""


class _Login(msgspec.Struct):
    token: str


def _read_token(path: Path) -> str | None:
    """Return the id of the token in a file; None if it cannot be read, also if a newer Accord wrote it."""
    try:
        data = path.read_bytes()
        if not data.startswith(b"{"):
            return data[:64].decode("ascii")
        return _FORMAT.decode(data, _Login, path).token
    except (OSError, BadSettings, msgspec.MsgspecError, UnicodeDecodeError):
        return None


class BrowserLogins:
    """The browsers that are logged in.

    Each cookie stands for the token that the browser logged in with, and ends with it. Each is one small
    file, named by the hash of the cookie, so that a restart of the gateway keeps the logins. The file's
    modification time is the time of the last request.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.folder: Path = data_dir() / "gateway" / "browsers" if folder is None else folder
        self._now = now

    async def log_in(self, token: str, credential: str = "") -> str:
        """Return a new cookie for the token with this id. The credential is not kept. Raises OSError."""
        private_folder(self.folder)
        self._remove_old(token)
        cookie = secrets.token_urlsafe(32)
        create_file(self._path(cookie), _FORMAT.encode(_Login(token)), self._now())
        return cookie

    def token(self, cookie: str) -> str | None:
        """Return the id of the cookie's token; None if the cookie is unknown or too old."""
        path = self._path(cookie)
        try:
            last_seen = path.stat().st_mtime
        except OSError:
            return None
        token = _read_token(path)
        now = self._now()
        if now - last_seen >= LOGIN_LIFETIME:
            self._remove(cookie)
            return None
        if now - last_seen >= USE_INTERVAL:
            with suppress(OSError):
                os.utime(path, (now, now))
        return token

    async def find(self, cookie: str) -> str | None:
        """Like `token`: the files of one machine need no waiting."""
        return self.token(cookie)

    async def log_out(self, cookie: str) -> None:
        """Delete the cookie."""
        self._remove(cookie)

    def _remove(self, cookie: str) -> None:
        with suppress(OSError):
            self._path(cookie).unlink(missing_ok=True)

    def forget(self, token: str) -> None:
        """Delete all cookies of the token with this id."""
        for path, _ in self._files_of(token):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _remove_old(self, token: str) -> None:
        """Delete cookies that are too old, and the oldest of this token if it has too many."""
        for path, last_seen in self._files():
            if self._now() - last_seen >= LOGIN_LIFETIME:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        same_token = sorted(self._files_of(token), key=lambda file: file[1])
        for path, _ in same_token[: max(0, len(same_token) - MAX_LOGINS + 1)]:
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
            if _read_token(path) == token:
                files.append((path, last_seen))
        return files

    def _path(self, cookie: str) -> Path:
        return self.folder / hashlib.sha256(cookie.encode(errors="surrogatepass")).hexdigest()


TICKET_LIFETIME: Final = 30.0
_MAX_TICKETS: Final = 1024


class _Ticket(NamedTuple):
    token: str
    origin: str | None
    expires: float


class MemoryTickets:
    """One-time tickets that open a WebSocket, where a browser cannot send a header.

    A ticket may be in a URL: it is used up by the time the URL is logged. It is bound to a token and to the
    origin of the page that requested it. Only hashes are kept, in memory.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[bytes, _Ticket] = {}

    def __len__(self) -> int:
        return len(self._issued)

    async def issue(self, token: str, origin: str | None = None, credential: str = "") -> str:
        """Return a new ticket for the token with this id. The credential is not kept."""
        now = self._clock.now()
        for key in [key for key, ticket in self._issued.items() if ticket.expires <= now]:
            del self._issued[key]
        while len(self._issued) >= _MAX_TICKETS:
            del self._issued[next(iter(self._issued))]  # the oldest one
        text = secrets.token_urlsafe(32)
        self._issued[_ticket_hash(text)] = _Ticket(token, origin, now + TICKET_LIFETIME)
        return text

    async def redeem(self, text: str, origin: str | None = None) -> RedeemedTicket | None:
        """Return what the ticket stands for.

        None if the ticket is unknown, used, too old or from another origin.
        """
        ticket = self._issued.pop(_ticket_hash(text), None)
        if ticket is None or ticket.expires <= self._clock.now():
            return None
        return RedeemedTicket(ticket.token) if ticket.origin in (None, origin) else None


def _ticket_hash(ticket: str) -> bytes:
    """Return the key of a ticket: its hash, so that the time of a lookup reveals nothing."""
    return hashlib.sha256(ticket.encode(errors="surrogatepass")).digest()
