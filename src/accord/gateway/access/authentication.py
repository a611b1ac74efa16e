"""Authenticates every request, throttles failures, and ends connections whose token was revoked or has
expired.

The checks have a fixed order: the Host header, the Origin header, no token in the URL, then the
credentials. A refusal says what to do and never repeats what was sent.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final, Literal
from urllib.parse import parse_qsl

from msgspec import Struct, structs

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.errors import StoreError
from accord.gateway.access.access_contracts import AuditSink, Browsers, Tickets, Tokens
from accord.gateway.access.access_tokens import (
    TOKEN_PATTERN,
    Credential,
    Token,
    TokenRights,
    TokenStore,
    without_token,
)
from accord.gateway.access.browser_logins import COOKIE, LOGIN_LIFETIME, BrowserLogins, MemoryTickets
from accord.gateway.access.request_origin import Origins, Proxies, RequestRefused
from accord.gateway.access.resource_limits import LimitLease, TokenBucket

FREE_FAILURES: Final = 20
"""Failures of one address that are answered with the reason. Later ones get status 429."""
FAILURES_PER_SECOND: Final = 0.2
CHECK_SECONDS: Final = 0.5
_MAX_ADDRESSES: Final = 4096

_TOKEN_PARAMETERS: Final = frozenset(
    {"token", "access_token", "accesstoken", "auth", "authorization", "bearer", "api_key", "apikey", "key"}
)
_CHALLENGE: Final = 'Bearer realm="accord"'
_INVALID_TOKEN: Final = _CHALLENGE + ', error="invalid_token"'
_OnEnd = Callable[[str], None]


class Throttle:
    """Counts failed attempts per address. A valid token is never throttled.

    Remembers a bounded number of addresses and forgets the least recently seen first.
    """

    def __init__(
        self, clock: Clock, *, free_failures: int = FREE_FAILURES, per_second: float = FAILURES_PER_SECOND
    ) -> None:
        self._clock = clock
        self._free_failures = free_failures
        self._per_second = per_second
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def count_failure(self, peer: str) -> int:
        """Count a failure. Return the seconds to wait before the next attempt; 0 for the first ones."""
        key = _address_key(peer)
        bucket = self._buckets.pop(key, None) or TokenBucket(
            self._clock, self._per_second, self._free_failures
        )
        self._buckets[key] = bucket
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return ceil(bucket.take(1))


def _address_key(peer: str) -> str:
    """Count all addresses of one IPv6 network as one."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))


class TokenWatcher:
    """Checks twice a second whether the tokens of open connections are still valid.

    Notices a revocation by any process, and expiry. Costs one system call for each token in use.
    """

    def __init__(self, tokens: Tokens, clock: Clock, on_removed: Callable[[str], None] | None = None) -> None:
        self._tokens = tokens
        self._clock = clock
        self._on_removed = on_removed
        self._watched: dict[str, dict[object, _OnEnd]] = {}
        self._timer: Timer | None = None

    def watch_token(self, rights: TokenRights, on_end: _OnEnd) -> LimitLease:
        """Call `on_end` once with the reason when the token ends, until the lease is released."""
        key = object()
        self._watched.setdefault(rights.token, {})[key] = on_end
        self._start_timer()
        return LimitLease(lambda: self._unwatch(rights.token, key))

    def check_now(self) -> None:
        """Check all watched tokens."""
        for id in [id for id in self._watched if not self._tokens.is_valid(id)]:
            reason = "the token was revoked" if self._tokens.get(id) is None else "the token has expired"
            for on_end in list(self._watched.pop(id, {}).values()):
                on_end(reason)
            if self._on_removed is not None:
                self._on_removed(id)

    def close(self) -> None:
        self._watched.clear()
        self._stop_timer()

    def _start_timer(self) -> None:
        if self._timer is None and self._watched:
            self._timer = self._clock.call_later(CHECK_SECONDS, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self.check_now()
        self._start_timer()

    def _unwatch(self, id: str, key: object) -> None:
        watched = self._watched.get(id)
        if watched is not None:
            watched.pop(key, None)
            if not watched:
                del self._watched[id]
        if not self._watched:
            self._stop_timer()


class AuthRequest(Struct, frozen=True, kw_only=True):
    """The parts of a request that authentication needs."""

    method: str
    path: str
    query: str = ""
    """Without the question mark."""
    headers: Mapping[str, Sequence[str]]
    """Names in lower case. For HTTP/2, `host` is the value of `:authority`."""
    peer: str = ""
    """The address of the socket's other end."""
    tls: bool = False
    kind: Literal["http", "websocket"] = "http"

    def header(self, name: str) -> str | None:
        """Return the value of a header that may occur once. Raises RequestRefused if it occurs twice."""
        values = self.headers.get(name, ())
        if len(values) > 1:
            raise RequestRefused(400, f"Duplicate header {name}.")
        return values[0].strip() if values else None


class Authenticator:
    """Authenticates requests, or raises RequestRefused."""

    def __init__(
        self,
        origins: Origins,
        *,
        tokens: Tokens | None = None,
        browsers: Browsers | None = None,
        tickets: Tickets | None = None,
        audit: AuditSink | None = None,
        clock: Clock = SYSTEM_CLOCK,
        now: Callable[[], float] = time.time,
        proxies: Proxies | None = None,
        folders: tuple[str, ...] | None = None,
    ) -> None:
        self.origins: Origins = origins
        self.tokens: Tokens = tokens or TokenStore(now=now)
        self.browsers: Browsers = browsers or BrowserLogins(now=now)
        self.audit: AuditSink | None = audit
        self.tickets: Tickets = tickets or MemoryTickets(clock)
        self.throttle: Throttle = Throttle(clock)
        self.token_watcher: TokenWatcher = TokenWatcher(self.tokens, clock, self.browsers.forget)
        self._proxies = proxies or Proxies()
        self._folders = folders
        self.refused: int = 0
        """Number of refused requests."""

    def authenticate(self, request: AuthRequest) -> TokenRights:
        """Return the rights of the client. Raises RequestRefused.

        Every request needs this, except the page and the health check. For a WebSocket that may have a
        ticket, use `authenticate_socket`.
        """
        return self._rights(self._find_token(request), request)

    async def authenticate_socket(self, request: AuthRequest) -> TokenRights:
        """Return the rights of the client of a WebSocket, which may have a ticket in its URL.

        Raises RequestRefused.
        """
        tickets = [] if "authorization" in request.headers else _tickets(request.query)
        if not tickets:
            return self.authenticate(request)
        try:
            self._check_source(request)
            self.tokens.require_current()
            redeemed = (
                await self.tickets.redeem(tickets[0], request.header("origin")) if len(tickets) == 1 else None
            )
            token = self._valid_token(
                None if redeemed is None else redeemed.token,
                "Unknown ticket, or one that was used or is older than 30 seconds; request a new one.",
            )
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None
        self.tokens.mark_used(token)
        rights = self._rights(token, request)
        if redeemed is None or not redeemed.credential:
            return rights
        return structs.replace(rights, credential=Credential(redeemed.credential))

    def check_origin(self, request: AuthRequest, *, allow_sandbox: bool = False) -> None:
        """Check Host and Origin only, for requests that need no token. Raises RequestRefused.

        `allow_sandbox` admits frames without an origin, such as the one in which the page draws diagrams.
        """
        try:
            self._check_source(request, allow_navigation=True, allow_sandbox=allow_sandbox)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None

    def watch_token(self, rights: TokenRights, on_end: Callable[[str], None]) -> LimitLease:
        """Call `on_end` once, with the reason, when the token is revoked or expires, until the lease is
        released.
        """
        return self.token_watcher.watch_token(rights, on_end)

    async def log_in(self, request: AuthRequest) -> tuple[TokenRights, str]:
        """Serve `POST /api/login` with a bearer token. Return the rights and the `Set-Cookie` value.

        Raises RequestRefused.
        """
        token = self._find_token(request, methods=("bearer",))
        rights = self._rights(token, request)
        try:
            cookie = await self.browsers.log_in(token.id, self._credential(request))
        except OSError as error:
            raise RequestRefused(507, f"Cannot store the login: {error.strerror}.") from None
        except StoreError as error:
            raise _not_stored("login", error) from None
        self._record(rights, "login")
        return rights, self._cookie(request, cookie, LOGIN_LIFETIME)

    async def log_out(self, request: AuthRequest) -> str:
        """Serve `POST /api/logout`. Return the `Set-Cookie` value that removes the cookie.

        Raises RequestRefused only for a foreign page, and if a cluster cannot delete the login.
        """
        try:
            self._check_source(request)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None
        for cookie in self._cookies(request):
            try:
                id = await self.browsers.find(cookie)
                await self.browsers.log_out(cookie)
            except StoreError as error:
                raise _not_stored("logout", error) from None
            if id is not None and (token := self.tokens.get(id)) is not None:
                self._record(self._rights(token, request), "logout")
        return self._cookie(request, "", 0)

    async def issue_ticket(self, request: AuthRequest) -> str:
        """Serve `POST /api/ticket`. Return a ticket that opens one WebSocket. Raises RequestRefused."""
        try:
            for cookie in self._cookies(request):
                await self.browsers.find(cookie)  # another node may have created it a moment ago
            token = self._find_token(request)
            return await self.tickets.issue(token.id, request.header("origin"), self._credential(request))
        except StoreError as error:
            raise _not_stored("ticket", error) from None

    def cors_headers(self, request: AuthRequest) -> dict[str, str]:
        """Return the headers that let a page of `--allow-origin` read the response."""
        origins = request.headers.get("origin", ())
        if len(origins) != 1 or not self.origins.is_allowed(origins[0]):
            return {"Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origins[0],
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": (
                "Authorization, Content-Type, Acp-Connection-Id, Acp-Session-Id, Last-Event-ID"
            ),
            "Access-Control-Expose-Headers": "Acp-Connection-Id, Retry-After, WWW-Authenticate",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
        }

    def is_proxy(self, address: str) -> bool:
        """Whether a trusted proxy has this address, through which many clients come."""
        return self._proxies.is_trusted(address)

    def peer(self, request: AuthRequest) -> str:
        """Return the client's address: a trusted proxy's value, or the socket's."""
        return self._proxies.peer(request.peer, request.headers)

    def is_secure(self, request: AuthRequest) -> bool:
        """Whether the browser uses TLS, to the gateway or to a proxy in front of it."""
        origin = (request.headers.get("origin") or ("",))[0]
        return self._scheme(request) == "https" or origin.lower().startswith("https://")

    def _scheme(self, request: AuthRequest) -> str:
        tls = request.tls or self._proxies.reports_tls(request.peer, request.headers)
        return "https" if tls else "http"

    def _rights(self, token: Token, request: AuthRequest) -> TokenRights:
        """Return the token's rights, restricted to the folders of the gateway."""
        rights = token.rights(self.peer(request)).restricted_to(self._folders)
        text = self._credential(request)
        return structs.replace(rights, credential=Credential(text)) if text else rights

    def _credential(self, request: AuthRequest) -> str:
        """What the client has shown: a token or a cookie; empty if a ticket stands for it."""
        if (header := request.header("authorization")) is not None:
            return header.partition(" ")[2].strip()
        return next((cookie for cookie in self._cookies(request) if self.browsers.token(cookie)), "")

    def _find_token(
        self, request: AuthRequest, methods: tuple[str, ...] = ("bearer", "ticket", "cookie")
    ) -> Token:
        try:
            from_own_page = self._check_source(request)
            self.tokens.require_current()
            token = self._token_of(request, from_own_page, methods)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None
        self.tokens.mark_used(token)
        return token

    def _check_source(
        self, request: AuthRequest, *, allow_navigation: bool = False, allow_sandbox: bool = False
    ) -> bool:
        """Check Host, Origin and URL. Return whether the gateway's own page sent the request.

        Raises RequestRefused.
        """
        authority = self.origins.authority(request.headers.get("host", ()))
        origin = request.header("origin")
        fetch_site = request.header("sec-fetch-site")
        is_own = False
        if origin is not None:
            is_own = self.origins.is_own(origin, authority, self._scheme(request))
            is_sandbox = allow_sandbox and origin == "null"
            if not is_own and not is_sandbox and not self.origins.is_allowed(origin):
                raise RequestRefused(
                    403, "This origin is not allowed; start `accord serve` with --allow-origin to allow it."
                )
        elif fetch_site in ("cross-site", "same-site") and not (allow_navigation and _is_navigation(request)):
            raise RequestRefused(403, "Requests from pages of other sites are not allowed.")
        if _has_token_in_url(request):
            raise RequestRefused(
                400,
                "Do not put a token into a URL, because URLs are logged. Send it as the header "
                "Authorization: Bearer TOKEN, and replace this token by a new one.",
            )
        return is_own or (origin is None and fetch_site == "same-origin")

    def _token_of(self, request: AuthRequest, from_own_page: bool, methods: tuple[str, ...]) -> Token:
        """Return the token behind the credentials.

        The first credentials found must be valid: valid ones of another kind do not make up for them.
        """
        if (header := request.header("authorization")) is not None:
            scheme, _, text = header.partition(" ")
            if scheme.casefold() != "bearer":
                raise RequestRefused(
                    401, "Send the token as Authorization: Bearer TOKEN.", {"WWW-Authenticate": _CHALLENGE}
                )
            token = self.tokens.find(text.strip())
            if token is None:
                raise _invalid_token(
                    "Unknown, revoked or expired token; `accord serve token new` creates one."
                )
            return token
        if "ticket" in methods and _tickets(request.query):
            raise _invalid_token("A ticket is only valid for a WebSocket; send a token or a cookie.")
        cookies = self._cookies(request)
        if "cookie" in methods and cookies:
            if request.kind == "websocket":
                raise _invalid_token("A WebSocket needs a ticket; request one with POST /api/ticket.")
            if not from_own_page:
                raise RequestRefused(403, "The cookie is only valid for the gateway's own page.")
            token_ids = (self.browsers.token(cookie) for cookie in cookies)
            return self._valid_token(
                next((id for id in token_ids if id), None), "The login has ended; log in again."
            )
        raise RequestRefused(
            401, "Missing token; send it as Authorization: Bearer TOKEN.", {"WWW-Authenticate": _CHALLENGE}
        )

    def _valid_token(self, id: str | None, reason: str) -> Token:
        token = None if id is None or not self.tokens.is_valid(id) else self.tokens.get(id)
        if token is None:
            raise _invalid_token(reason)
        return token

    def _cookies(self, request: AuthRequest) -> list[str]:
        """Return all cookies with our name: a browser may send several, for other paths or ports."""
        pairs = (
            pair.partition("=") for line in request.headers.get("cookie", ()) for pair in line.split(";")
        )
        return [value.strip() for name, _, value in pairs if name.strip() == COOKIE and value.strip()][:4]

    def _cookie(self, request: AuthRequest, value: str, lifetime: int) -> str:
        secure = "; Secure" if self.is_secure(request) else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict{secure}"

    def _count_refusal(self, request: AuthRequest, refusal: RequestRefused) -> RequestRefused:
        """Count a refusal for its address.

        Too many are answered with 429 and are no longer written to the audit log. Refusals because the tokens
        cannot be checked now say nothing about the client, and are not counted.
        """
        if refusal.status >= 500:
            return refusal
        self.refused += 1
        peer = self.peer(request)
        retry_after = self.throttle.count_failure(peer)
        if retry_after:
            return RequestRefused(
                429,
                "Too many failed attempts from this address; a valid token still works.",
                {"Retry-After": str(retry_after)},
            )
        if self.audit is not None:
            self.audit.record(
                None,
                "refused",
                peer=peer,
                status=refusal.status,
                reason=refusal.reason,
                path=without_token(request.path),
            )
        return refusal

    def _record(self, rights: TokenRights, event: str) -> None:
        if self.audit is not None:
            self.audit.record(rights, event)


def _is_navigation(request: AuthRequest) -> bool:
    """Whether the user follows a link to the page."""
    modes, dests = request.headers.get("sec-fetch-mode", ()), request.headers.get("sec-fetch-dest", ())
    return request.method in ("GET", "HEAD") and list(modes) == ["navigate"] and list(dests) == ["document"]


def _has_token_in_url(request: AuthRequest) -> bool:
    """Whether the URL contains a token, or a parameter with a token-like name."""
    if TOKEN_PATTERN.search(request.path):
        return True
    pairs = parse_qsl(request.query, keep_blank_values=True, errors="replace") if request.query else ()
    return any(
        name.casefold() in _TOKEN_PARAMETERS or TOKEN_PATTERN.search(value) or TOKEN_PATTERN.search(name)
        for name, value in pairs
    )


def _tickets(query: str) -> list[str]:
    return [value for name, value in parse_qsl(query, errors="replace") if name == "ticket"]


def _not_stored(what: str, error: StoreError) -> RequestRefused:
    return RequestRefused(503, f"Cannot store the {what}: {error}.", {"Retry-After": "5"})


def _invalid_token(reason: str) -> RequestRefused:
    return RequestRefused(401, reason, {"WWW-Authenticate": _INVALID_TOKEN})
