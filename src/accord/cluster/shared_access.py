"""Tokens, browser logins and tickets of all nodes, in buckets: the contracts of
`accord.gateway.access.access_contracts`.

Tokens and logins are followed into memory, so that a request is authenticated without asking a server. Only
hashes of secrets are stored. Fronts may write logins and tickets, but not tokens: so each of them also holds
what its user has shown, sealed with its own secret, and is worth no more than that.
"""

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from logging import getLogger
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, structs

from accord.clock import OwnedTasks
from accord.cluster.bucket_copy import BucketCopy
from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import WRONG_SEQUENCE, with_retries
from accord.cluster.shared_devices import ClusterPushDevices
from accord.cluster.streams import ClusterStreams
from accord.errors import BadSettings, StoreError, UsageError
from accord.gateway.access.access_contracts import RedeemedTicket
from accord.gateway.access.access_tokens import (
    TOKEN_FORMAT,
    TOKEN_PREFIX,
    USE_RECORD_SECONDS,
    Token,
    TokenLookup,
    TokenRights,
    encode_token,
    unknown_token,
)
from accord.gateway.access.browser_logins import LOGIN_LIFETIME, MAX_LOGINS, USE_INTERVAL
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import TokenBucket
from accord.schema.codec import encode

LOG = getLogger("accord.cluster")

_USED: Final = "used."
"""Begins the keys with the time of a token's last use. The token itself never changes, so that a use cannot
revive a token that is revoked meanwhile."""
_LOOKUPS_PER_SECOND: Final = 50.0
"""How often unknown cookies and tickets are looked up at the NATS servers: anyone can send such."""
_SPENT_SECONDS: Final = 60
_UNREACHABLE: Final = RequestRefused(
    503,
    "This node has no connection to its NATS servers, so it does not know which tokens are valid; try again.",
    {"Retry-After": "5"},
)


class ClusterTokens(TokenLookup):
    """The tokens of all nodes."""

    def __init__(
        self,
        streams: ClusterStreams,
        tasks: OwnedTasks,
        *,
        now: Callable[[], float] = time.time,
        patience: float = 15.0,
    ) -> None:
        """`patience`: after so many seconds without any NATS server, no request is authenticated."""
        super().__init__(now)
        self._connection = streams.jetstream.connection
        self._tasks = tasks
        self._patience = patience
        self.on_change: list[Callable[[], None]] = []
        """Called after each change of a token."""
        self._copy: BucketCopy[Token | float] = BucketCopy(
            streams, "tokens", tasks, _token_value, self._changed
        )
        self._use_recorded: dict[str, float] = {}

    async def start(self) -> None:
        await self._copy.start()

    async def stop(self) -> None:
        await self._copy.stop()

    async def refresh(self) -> None:
        """Read what other nodes have written until now. Raises StoreError."""
        await self._copy.refresh()

    def _changed(self, key: str, value: Token | float | None) -> None:
        if not key.startswith(_USED):
            for callback in tuple(self.on_change):
                callback()

    @property
    def is_current(self) -> bool:
        """Whether it is known which tokens are valid."""
        # A leaf node is connected to its own server also while that one has lost its hub.
        return max(self._connection.silent_seconds, self._copy.silent_seconds) <= self._patience

    def require_current(self) -> None:
        if not self.is_current:
            raise _UNREACHABLE

    def get(self, id: str) -> Token | None:
        token = self._copy.values.get(id)
        return token if isinstance(token, Token) else None

    def all(self) -> list[Token]:
        tokens = [value for value in self._copy.values.values() if isinstance(value, Token)]
        return sorted(tokens, key=lambda token: (token.created, token.id))

    async def add(self, token: Token) -> None:
        try:
            if await self._copy.create(token.id, encode_token(token)):
                return
        except StoreError as error:
            raise UsageError(f"cannot store a token in the cluster: {error}") from None
        raise UsageError(f"a token with the id {token.id} exists already; try again")

    async def remove(self, id: str) -> Token:
        token = self.get(id)
        if token is None:
            raise unknown_token(id)
        try:
            await self._copy.delete(id)
            await self._copy.delete(_USED + id)
        except StoreError as error:
            raise UsageError(f"cannot revoke token {id}: {error}") from None
        return token

    def mark_used(self, token: Token) -> None:
        now = self._now()
        if now - self._use_recorded.get(token.id, -USE_RECORD_SECONDS) >= USE_RECORD_SECONDS:
            self._use_recorded[token.id] = now
            self._tasks.start(self._record_use(token.id, now))

    async def _record_use(self, id: str, now: float) -> None:
        if self.get(id) is None:
            return  # revoked meanwhile
        used = self.last_used_time(id)
        if used is not None and now - used < USE_RECORD_SECONDS:
            return  # another node has recorded it
        try:
            await self._copy.replace(_USED + id, encode(now))
        except StoreError as error:
            LOG.debug("the use of token %s is not recorded: %s", id, error)

    def last_used(self, token: Token) -> float | None:
        return self.last_used_time(token.id)

    def last_used_time(self, id: str) -> float | None:
        used = self._copy.values.get(_USED + id)
        return used if isinstance(used, float) else None


def _token_value(key: str, data: bytes) -> Token | float:
    try:
        if key.startswith(_USED):
            return msgspec.json.decode(data, type=float)
        token = TOKEN_FORMAT.decode(data, Token, f"token {key}")
    except BadSettings as error:
        raise ValueError(str(error)) from None
    if token.id != key:
        raise ValueError("it is the entry of another token")
    return token


class _Login(Struct, frozen=True):
    """A logged-in browser."""

    token: str
    seen: float
    """The time of its last request, to the hour."""
    credential: bytes
    """The text of the token, sealed with the cookie."""


class ClusterBrowsers:
    """The logged-in browsers of all nodes."""

    def __init__(
        self,
        streams: ClusterStreams,
        tasks: OwnedTasks,
        tokens: TokenLookup,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._tokens = tokens
        self._tasks = tasks
        self._jetstream = streams.jetstream
        self._copy: BucketCopy[_Login] = BucketCopy(streams, "browsers", tasks, _login)
        self._lookups = TokenBucket(
            streams.jetstream.connection.clock, _LOOKUPS_PER_SECOND, _LOOKUPS_PER_SECOND
        )

    async def start(self) -> None:
        await self._copy.start()

    async def stop(self) -> None:
        await self._copy.stop()

    async def refresh(self) -> None:
        """Read what other nodes have written until now. Raises StoreError."""
        await self._copy.refresh()

    async def log_in(self, token: str, credential: str = "") -> str:
        cookie = secrets.token_urlsafe(32)
        same = sorted((login.seen, key) for key, login in self._copy.values.items() if login.token == token)
        for _, key in same[: max(0, len(same) - MAX_LOGINS + 1)]:
            await self._copy.delete(key)
        sealed = _sealed(credential.encode(), cookie)
        await self._copy.create(_hash(cookie), encode(_Login(token, self._now(), sealed)))
        return cookie

    def token(self, cookie: str) -> str | None:
        return self._token_of(_hash(cookie), cookie)

    async def find(self, cookie: str) -> str | None:
        key = _hash(cookie)
        if key not in self._copy.values and not self._lookups.take(1):
            # It may have been created at another node a moment ago.
            entry = await with_retries(lambda: self._copy.bucket.get(key), self._jetstream)
            if entry is None or entry.value is None:
                return None
            await self._copy.refresh()
        return self._token_of(key, cookie)

    def _token_of(self, key: str, cookie: str) -> str | None:
        login = self._copy.values.get(key)
        if login is None:
            return None
        token = self._tokens.find(_sealed(login.credential, cookie).decode(errors="replace"))
        now = self._now()
        if token is None or token.id != login.token or now - login.seen >= LOGIN_LIFETIME:
            return None
        if now - login.seen >= USE_INTERVAL:
            self._copy.values[key] = seen = structs.replace(login, seen=now)  # once an hour
            self._tasks.start(self._refresh_login(key, seen))
        return login.token

    async def _refresh_login(self, key: str, login: _Login) -> None:
        try:
            await self._copy.replace(key, encode(login))
        except StoreError as error:
            LOG.debug("the use of a login is not recorded: %s", error)

    async def log_out(self, cookie: str) -> None:
        await self._copy.delete(_hash(cookie))

    def forget(self, token: str) -> None:
        keys = [key for key, login in self._copy.values.items() if login.token == token]
        if keys:
            self._tasks.start(self._delete(keys))

    async def _delete(self, keys: list[str]) -> None:
        try:
            for key in keys:
                await self._copy.delete(key)
        except StoreError as error:
            LOG.warning("a login of a revoked token stays until it ends by itself: %s", error)


def _login(key: str, data: bytes) -> _Login:
    return msgspec.json.decode(data, type=_Login)


class _Ticket(Struct, frozen=True, omit_defaults=True):
    credential: bytes
    """Sealed with the ticket, whose text is stored nowhere."""
    origin: str | None = None


FindToken: TypeAlias = Callable[[str], Awaitable[Token | None]]
"""Returns the valid token that a credential stands for. Raises StoreError."""


class ClusterTickets:
    """The tickets of all nodes. The servers delete them after 30 seconds."""

    def __init__(self, streams: ClusterStreams, find_token: FindToken) -> None:
        self._find_token = find_token
        self._bucket = streams.bucket("tickets")
        self._jetstream = streams.jetstream
        self._lookups = TokenBucket(
            streams.jetstream.connection.clock, _LOOKUPS_PER_SECOND, _LOOKUPS_PER_SECOND
        )

    async def issue(self, token: str, origin: str | None = None, credential: str = "") -> str:
        text = secrets.token_urlsafe(32)
        value = encode(_Ticket(_sealed(credential.encode(), text), origin))
        key = _hash(text)
        try:
            await with_retries(lambda: self._bucket.put(key, value, 0), self._jetstream)
        except NatsRefused as error:
            if error.code != WRONG_SEQUENCE:  # else only the first answer was lost
                raise
        return text

    async def redeem(self, text: str, origin: str | None = None) -> RedeemedTicket | None:
        if self._lookups.take(1):
            return None
        key = _hash(text)
        try:
            entry = await with_retries(lambda: self._bucket.get(key), self._jetstream)
            if entry is None or entry.value is None:
                return None
            # Without a clear answer the ticket may be spent: never delete it twice.
            await self._bucket.delete(key, entry.revision, marker_seconds=_SPENT_SECONDS)
            ticket = msgspec.json.decode(entry.value, type=_Ticket)
            credential = _sealed(ticket.credential, text).decode(errors="replace")
            token = await self._find_token(credential) if ticket.origin in (None, origin) else None
        except (StoreError, msgspec.MsgspecError) as error:
            LOG.debug("a ticket is not accepted: %s", error)
            return None
        return None if token is None else RedeemedTicket(token.id, credential)


def _sealed(data: bytes, secret: str) -> bytes:
    """Seal a credential with a cookie or a ticket, or open it again. Each is random and seals one."""
    key = secret.encode(errors="surrogatepass")[:64]
    stream = b"".join(
        hashlib.blake2b(number.to_bytes(4, "big"), key=key, person=b"accord-ticket").digest()
        for number in range(len(data) // 64 + 1)
    )
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class SharedAccess:
    """Everything that all nodes know about their users."""

    def __init__(
        self,
        streams: ClusterStreams,
        tasks: OwnedTasks,
        patience: float = 15.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = tasks
        self.tokens: ClusterTokens = ClusterTokens(streams, tasks, now=now, patience=patience)
        self.browsers: ClusterBrowsers = ClusterBrowsers(streams, tasks, self.tokens, now=now)
        self.tickets: ClusterTickets = ClusterTickets(streams, self.find_token)
        self.devices: ClusterPushDevices = ClusterPushDevices(streams, tasks)

    async def rights_of(self, credential: str, peer: str) -> TokenRights:
        """The rights of a client of another node, by what it has shown there. Raises RequestRefused."""
        self.tokens.require_current()
        try:
            token = await self.find_token(credential)
        except StoreError as error:
            raise RequestRefused(503, f"The credential cannot be checked now: {error}.") from None
        if token is None:
            raise RequestRefused(401, "The credential of the client is not valid at this node.")
        return token.rights(peer)

    async def find_token(self, credential: str) -> Token | None:
        """The valid token that a token's text or a cookie stands for. Raises StoreError."""
        token = self.tokens.find(credential)
        if token is None and credential.startswith(TOKEN_PREFIX):
            await self.tokens.refresh()  # it may have been created a moment ago
            return self.tokens.find(credential)
        if token is None and (id := await self.browsers.find(credential)) is not None:
            return self.tokens.get(id)
        return token

    async def settle(self) -> None:
        """Wait, in bounded time, for the changes that were begun."""
        await self._tasks.wait()

    def on_token_change(self, callback: Callable[[], None]) -> None:
        self.tokens.on_change.append(callback)


@asynccontextmanager
async def shared_access(streams: ClusterStreams, patience: float = 15.0) -> AsyncGenerator[SharedAccess]:
    """Follow the shared state for the block. Raises StoreError."""
    async with AsyncExitStack() as stack:
        tasks = OwnedTasks(streams.jetstream.connection.clock, grace=2.0)
        stack.push_async_callback(tasks.end)
        access = SharedAccess(streams, tasks, patience)
        for part in (access.tokens, access.browsers, access.devices):
            await part.start()
            stack.push_async_callback(part.stop)
        yield access
