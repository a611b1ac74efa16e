"""The door: every request shows here that it is for us, that it comes from no foreign page, and whose token it carries.

The order is fixed: the host asked for, the origin of the asking page, no token in the address, then the credentials. A refusal says
what to do and never repeats what was shown.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal
from urllib.parse import parse_qsl

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.gateway.access.audit import Audit
from accord.gateway.access.browsers import COOKIE, LIFETIME, Browsers
from accord.gateway.access.limits import Lease
from accord.gateway.access.origins import Origins
from accord.gateway.access.passes import Pass
from accord.gateway.access.proxies import Proxies
from accord.gateway.access.refusals import Refused
from accord.gateway.access.throttle import Throttle
from accord.gateway.access.tickets import Tickets
from accord.gateway.access.tokens import TOKEN, Token, Tokens, without_token
from accord.gateway.access.watch import Watch

_TOKEN_NAMES: Final = frozenset(
    {"token", "access_token", "accesstoken", "auth", "authorization", "bearer", "api_key", "apikey", "key"}
)
_CHALLENGE: Final = 'Bearer realm="accord"'
_WRONG: Final = _CHALLENGE + ', error="invalid_token"'


class Request(Struct, frozen=True, kw_only=True):
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
            raise Refused(400, f"The header {name} came more than once.")
        return values[0].strip() if values else None


class Door:
    """Lets in, or raises Refused."""

    def __init__(
        self,
        origins: Origins,
        *,
        tokens: Tokens | None = None,
        browsers: Browsers | None = None,
        audit: Audit | None = None,
        clock: Clock = SYSTEM_CLOCK,
        now: Callable[[], float] = time.time,
        proxies: Proxies | None = None,
        folders: tuple[str, ...] | None = None,
    ) -> None:
        self.origins = origins
        self.tokens = tokens or Tokens(now=now)
        self.browsers = browsers or Browsers(now=now)
        self.audit = audit
        self.tickets = Tickets(clock)
        self.throttle = Throttle(clock)
        self.watch = Watch(self.tokens, clock, self.browsers.forget)
        self._proxies = proxies or Proxies()
        self._folders = folders
        self.refused = 0
        """How many were not let in."""

    def admit(self, request: Request) -> Pass:
        """The pass of whoever asks, for everything but the page itself and the health check. Raises Refused."""
        return self._visa(self._credentials(request), request)

    def check(self, request: Request) -> None:
        """For what needs no token: whether the request is for us and from no foreign page. Raises Refused."""
        try:
            self._surroundings(request, page=True)
        except Refused as refusal:
            raise self._counted(request, refusal) from None

    def hold(self, visa: Pass, ended: Callable[[str], None]) -> Lease:
        """Whoever stays in is told once, with the reason, when the token is revoked or expires; until the lease is released."""
        return self.watch.hold(visa, ended)

    def log_in(self, request: Request) -> tuple[Pass, str]:
        """`POST /api/login` with a token in the header: the pass, and the value of `Set-Cookie`. Raises Refused."""
        token = self._credentials(request, ways=("bearer",))
        visa = self._visa(token, request)
        try:
            cookie = self.browsers.log_in(token.id)
        except OSError as error:
            raise Refused(507, f"The log-in cannot be kept: {error.strerror}.") from None
        self._record(visa, "login")
        return visa, self._cookie(request, cookie, LIFETIME)

    def log_out(self, request: Request) -> str:
        """`POST /api/logout`: the value of `Set-Cookie` that removes the cookie. Raises Refused for a foreign page alone."""
        try:
            self._surroundings(request)
        except Refused as refusal:
            raise self._counted(request, refusal) from None
        for cookie in self._cookies(request):
            id = self.browsers.token(cookie)
            self.browsers.log_out(cookie)
            if id is not None and (token := self.tokens.get(id)) is not None:
                self._record(self._visa(token, request), "logout")
        return self._cookie(request, "", 0)

    def ticket(self, request: Request) -> str:
        """`POST /api/ticket` with a token or a cookie: a ticket that opens one WebSocket. Raises Refused."""
        return self.tickets.issue(self._credentials(request).id, request.header("origin"))

    def cors(self, request: Request) -> dict[str, str]:
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

    def peer(self, request: Request) -> str:
        """Whose address it is: what our own proxy says, if it is one that we were told of."""
        return self._proxies.peer(request.peer, request.headers)

    def is_secure(self, request: Request) -> bool:
        """Whether the browser speaks TLS, to us or to a proxy before us."""
        origin = (request.headers.get("origin") or ("",))[0]
        return self._scheme(request) == "https" or origin.lower().startswith("https://")

    def _scheme(self, request: Request) -> str:
        tls = request.tls or self._proxies.tells_of_tls(request.peer, request.headers)
        return "https" if tls else "http"

    def _visa(self, token: Token, request: Request) -> Pass:
        """What the token allows, and no folder beyond those of the whole gateway."""
        return token.visa(self.peer(request)).within(self._folders)

    def _credentials(self, request: Request, ways: tuple[str, ...] = ("bearer", "ticket", "cookie")) -> Token:
        try:
            browser = self._surroundings(request)
            token = self._shown(request, browser, ways)
        except Refused as refusal:
            raise self._counted(request, refusal) from None
        self.tokens.used(token)
        return token

    def _surroundings(self, request: Request, *, page: bool = False) -> bool:
        """Host, origin and address; whether a page of ours is known to ask. Raises Refused."""
        authority = self.origins.authority(request.headers.get("host", ()))
        origin = request.header("origin")
        site = request.header("sec-fetch-site")
        own = False
        if origin is not None:
            own = self.origins.is_own(origin, authority, self._scheme(request))
            if not own and not self.origins.is_allowed(origin):
                raise Refused(
                    403,
                    "Pages of this origin may not use this gateway; `accord serve --allow-origin` lets one in.",
                )
        elif site in ("cross-site", "same-site") and not (page and _is_visit(request)):
            raise Refused(403, "A page from elsewhere may not use this gateway.")
        if _holds_token(request):
            raise Refused(
                400,
                "A token never belongs into an address, where it would be logged: send it as the header "
                "Authorization: Bearer TOKEN, and make a new one in place of this.",
            )
        return own or (origin is None and site == "same-origin")

    def _shown(self, request: Request, browser: bool, ways: tuple[str, ...]) -> Token:
        """The token behind the credentials. What is shown has to be right: one that is wrong is not made up for by another."""
        if (header := request.header("authorization")) is not None:
            scheme, _, text = header.partition(" ")
            if scheme.casefold() != "bearer":
                raise Refused(
                    401, "Send the token as Authorization: Bearer TOKEN.", {"WWW-Authenticate": _CHALLENGE}
                )
            token = self.tokens.find(text.strip())
            if token is None:
                raise _wrong("This token is unknown, revoked or expired: `accord serve token new` makes one.")
            return token
        if "ticket" in ways and (shown := _tickets(request.query)):
            if request.kind != "websocket":
                raise _wrong("A ticket opens a WebSocket and nothing else: send a token or a cookie.")
            id = self.tickets.redeem(shown[0], request.header("origin")) if len(shown) == 1 else None
            return self._valid(
                id, "This ticket is unknown, used or older than 30 seconds: ask for a new one."
            )
        cookies = self._cookies(request)
        if "cookie" in ways and cookies:
            if request.kind == "websocket":
                raise _wrong("A cookie alone opens no WebSocket: get a ticket from POST /api/ticket.")
            if not browser:
                raise Refused(403, "A cookie counts only for the gateway's own page.")
            found = (self.browsers.token(cookie) for cookie in cookies)
            return self._valid(next((id for id in found if id), None), "This log-in is over: log in again.")
        raise Refused(
            401,
            "A token is needed: send it as Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": _CHALLENGE},
        )

    def _valid(self, id: str | None, otherwise: str) -> Token:
        token = None if id is None or not self.tokens.is_valid(id) else self.tokens.get(id)
        if token is None:
            raise _wrong(otherwise)
        return token

    def _cookies(self, request: Request) -> list[str]:
        """All of our name: a browser may have one of another path or port."""
        pairs = (
            pair.partition("=") for line in request.headers.get("cookie", ()) for pair in line.split(";")
        )
        return [value.strip() for name, _, value in pairs if name.strip() == COOKIE and value.strip()][:4]

    def _cookie(self, request: Request, value: str, lifetime: int) -> str:
        secure = "; Secure" if self.is_secure(request) else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict{secure}"

    def _counted(self, request: Request, refusal: Refused) -> Refused:
        """Every refusal counts against its address; too many are answered, and put into the audit log, no longer one by one."""
        self.refused += 1
        peer = self.peer(request)
        wait = self.throttle.failed(peer)
        if wait:
            return Refused(
                429,
                "Too many failed attempts from this address; a right token is let in.",
                {"Retry-After": str(wait)},
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

    def _record(self, visa: Pass, event: str) -> None:
        if self.audit is not None:
            self.audit.record(visa, event)


def _is_visit(request: Request) -> bool:
    """Somebody follows a link to the page, which is no page's doing."""
    modes, dests = request.headers.get("sec-fetch-mode", ()), request.headers.get("sec-fetch-dest", ())
    return request.method in ("GET", "HEAD") and list(modes) == ["navigate"] and list(dests) == ["document"]


def _holds_token(request: Request) -> bool:
    """Whether a token stands in the address, or something that is called one."""
    if TOKEN.search(request.path):
        return True
    pairs = parse_qsl(request.query, keep_blank_values=True, errors="replace") if request.query else ()
    return any(
        name.casefold() in _TOKEN_NAMES or TOKEN.search(value) or TOKEN.search(name) for name, value in pairs
    )


def _tickets(query: str) -> list[str]:
    return [value for name, value in parse_qsl(query, errors="replace") if name == "ticket"]


def _wrong(reason: str) -> Refused:
    return Refused(401, reason, {"WWW-Authenticate": _WRONG})
