"""Browsers that are logged in: each has a cookie, which stands for the token it logged in with and goes with it.

Kept as one small file each, named by the hash of the cookie, so that a restart of the gateway logs nobody out. The file's time is
when the browser was heard of last.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from accord.gateway.access.privatefile import make_file
from accord.paths import data_dir, private_folder

COOKIE: Final = "accord"
LIFETIME: Final = 30 * 24 * 3600
"""So many seconds without a visit, and the browser has to log in again."""
_MOST_OF_ONE: Final = 64
_NOTED_EVERY: Final = 3600.0


class Browsers:
    """All of them."""

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.folder = data_dir() / "gateway" / "browsers" if folder is None else folder
        self._now = now

    def log_in(self, token: str) -> str:
        """A new cookie for the holder of the token with this id. Raises OSError."""
        private_folder(self.folder)
        self._tidy(token)
        text = secrets.token_urlsafe(32)
        make_file(self._path(text), token.encode(), self._now())
        return text

    def token(self, text: str) -> str | None:
        """The id of the token that the cookie stands for; None if it is none, or too old."""
        path = self._path(text)
        try:
            heard = path.stat().st_mtime
            token = path.read_bytes()[:64].decode("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        now = self._now()
        if now - heard >= LIFETIME:
            self.log_out(text)
            return None
        if now - heard >= _NOTED_EVERY:
            with suppress(OSError):
                os.utime(path, (now, now))
        return token

    def log_out(self, text: str) -> None:
        """The cookie is worth nothing any more."""
        with suppress(OSError):
            self._path(text).unlink(missing_ok=True)

    def forget(self, token: str) -> None:
        """Log out every browser that came with the token of this id."""
        for path, _ in self._of(token):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _tidy(self, token: str) -> None:
        """Drop those too old, and make room: one token has so many browsers at most."""
        for path, heard in self._files():
            if self._now() - heard >= LIFETIME:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        own = sorted(self._of(token), key=lambda found: found[1])
        for path, _ in own[: max(0, len(own) - _MOST_OF_ONE + 1)]:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[Path, float]]:
        found: list[tuple[Path, float]] = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                with suppress(OSError):
                    found.append((path, path.stat().st_mtime))
        return found

    def _of(self, token: str) -> list[tuple[Path, float]]:
        found: list[tuple[Path, float]] = []
        for path, heard in self._files():
            with suppress(OSError):
                if path.read_bytes() == token.encode():
                    found.append((path, heard))
        return found

    def _path(self, text: str) -> Path:
        return self.folder / hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
