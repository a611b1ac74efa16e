"""Access tokens: create, store hashed, find, revoke; the rights they give; pairing link and QR code.

Each token is one small file in the user data (0600). A file never changes once it exists, so processes need
no lock: creating a token creates the file, revoking removes it, and a running gateway sees both. The time
of the last use is the file's modification time, which can be set without writing the file: a token that is
used while it is revoked stays revoked.
"""

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
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accord.errors import BadSettings, UsageError
from accord.file_format import FileFormat, NewerFormat
from accord.paths import data_dir
from accord.private_files import create_file, private_folder
from accord.safe_text import visible

NOT_ALLOWED: Final = -32003
"""The JSON-RPC error code for something that the token does not cover."""


class Credential:
    """The secret that a client has shown: a token or a cookie. It is never printed."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text

    def __repr__(self) -> str:
        return "Credential(...)"


class TokenRights(Struct, frozen=True):
    """What the holder of a token may do. In a cluster, other nodes check the credential again."""

    token: str
    """The id of the token, not its secret: for the audit log and the limits."""
    name: str = ""
    agents: frozenset[str] | None = None
    """None for every agent."""
    folders: tuple[str, ...] | None = None
    """Real paths; None for every folder."""
    read_only: bool = False
    allow_mcp: bool | None = None
    """Whether its sessions may have MCP servers of the client; None to decide by the other rights."""
    expires: float | None = None
    """In seconds since 1970."""
    peer: str = ""
    """The client's address, for the audit log."""
    session: str = ""
    """The id of the only session that a share link shows; empty for every session."""
    credential: Credential | None = None
    """What the client has shown, for other nodes of a cluster."""

    @property
    def may_add_mcp_servers(self) -> bool:
        """Whether a client may name MCP servers, which the agent starts or connects to as the user."""
        if self.allow_mcp is not None:
            return self.allow_mcp
        return self.agents is None and self.folders is None and not self.read_only

    def may_use(self, agent: str) -> bool:
        """Whether the token covers this agent."""
        return self.agents is None or agent in self.agents

    def may_enter(self, folder: str) -> bool:
        """Whether the token covers this folder, with symlinks resolved."""
        if not isabs(folder) or "\0" in folder:
            return False
        if self.folders is None:
            return True
        # `link/..` can resolve differently before and after normalization: check both.
        return all(
            any(commonpath((real, allowed)) == allowed for allowed in self.folders)
            for real in map(realpath, {folder, normpath(folder)})
        )

    def may_see(self, agent: str, session_id: str, folders: Iterable[str]) -> bool:
        """Whether the token covers a session of this agent in these folders."""
        return self.session in ("", session_id) and self.covers(agent, folders)

    def covers(self, agent: str, folders: Iterable[str]) -> bool:
        """Whether the token covers this agent and all of these folders."""
        return self.may_use(agent) and all(map(self.may_enter, folders))

    def restricted_to(self, folders: tuple[str, ...] | None) -> "TokenRights":
        """Return the rights restricted to these folders.

        If one folder contains another, the inner one remains.
        """
        if folders is None:
            return self
        if self.folders is None:
            return replace(self, folders=folders)
        bounds = TokenRights("", folders=folders)
        common = [folder for folder in self.folders if bounds.may_enter(folder)]
        common += [folder for folder in folders if self.may_enter(folder)]
        return replace(self, folders=tuple(dict.fromkeys(common)))


TOKEN_PREFIX: Final = "acc_"
TOKEN_PATTERN: Final = re.compile(r"acc_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")
"""A whole token: the id, which is not secret, and the secret."""
_ID_PATTERN: Final = re.compile("[a-z0-9]{8}")
_ID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"
USE_RECORD_SECONDS: Final = 60.0
NEVER_USED: Final = 0.0
"""The modification time of a token file that was never used."""
_NO_HASH: Final = "0" * 64
TOKEN_FORMAT: Final = FileFormat(2)
"""Only share links are written in version 2, so that an older Accord accepts none: it does not know their
limit.
"""
_VERSION_1: Final = FileFormat(1)


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """The stored part of a token: a hash instead of the secret."""

    id: str
    sha256: str
    created: float
    """Seconds since 1970, as all times here."""
    name: str = ""
    expires: float | None = None
    agents: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None
    read_only: bool = False
    allow_mcp: bool | None = None
    """None in tokens that were created without the option: their other rights decide."""
    session: str = ""
    """The only session that a share link shows."""
    parent: str = ""
    """The id of the token that created the share link, which ends with it."""

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires

    def rights(self, peer: str = "") -> TokenRights:
        """Return the rights of its holder."""
        return TokenRights(
            token=self.id,
            name=self.name,
            agents=None if self.agents is None else frozenset(self.agents),
            folders=self.folders,
            read_only=self.read_only,
            allow_mcp=self.allow_mcp,
            expires=self.expires,
            peer=peer,
            session=self.session,
        )


def new_token(
    name: str = "",
    *,
    now: float,
    agents: Iterable[str] | None = None,
    folders: Iterable[str] | None = None,
    read_only: bool = False,
    allow_mcp: bool | None = None,
    expires: float | None = None,
    session: str = "",
    parent: str = "",
) -> tuple[Token, str]:
    """Create a token, which is not stored yet. Return it with its full text, which never is."""
    secret = secrets.token_urlsafe(32)
    token = Token(
        id="".join(secrets.choice(_ID_LETTERS) for _ in range(8)),
        sha256=_hash(secret),
        created=now,
        name=name,
        expires=expires,
        agents=None if agents is None else tuple(dict.fromkeys(agents)),
        folders=None if folders is None else tuple(dict.fromkeys(map(os.path.realpath, folders))),
        read_only=read_only,
        allow_mcp=allow_mcp,
        session=session,
        parent=parent,
    )
    return token, f"{TOKEN_PREFIX}{token.id}_{secret}"


def encode_token(token: Token) -> bytes:
    """Encode a token for the file or the bucket that keeps it."""
    if token.session:
        return TOKEN_FORMAT.encode(token)
    members = msgspec.to_builtins(token)
    return _VERSION_1.encode({name: members[name] for name in members if name not in ("session", "parent")})


def describe_rights(token: Token) -> str:
    """Say in one line what the holder of a token may do."""
    if token.session:
        return f"may watch session {visible(token.session)} of {', '.join(map(visible, token.agents or ()))}"
    agents = "all agents" if token.agents is None else "agents " + ", ".join(map(visible, token.agents))
    folders = "all folders" if token.folders is None else ", ".join(map(visible, token.folders))
    mcp = ", with MCP servers of the client" if token.allow_mcp else ""
    return f"{'may watch' if token.read_only else 'may use'} {agents} in {folders}{mcp}"


def unknown_token(id: str) -> UsageError:
    """The error for an id that no token has."""
    return UsageError(f"unknown token id {id!r}; `accord serve token list` shows all tokens")


class TokenLookup:
    """Finds the valid token of a text, wherever tokens are kept."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def get(self, id: str) -> Token | None:
        """Return the token with this id, expired or not; None if it does not exist."""
        raise NotImplementedError

    def find(self, text: str) -> Token | None:
        """Return the valid token with this text; None otherwise. Takes constant time."""
        match = TOKEN_PATTERN.fullmatch(text)
        token = self.get(match[1]) if match is not None else None
        expected = _NO_HASH if token is None else token.sha256
        matches = hmac.compare_digest(expected, _hash(match[2] if match is not None else text))
        if token is None or not matches or not self._is_current(token):
            return None
        return token

    def is_valid(self, id: str) -> bool:
        """Whether the token exists and has not expired."""
        token = self.get(id)
        return token is not None and self._is_current(token)

    def _is_current(self, token: Token) -> bool:
        """Whether neither it nor the token that created it has ended."""
        return not token.is_expired(self._now()) and (not token.parent or self.is_valid(token.parent))

    def require_current(self) -> None:
        """Raise RequestRefused if it is not known here which tokens are valid."""


class TokenStore(TokenLookup):
    """All tokens of this user."""

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self.folder: Path = data_dir() / "gateway" / "tokens" if folder is None else folder
        self._folder_text = str(self.folder)
        self._cache: dict[str, tuple[tuple[int, int, int], Token]] = {}
        self._use_recorded: dict[str, float] = {}

    def new(self, name: str = "", **rights: Any) -> tuple[Token, str]:
        """Create and store a token with the rights of `new_token`. Return it with its full text.

        Raises UsageError.
        """
        token, text = new_token(name, now=self._now(), **rights)
        self._write(token)
        return token, text

    async def add(self, token: Token) -> None:
        """Store a new token. Raises UsageError."""
        self._write(token)

    def _write(self, token: Token) -> None:
        try:
            private_folder(self.folder)
            create_file(Path(self._path(token.id)), encode_token(token), NEVER_USED)
        except OSError as error:
            raise UsageError(f"cannot store a token in {self.folder}: {error.strerror}") from None

    def all(self) -> list[Token]:
        """List all tokens, oldest first, including expired ones."""
        try:
            ids = [path.stem for path in self.folder.glob("????????.json")]
        except OSError:
            return []
        found = [token for token in map(self.get, ids) if token is not None]
        return sorted(found, key=lambda token: (token.created, token.id))

    def newer(self) -> dict[str, str]:
        """Return the tokens that a newer Accord created, by id, with the reason why they are not valid."""
        found: dict[str, str] = {}
        for path in sorted(self.folder.glob("????????.json")):
            try:
                TOKEN_FORMAT.decode(path.read_bytes(), Token, path)
            except NewerFormat as error:
                found[path.stem] = str(error)
            except (OSError, BadSettings, msgspec.MsgspecError, UnicodeDecodeError):
                continue
        return found

    def get(self, id: str) -> Token | None:
        """Return the token with this id, expired or not; None if it does not exist."""
        path = self._path(id)
        try:
            status = os.stat(path)
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            cached = self._cache.get(id)
            if cached is not None and cached[0] == version:
                return cached[1]
            token = TOKEN_FORMAT.decode(Path(path).read_bytes(), Token, path)
        except (OSError, BadSettings, msgspec.MsgspecError, UnicodeDecodeError):
            self._cache.pop(id, None)
            return None
        if token.id != id:
            return None
        self._cache[id] = (version, token)
        return token

    def mark_used(self, token: Token) -> None:
        """Record the use, at most about once a minute."""
        now = self._now()
        if now - self._use_recorded.get(token.id, -USE_RECORD_SECONDS) < USE_RECORD_SECONDS:
            return
        self._use_recorded[token.id] = now
        with suppress(OSError):
            os.utime(self._path(token.id), (now, now))

    def last_used(self, token: Token) -> float | None:
        """Return when it was last used; None if never."""
        try:
            used = os.stat(self._path(token.id)).st_mtime
        except OSError:
            return None
        return None if used == NEVER_USED else used

    def revoke(self, id: str) -> Token:
        """Delete the token. Running gateways disconnect its clients. Raises UsageError."""
        token = self.get(id)
        if token is None:
            newer = self.newer().get(id)
            raise unknown_token(id) if newer is None else UsageError(newer)
        Path(self._path(id)).unlink(missing_ok=True)
        self._cache.pop(id, None)
        return token

    async def remove(self, id: str) -> Token:
        """Like `revoke`: the files of one machine need no waiting."""
        return self.revoke(id)

    def _path(self, id: str) -> str:
        """As text, because it is needed for every request."""
        return os.path.join(self._folder_text, f"{id if _ID_PATTERN.fullmatch(id) else '-'}.json")


def _hash(secret: str) -> str:
    # A secret of 256 random bits needs no slow hash: it cannot be guessed.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def without_token(text: str) -> str:
    """Remove the secrets of tokens from a text. The ids stay."""
    return TOKEN_PATTERN.sub(r"acc_\1_...", text)


_QR_BORDER: Final = 2
_RESET: Final = "\x1b[0m"
_BLACK_ON_WHITE: Final = "\x1b[38;5;16;48;5;231m"
_QR_BLOCKS: Final = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def pairing_link(url: str, token: str) -> str:
    """Return the link that logs a browser in.

    The token is in the fragment, which browsers do not send. `url` is the gateway's address, with or
    without a final slash.
    """
    return f"{url.rstrip('/')}/#token={token}"


def qr_rows(text: str) -> list[str] | None:
    """Return the QR code as rows of 0 and 1, without a border; None if segno is not installed."""
    if find_spec("segno") is None:
        return None
    import segno

    code = segno.make(text, error="l", micro=False)
    return ["".join("1" if module else "0" for module in row) for row in code.matrix_iter(scale=1, border=0)]


def qr_code(text: str, width: int) -> list[str] | None:
    """Return the QR code as terminal lines; None if it does not fit or segno is not installed.

    One line shows two rows of the code. Both colors are set, black on white, so that a camera can read it
    on any terminal.
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
        _BLACK_ON_WHITE + "".join(_QR_BLOCKS[pair] for pair in zip(upper, lower, strict=True)) + _RESET
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]
