"""Authenticates every request; throttles failures; ends connections of revoked tokens."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final, Literal
from urllib.parse import parse_qsl

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.gateway.access.access_tokens import TOKEN_PATTERN, Token, TokenRights, TokenStore, without_token
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.browser_logins import COOKIE, LOGIN_LIFETIME, BrowserLogins, Tickets
from accord.gateway.access.request_origin import Origins, Proxies, RequestRefused
from accord.gateway.access.resource_limits import LimitLease, TokenBucket

# MERGED gateway.access.throttle: Failed attempts, counted per address: a few are free, then they are slowed down. Who has a right token never waits.

FREE_FAILURES: Final = 20
"""So many failures at once are answered with the reason."""
FAILURES_PER_SECOND: Final = 0.2
_MAX_ADDRESSES: Final = 4096


class Throttle:
    """The failures of each address. It remembers so many addresses at most; the one heard of longest ago goes first."""

    def __init__(
        self, clock: Clock, *, free: int = FREE_FAILURES, per_second: float = FAILURES_PER_SECOND
    ) -> None:
        self._clock = clock
        self._free = free
        self._per_second = per_second
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def count_failure(self, peer: str) -> int:
        """Count a failure; the result is how many seconds to stay away, 0 for one of the free ones."""
        key = _key(peer)
        bucket = self._buckets.pop(key, None) or TokenBucket(self._clock, self._per_second, self._free)
        self._buckets[key] = bucket
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return ceil(bucket.take(1))


def _key(peer: str) -> str:
    """An IPv6 host has a whole network of addresses to try from; they count as one."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))


# MERGED gateway.access.watch: What was let in with a token ends with it: when it is revoked, by whatever process, and when its time is over.

CHECK_SECONDS: Final = 0.5
_OnEnd = Callable[[str], None]


class TokenWatcher:
    """Looks about twice a second whether the tokens are still there that somebody is in with: one call to the system for each."""

    def __init__(
        self, tokens: TokenStore, clock: Clock, on_removed: Callable[[str], None] | None = None
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._on_removed = on_removed
        self._watched: dict[str, dict[object, _OnEnd]] = {}
        self._timer: Timer | None = None

    def watch_token(self, rights: TokenRights, on_end: _OnEnd) -> LimitLease:
        """Until the lease is given back, `ended` is called once with the reason when the token is no more."""
        key = object()
        self._watched.setdefault(rights.token, {})[key] = on_end
        self._start_timer()
        return LimitLease(lambda: self._unwatch(rights.token, key))

    def check_now(self) -> None:
        """End what has to end, now."""
        for id in [id for id in self._watched if not self._tokens.is_valid(id)]:
            reason = "the token was revoked" if self._tokens.get(id) is None else "the token has expired"
            for on_end in list(self._watched.pop(id, {}).values()):
                on_end(reason)
            if self._on_removed is not None:
                self._on_removed(id)

    def close(self) -> None:
        """Look no more."""
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


# MERGED gateway.access.door: The door: every request shows here that it is for us, that it comes from no foreign page, and whose token it carries.
#
# The order is fixed: the host asked for, the origin of the asking page, no token in the address, then the credentials. A refusal says
# what to do and never repeats what was shown.

_TOKEN_PARAMETERS: Final = frozenset(
    {"token", "access_token", "accesstoken", "auth", "authorization", "bearer", "api_key", "apikey", "key"}
)
_CHALLENGE: Final = 'Bearer realm="accord"'
_INVALID_TOKEN: Final = _CHALLENGE + ', error="invalid_token"'


class AuthRequest(Struct, frozen=True, kw_only=True):
    """What the door needs to know of a request."""

    method: str
    path: str
    query: str = ""
    """As it stands behind the question mark."""
    headers: Mapping[str, Sequence[str]]
    """Names in lower case; with HTTP/2, `host` is what `:authority` said."""
    peer: str = ""
    """The address on the other end of the socket."""
    tls: bool = False
    kind: Literal["http", "websocket"] = "http"

    def header(self, name: str) -> str | None:
        """The value of a header that may come once. Raises Refused if it came twice."""
        values = self.headers.get(name, ())
        if len(values) > 1:
            raise RequestRefused(400, f"The header {name} came more than once.")
        return values[0].strip() if values else None


class Authenticator:
    """Lets in, or raises Refused."""

    def __init__(
        self,
        origins: Origins,
        *,
        tokens: TokenStore | None = None,
        browsers: BrowserLogins | None = None,
        audit: AuditLog | None = None,
        clock: Clock = SYSTEM_CLOCK,
        now: Callable[[], float] = time.time,
        proxies: Proxies | None = None,
        folders: tuple[str, ...] | None = None,
    ) -> None:
        self.origins = origins
        self.tokens = tokens or TokenStore(now=now)
        self.browsers = browsers or BrowserLogins(now=now)
        self.audit = audit
        self.tickets = Tickets(clock)
        self.throttle = Throttle(clock)
        self.token_watcher = TokenWatcher(self.tokens, clock, self.browsers.forget)
        self._proxies = proxies or Proxies()
        self._folders = folders
        self.refused = 0
        """How many were not let in."""

    def authenticate(self, request: AuthRequest) -> TokenRights:
        """The pass of whoever asks, for everything but the page itself and the health check. Raises Refused."""
        return self._rights(self._find_token(request), request)

    def check_origin(self, request: AuthRequest) -> None:
        """For what needs no token: whether the request is for us and from no foreign page. Raises Refused."""
        try:
            self._check_source(request, page=True)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None

    def watch_token(self, rights: TokenRights, on_end: Callable[[str], None]) -> LimitLease:
        """Whoever stays in is told once, with the reason, when the token is revoked or expires; until the lease is released."""
        return self.token_watcher.watch_token(rights, on_end)

    def log_in(self, request: AuthRequest) -> tuple[TokenRights, str]:
        """`POST /api/login` with a token in the header: the pass, and the value of `Set-Cookie`. Raises Refused."""
        token = self._find_token(request, methods=("bearer",))
        rights = self._rights(token, request)
        try:
            cookie = self.browsers.log_in(token.id)
        except OSError as error:
            raise RequestRefused(507, f"The log-in cannot be kept: {error.strerror}.") from None
        self._record(rights, "login")
        return rights, self._cookie(request, cookie, LOGIN_LIFETIME)

    def log_out(self, request: AuthRequest) -> str:
        """`POST /api/logout`: the value of `Set-Cookie` that removes the cookie. Raises Refused for a foreign page alone."""
        try:
            self._check_source(request)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None
        for cookie in self._cookies(request):
            id = self.browsers.token(cookie)
            self.browsers.log_out(cookie)
            if id is not None and (token := self.tokens.get(id)) is not None:
                self._record(self._rights(token, request), "logout")
        return self._cookie(request, "", 0)

    def ticket(self, request: AuthRequest) -> str:
        """`POST /api/ticket` with a token or a cookie: a ticket that opens one WebSocket. Raises Refused."""
        return self.tickets.issue(self._find_token(request).id, request.header("origin"))

    def cors(self, request: AuthRequest) -> dict[str, str]:
        """The headers that let a page of `--allow-origin` read the answer; none for everybody else."""
        origins = request.headers.get("origin", ())
        if len(origins) != 1 or not self.origins.is_allowed(origins[0]):
            return {"Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origins[0],
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Acp-Connection-Id, Acp-Session-Id, Last-Event-ID",
            "Access-Control-Expose-Headers": "Acp-Connection-Id, Retry-After, WWW-Authenticate",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
        }

    def peer(self, request: AuthRequest) -> str:
        """Whose address it is: what our own proxy says, if it is one that we were told of."""
        return self._proxies.peer(request.peer, request.headers)

    def is_secure(self, request: AuthRequest) -> bool:
        """Whether the browser speaks TLS, to us or to a proxy before us."""
        origin = (request.headers.get("origin") or ("",))[0]
        return self._scheme(request) == "https" or origin.lower().startswith("https://")

    def _scheme(self, request: AuthRequest) -> str:
        tls = request.tls or self._proxies.reports_tls(request.peer, request.headers)
        return "https" if tls else "http"

    def _rights(self, token: Token, request: AuthRequest) -> TokenRights:
        """What the token allows, and no folder beyond those of the whole gateway."""
        return token.rights(self.peer(request)).within(self._folders)

    def _find_token(
        self, request: AuthRequest, methods: tuple[str, ...] = ("bearer", "ticket", "cookie")
    ) -> Token:
        try:
            browser = self._check_source(request)
            token = self._token_of(request, browser, methods)
        except RequestRefused as refusal:
            raise self._count_refusal(request, refusal) from None
        self.tokens.mark_used(token)
        return token

    def _check_source(self, request: AuthRequest, *, page: bool = False) -> bool:
        """Host, origin and address; whether a page of ours is known to ask. Raises Refused."""
        authority = self.origins.authority(request.headers.get("host", ()))
        origin = request.header("origin")
        fetch_site = request.header("sec-fetch-site")
        is_own = False
        if origin is not None:
            is_own = self.origins.is_own(origin, authority, self._scheme(request))
            if not is_own and not self.origins.is_allowed(origin):
                raise RequestRefused(
                    403,
                    "Pages of this origin may not use this gateway; `accord serve --allow-origin` lets one in.",
                )
        elif fetch_site in ("cross-site", "same-site") and not (page and _is_navigation(request)):
            raise RequestRefused(403, "A page from elsewhere may not use this gateway.")
        if _has_token_in_url(request):
            raise RequestRefused(
                400,
                "A token never belongs into an address, where it would be logged: send it as the header "
                "Authorization: Bearer TOKEN, and make a new one in place of this.",
            )
        return is_own or (origin is None and fetch_site == "same-origin")

    def _token_of(self, request: AuthRequest, browser: bool, methods: tuple[str, ...]) -> Token:
        """The token behind the credentials. What is shown has to be right: one that is wrong is not made up for by another."""
        if (header := request.header("authorization")) is not None:
            scheme, _, text = header.partition(" ")
            if scheme.casefold() != "bearer":
                raise RequestRefused(
                    401, "Send the token as Authorization: Bearer TOKEN.", {"WWW-Authenticate": _CHALLENGE}
                )
            token = self.tokens.find(text.strip())
            if token is None:
                raise _invalid_token(
                    "This token is unknown, revoked or expired: `accord serve token new` makes one."
                )
            return token
        if "ticket" in methods and (tickets := _tickets(request.query)):
            if request.kind != "websocket":
                raise _invalid_token("A ticket opens a WebSocket and nothing else: send a token or a cookie.")
            id = self.tickets.redeem(tickets[0], request.header("origin")) if len(tickets) == 1 else None
            return self._valid_token(
                id, "This ticket is unknown, used or older than 30 seconds: ask for a new one."
            )
        cookies = self._cookies(request)
        if "cookie" in methods and cookies:
            if request.kind == "websocket":
                raise _invalid_token("A cookie alone opens no WebSocket: get a ticket from POST /api/ticket.")
            if not browser:
                raise RequestRefused(403, "A cookie counts only for the gateway's own page.")
            found = (self.browsers.token(cookie) for cookie in cookies)
            return self._valid_token(
                next((id for id in found if id), None), "This log-in is over: log in again."
            )
        raise RequestRefused(
            401,
            "A token is needed: send it as Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": _CHALLENGE},
        )

    def _valid_token(self, id: str | None, reason: str) -> Token:
        token = None if id is None or not self.tokens.is_valid(id) else self.tokens.get(id)
        if token is None:
            raise _invalid_token(reason)
        return token

    def _cookies(self, request: AuthRequest) -> list[str]:
        """All of our name: a browser may have one of another path or port."""
        pairs = (
            pair.partition("=") for line in request.headers.get("cookie", ()) for pair in line.split(";")
        )
        return [value.strip() for name, _, value in pairs if name.strip() == COOKIE and value.strip()][:4]

    def _cookie(self, request: AuthRequest, value: str, lifetime: int) -> str:
        secure = "; Secure" if self.is_secure(request) else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict{secure}"

    def _count_refusal(self, request: AuthRequest, refusal: RequestRefused) -> RequestRefused:
        """Every refusal counts against its address; too many are answered, and put into the audit log, no longer one by one."""
        self.refused += 1
        peer = self.peer(request)
        retry_after = self.throttle.count_failure(peer)
        if retry_after:
            return RequestRefused(
                429,
                "Too many failed attempts from this address; a right token is let in.",
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
    """Somebody follows a link to the page, which is no page's doing."""
    modes, dests = request.headers.get("sec-fetch-mode", ()), request.headers.get("sec-fetch-dest", ())
    return request.method in ("GET", "HEAD") and list(modes) == ["navigate"] and list(dests) == ["document"]


def _has_token_in_url(request: AuthRequest) -> bool:
    """Whether a token stands in the address, or something that is called one."""
    if TOKEN_PATTERN.search(request.path):
        return True
    pairs = parse_qsl(request.query, keep_blank_values=True, errors="replace") if request.query else ()
    return any(
        name.casefold() in _TOKEN_PARAMETERS or TOKEN_PATTERN.search(value) or TOKEN_PATTERN.search(name)
        for name, value in pairs
    )


def _tickets(query: str) -> list[str]:
    return [value for name, value in parse_qsl(query, errors="replace") if name == "ticket"]


def _invalid_token(reason: str) -> RequestRefused:
    return RequestRefused(401, reason, {"WWW-Authenticate": _INVALID_TOKEN})
