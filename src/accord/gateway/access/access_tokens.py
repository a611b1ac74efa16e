"""Tokens: create, store hashed, find, revoke; the rights they give; pairing link and QR code."""

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from os.path import commonpath, isabs, normpath, realpath
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accord.errors import UsageError
from accord.paths import data_dir, private_folder

# MERGED gateway.access.passes: A pass: what the holder of a token may do. Everybody behind the door asks it, nobody sees the token.

NOT_ALLOWED: Final = -32003
"""The JSON-RPC code for what a pass does not cover."""


class TokenRights(Struct, frozen=True):
    """What a token lets its holder do."""

    token: str
    """The id of the token, not its secret: for the audit log and the limits."""
    name: str = ""
    agents: frozenset[str] | None = None
    """None is every agent."""
    folders: tuple[str, ...] | None = None
    """Real paths; None is every folder."""
    read_only: bool = False
    expires: float | None = None
    """In seconds since 1970."""
    peer: str = ""
    """The address it was shown from, for the audit log."""

    def may_use(self, agent: str) -> bool:
        """Whether the agent is one of them."""
        return self.agents is None or agent in self.agents

    def may_enter(self, folder: str) -> bool:
        """Whether the folder, with its symlinks followed, is one of them or below one."""
        if not isabs(folder) or "\0" in folder:
            return False
        if self.folders is None:
            return True
        # `link/..` is one place for the system and another for a program that tidies the text first: both count.
        return all(
            any(commonpath((real, own)) == own for own in self.folders)
            for real in map(realpath, {folder, normpath(folder)})
        )

    def covers(self, agent: str, folders: Iterable[str]) -> bool:
        """Whether a session of this agent in these folders, all of them, is for its holder to see."""
        return self.may_use(agent) and all(map(self.may_enter, folders))

    def within(self, folders: tuple[str, ...] | None) -> "TokenRights":
        """The same, bound to these folders, too: of each two, the one that lies in the other is left."""
        if folders is None:
            return self
        if self.folders is None:
            return replace(self, folders=folders)
        bounds = TokenRights("", folders=folders)
        shared = [own for own in self.folders if bounds.may_enter(own)]
        shared += [bound for bound in folders if self.may_enter(bound)]
        return replace(self, folders=tuple(dict.fromkeys(shared)))


# MERGED gateway.access.privatefile: A small file with something secret about it: made whole and for the owner alone, or not at all.


def create_private_file(path: Path, data: bytes, time: float) -> None:
    """Make a file that is not there yet, closed to everybody but its owner (0600), with this time. Raises OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.utime(path, (time, time))
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


# MERGED gateway.access.tokens: The tokens: made, kept as hashes, found again, revoked. One small file each, in user data, for the owner alone (0600).
#
# A file never changes once it is there, so processes need no lock: making a token makes one, revoking it removes it, and a
# running gateway sees both. When a token was last used is the file's time, which can be set without writing it again: a token
# that is being used while it is revoked stays revoked.

_PREFIX: Final = "acc_"
TOKEN_PATTERN: Final = re.compile(r"acc_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")
"""A whole token: its id, which is no secret, and the secret."""
_ID_PATTERN: Final = re.compile("[a-z0-9]{8}")
_ID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_USE_INTERVAL: Final = 60.0
NEVER_USED: Final = 0.0
"""The time of a file that was never used."""
_NO_HASH: Final = "0" * 64


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token. It cannot be made into the token again."""

    id: str
    sha256: str
    created: float
    """Seconds since 1970, as all times here."""
    name: str = ""
    expires: float | None = None
    agents: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None
    read_only: bool = False

    def is_expired(self, now: float) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires

    def rights(self, peer: str = "") -> TokenRights:
        """What it lets its holder do."""
        return TokenRights(
            token=self.id,
            name=self.name,
            agents=None if self.agents is None else frozenset(self.agents),
            folders=self.folders,
            read_only=self.read_only,
            expires=self.expires,
            peer=peer,
        )


class TokenStore:
    """All tokens of this user."""

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.folder = data_dir() / "gateway" / "tokens" if folder is None else folder
        self._folder_text = str(self.folder)
        self._now = now
        self._cache: dict[str, tuple[tuple[int, int, int], Token]] = {}
        self._use_recorded: dict[str, float] = {}

    def new(
        self,
        name: str = "",
        *,
        agents: Iterable[str] | None = None,
        folders: Iterable[str] | None = None,
        read_only: bool = False,
        expires: float | None = None,
    ) -> tuple[Token, str]:
        """Make one. The text beside it is the token itself, which nobody can read again. Raises UsageError."""
        secret = secrets.token_urlsafe(32)
        token = Token(
            id="".join(secrets.choice(_ID_LETTERS) for _ in range(8)),
            sha256=_hash(secret),
            created=self._now(),
            name=name,
            expires=expires,
            agents=None if agents is None else tuple(dict.fromkeys(agents)),
            folders=None if folders is None else tuple(dict.fromkeys(map(os.path.realpath, folders))),
            read_only=read_only,
        )
        try:
            private_folder(self.folder)
            create_private_file(Path(self._path(token.id)), msgspec.json.encode(token), NEVER_USED)
        except OSError as error:
            raise UsageError(f"{self.folder}: a token cannot be kept there ({error.strerror})") from None
        return token, f"{_PREFIX}{token.id}_{secret}"

    def all(self) -> list[Token]:
        """Every token, the oldest first, expired ones too."""
        try:
            ids = [path.stem for path in self.folder.glob("????????.json")]
        except OSError:
            return []
        found = [token for token in map(self.get, ids) if token is not None]
        return sorted(found, key=lambda token: (token.created, token.id))

    def get(self, id: str) -> Token | None:
        """The token of this id, expired or not; None if there is none, or no more."""
        path = self._path(id)
        try:
            status = os.stat(path)
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            cached = self._cache.get(id)
            if cached is not None and cached[0] == version:
                return cached[1]
            token = msgspec.json.decode(Path(path).read_bytes(), type=Token)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self._cache.pop(id, None)
            return None
        if token.id != id:
            return None
        self._cache[id] = (version, token)
        return token

    def find(self, text: str) -> Token | None:
        """The token that this is, if it is one and its time is not over. How long that takes tells nothing of the secret."""
        match = TOKEN_PATTERN.fullmatch(text)
        token = self.get(match[1]) if match is not None else None
        expected = _NO_HASH if token is None else token.sha256
        matches = hmac.compare_digest(expected, _hash(match[2] if match is not None else text))
        if token is None or not matches or token.is_expired(self._now()):
            return None
        return token

    def is_valid(self, id: str) -> bool:
        """Whether there still is such a token, and its time is not over."""
        token = self.get(id)
        return token is not None and not token.is_expired(self._now())

    def mark_used(self, token: Token) -> None:
        """Note that it was used now; about once a minute is enough."""
        now = self._now()
        if now - self._use_recorded.get(token.id, -_USE_INTERVAL) < _USE_INTERVAL:
            return
        self._use_recorded[token.id] = now
        with suppress(OSError):
            os.utime(self._path(token.id), (now, now))

    def last_used(self, token: Token) -> float | None:
        """When it was used last; None if never."""
        try:
            used = os.stat(self._path(token.id)).st_mtime
        except OSError:
            return None
        return None if used == NEVER_USED else used

    def revoke(self, id: str) -> Token:
        """Let nobody in with it any more, at once and in every running gateway. Raises UsageError."""
        token = self.get(id)
        if token is None:
            raise UsageError(f"no token has the id {id!r}: `accord serve token list` shows all")
        Path(self._path(id)).unlink(missing_ok=True)
        self._cache.pop(id, None)
        return token

    def _path(self, id: str) -> str:
        """As text: it is needed for every request."""
        return os.path.join(self._folder_text, f"{id if _ID_PATTERN.fullmatch(id) else '-'}.json")


def _hash(secret: str) -> str:
    # A secret of 256 random bits needs no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def without_token(text: str) -> str:
    """The text with the secrets of tokens taken out. The id stays: it says whose it was."""
    return TOKEN_PATTERN.sub(r"acc_\1_...", text)


# MERGED gateway.access.pairing: How a token gets to another device: a link that holds it behind `#`, which browsers never send, and its QR code.

_QR_BORDER: Final = 2
_RESET: Final = "\x1b[0m"
_BLACK_ON_WHITE: Final = "\x1b[38;5;16;48;5;231m"
_QR_CHARACTERS: Final = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def pairing_link(url: str, token: str) -> str:
    """The link that logs a browser in; `url` is the address of the gateway, with or without a slash at its end."""
    return f"{url.rstrip('/')}/#token={token}"


def qr_code(text: str, width: int) -> list[str] | None:
    """The code as lines for a terminal of this width, two rows of it in one of text; None where it does not fit or cannot be made.

    Both colours are given, black on white: a camera reads it on a dark terminal and on a light one.
    """
    if find_spec("segno") is None:
        return None
    import segno

    code = segno.make(text, error="l", micro=False)
    rows = [[bool(module) for module in row] for row in code.matrix_iter(scale=1, border=_QR_BORDER)]
    if len(rows[0]) > width:
        return None
    if len(rows) % 2:
        rows.append([False] * len(rows[0]))
    return [
        _BLACK_ON_WHITE + "".join(_QR_CHARACTERS[pair] for pair in zip(upper, lower, strict=True)) + _RESET
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]
