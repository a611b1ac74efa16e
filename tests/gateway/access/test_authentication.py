"""Authentication: which combinations of headers are admitted."""

from pathlib import Path
from typing import Any

import pytest

from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.authentication import Authenticator, AuthRequest
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import Origins, Proxies, RequestRefused
from accord.testing import FakeClock


class AuthHarness:
    """An authenticator with one token, and requests to it."""

    def __init__(self, folder: Path, bound: str = "127.0.0.1", **options) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.time = 1_800_000_000.0
        self.audit = AuditLog(folder / "audit.jsonl")
        origins = Origins(bound, names=options.pop("names", ()), allowed=options.pop("allowed", ()))
        self.tokens = TokenStore(folder / "tokens", self.now)
        self.auth = Authenticator(
            origins,
            tokens=self.tokens,
            browsers=BrowserLogins(folder / "browsers", self.now),
            audit=self.audit,
            clock=self.clock,
            **options,
        )
        self.token, self.text = self.tokens.new("mine")

    def now(self) -> float:
        return self.time

    def request(
        self,
        method="POST",
        path="/acp",
        *,
        query="",
        kind: Any = "http",
        peer="127.0.0.1",
        tls=False,
        **headers,
    ):
        headers = {"host": "127.0.0.1:8765"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        many = {
            name: [value] if isinstance(value, str) else value
            for name, value in headers.items()
            if value is not None
        }
        return AuthRequest(method=method, path=path, query=query, kind=kind, peer=peer, tls=tls, headers=many)

    def bearer(self, **more) -> AuthRequest:
        return self.request(authorization=f"Bearer {self.text}", **more)

    def status(self, request: AuthRequest) -> int:
        try:
            rights = self.auth.authenticate(request)
        except RequestRefused as caught:
            refusal = caught
        else:
            assert rights.token == self.token.id
            return 200
        assert self.text not in refusal.reason
        assert refusal.reason.endswith(".")
        return refusal.status


@pytest.fixture
def harness(tmp_path: Path) -> AuthHarness:
    return AuthHarness(tmp_path)


OWN = "http://127.0.0.1:8765"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8765"}, 200),
        ({"host": "LOCALHOST.:8765"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:8765"}, 200),
        ({"host": None}, 400),
        ({"host": ""}, 400),
        ({"host": ["127.0.0.1", "127.0.0.1"]}, 400),
        ({"host": "127.0.0.1:8765, evil.example"}, 400),
        ({"host": "user@127.0.0.1"}, 400),
        ({"host": "127.0.0.1:99999"}, 400),
        ({"host": "127.0.0.1:8765/"}, 400),
        ({"host": "evil.example:8765"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "0.0.0.0:8765"}, 421),
        ({"host": "2130706433"}, 421),
        ({"host": "192.0.2.7:8765"}, 421),
        ({"origin": OWN}, 200),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "https://127.0.0.1:8765"}, 403),
        ({"origin": "http://localhost:8765"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "file://"}, 403),
        ({"origin": "chrome-extension://abc"}, 403),
        ({"origin": [OWN, OWN]}, 400),
        ({"origin": OWN + "@evil.example"}, 403),
        ({"host": "localhost:9000", "origin": "http://localhost:9000"}, 200),
        ({"host": "localhost", "origin": "http://localhost:80"}, 200),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"query": "token=x"}, 400),
        ({"query": "access_token=x"}, 400),
        ({"query": "TOKEN="}, 400),
        ({"query": "a=1&b=2"}, 200),
        ({"query": "ticket=anything"}, 200),
    ],
)
def test_the_right_token_with_other_headers(harness: AuthHarness, headers, status: int) -> None:
    assert harness.status(harness.bearer(**headers)) == status
    assert harness.status(harness.bearer(kind="websocket", method="GET", **headers)) == status


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer acc_x", "Token {}", "{}"]
)
def test_an_invalid_token_is_unauthorized(harness: AuthHarness, header: str | None) -> None:
    request = harness.request(authorization=header and header.format(harness.text))
    with pytest.raises(RequestRefused) as refused:
        harness.auth.authenticate(request)
    assert refused.value.status == 401
    assert refused.value.headers["WWW-Authenticate"].startswith('Bearer realm="accord"')


def test_a_token_in_the_query_is_rejected_even_with_a_valid_header(harness: AuthHarness) -> None:
    for query in (f"token={harness.text}", f"x={harness.text}", f"{harness.text}", f"ticket={harness.text}"):
        assert harness.status(harness.request(query=query)) == 400
        assert harness.status(harness.bearer(query=query)) == 400


def test_a_token_in_the_path_is_rejected_and_not_logged(harness: AuthHarness) -> None:
    assert harness.status(harness.bearer(path=f"/acp/{harness.text}")) == 400
    assert harness.text not in harness.audit.path.read_text()


def test_an_origin_with_a_custom_scheme_can_be_allowed(tmp_path: Path) -> None:
    harness = AuthHarness(tmp_path, allowed=["capacitor://localhost", "vscode-webview://0abc"])
    assert harness.status(harness.bearer(origin="capacitor://localhost")) == 200
    assert harness.status(harness.bearer(origin="vscode-webview://0abc")) == 200
    assert harness.status(harness.bearer(origin="ionic://localhost")) == 403
    assert harness.status(harness.bearer(origin="file://")) == 403


async def test_a_valid_cookie_does_not_make_up_for_a_wrong_token(harness: AuthHarness) -> None:
    _, cookie = await harness.auth.log_in(harness.bearer(path="/api/login", origin=OWN))
    shown = cookie.partition(";")[0]
    assert harness.status(harness.request(cookie=shown, origin=OWN)) == 200
    assert harness.status(harness.request(cookie=shown, origin=OWN, authorization="Bearer acc_no")) == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": OWN}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"origin": OWN, "sec_fetch_site": "same-origin"}, 200),
        ({}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "http://127.0.0.1:3000", "sec_fetch_site": "same-origin"}, 403),
    ],
)
async def test_a_cookie_is_accepted_only_from_our_own_page(
    harness: AuthHarness, headers, status: int
) -> None:
    _, cookie = await harness.auth.log_in(harness.bearer(path="/api/login", origin=OWN))
    shown = "other=1; " + cookie.partition(";")[0]
    assert harness.status(harness.request(cookie=shown, **headers)) == status
    assert harness.status(harness.request(cookie=shown, kind="websocket", method="GET", **headers)) in (
        401,
        403,
    )


async def test_the_cookie_is_http_only_same_site_and_secure_over_tls(tmp_path: Path) -> None:
    harness = AuthHarness(tmp_path, names=["home.example"])
    _, cookie = await harness.auth.log_in(harness.bearer(origin=OWN))
    assert cookie.endswith("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict")
    _, cookie = await harness.auth.log_in(harness.bearer(tls=True))
    assert cookie.endswith("; Secure")
    _, cookie = await harness.auth.log_in(harness.bearer(host="home.example", origin="https://home.example"))
    assert cookie.endswith("; Secure")


async def test_a_cookie_survives_a_restart_and_ends_with_its_token(
    harness: AuthHarness, tmp_path: Path
) -> None:
    _, cookie = await harness.auth.log_in(harness.bearer(origin=OWN))
    shown = cookie.partition(";")[0]
    again = AuthHarness(tmp_path)
    again.token = harness.token
    assert again.status(again.request(cookie=shown, origin=OWN)) == 200
    TokenStore(tmp_path / "tokens").revoke(harness.token.id)
    assert again.status(again.request(cookie=shown, origin=OWN)) == 401
    assert shown.partition("=")[2] not in "".join(map(str, tmp_path.rglob("*")))


async def test_logout_and_inactivity_end_a_cookie(harness: AuthHarness) -> None:
    shown = (await harness.auth.log_in(harness.bearer(origin=OWN)))[1].partition(";")[0]
    other = (await harness.auth.log_in(harness.bearer(origin=OWN)))[1].partition(";")[0]
    assert "Max-Age=0" in await harness.auth.log_out(harness.request(cookie=shown, origin=OWN))
    assert harness.status(harness.request(cookie=shown, origin=OWN)) == 401
    harness.time += 29 * 86400
    assert harness.status(harness.request(cookie=other, origin=OWN)) == 200
    harness.time += 29 * 86400
    assert harness.status(harness.request(cookie=other, origin=OWN)) == 200
    harness.time += 30 * 86400
    assert harness.status(harness.request(cookie=other, origin=OWN)) == 401


async def test_login_accepts_only_a_token(harness: AuthHarness) -> None:
    shown = (await harness.auth.log_in(harness.bearer(origin=OWN)))[1].partition(";")[0]
    with pytest.raises(RequestRefused):
        await harness.auth.log_in(harness.request(cookie=shown, origin=OWN))


async def test_a_ticket_opens_one_websocket_before_it_expires(harness: AuthHarness) -> None:
    async def opens(ticket: str, **more) -> int:
        request = harness.request("GET", kind="websocket", query=f"ticket={ticket}", **more)
        try:
            await harness.auth.authenticate_socket(request)
        except RequestRefused as refusal:
            return refusal.status
        return 200

    ticket = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket"))
    assert await opens(ticket) == 200
    assert await opens(ticket) == 401
    late = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket"))
    await harness.clock.advance(30)
    assert await opens(late) == 401
    twice = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket"))
    assert await opens(f"{twice}&ticket={twice}") == 401
    http = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket"))
    assert harness.status(harness.request(query=f"ticket={http}")) == 401
    foreign = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket", origin=OWN))
    assert await opens(foreign) == 401
    same = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket", origin=OWN))
    assert await opens(same, origin=OWN) == 200
    revoked = await harness.auth.issue_ticket(harness.bearer(path="/api/ticket"))
    harness.tokens.revoke(harness.token.id)
    assert await opens(revoked) == 401


def test_any_ip_address_is_ours_when_listening_on_all_interfaces(tmp_path: Path) -> None:
    harness = AuthHarness(tmp_path, bound="0.0.0.0")
    assert harness.status(harness.bearer(host="192.168.1.5:8765", origin="http://192.168.1.5:8765")) == 200
    assert harness.status(harness.bearer(host="[fd00::2]:8765")) == 200
    assert harness.status(harness.bearer(host="0.0.0.0:8765")) == 421
    assert harness.status(harness.bearer(host="nas.local:8765")) == 421


async def test_configured_names_and_origins_are_accepted(tmp_path: Path) -> None:
    harness = AuthHarness(tmp_path, names=["home.example"], allowed=["https://app.example/"])
    at_home = {"host": "home.example"}
    assert harness.status(harness.bearer(**at_home)) == 200
    assert harness.status(harness.bearer(**at_home, origin="https://home.example")) == 200
    assert harness.status(harness.bearer(**at_home, origin="https://home.example:8443")) == 403
    assert harness.status(harness.bearer(origin="https://app.example", sec_fetch_site="cross-site")) == 200
    assert harness.status(harness.bearer(origin="http://app.example")) == 403
    shown = (await harness.auth.log_in(harness.bearer(origin=OWN)))[1].partition(";")[0]
    assert harness.status(harness.request(cookie=shown, origin="https://app.example")) == 403
    assert "Access-Control-Allow-Origin" in harness.auth.cors_headers(
        harness.request(origin="https://app.example")
    )
    assert "Access-Control-Allow-Origin" not in harness.auth.cors_headers(harness.request(origin=OWN))


def test_forwarded_headers_count_only_from_configured_proxies(tmp_path: Path) -> None:
    forwarded = {"x_forwarded_for": "203.0.113.9, 198.51.100.4", "x_forwarded_proto": "https"}
    plain = AuthHarness(tmp_path / "plain")
    assert plain.auth.authenticate(plain.bearer(**forwarded)).peer == "127.0.0.1"
    assert not plain.auth.is_secure(plain.bearer(**forwarded))
    harness = AuthHarness(tmp_path / "behind", proxies=Proxies(["127.0.0.1", "172.17.0.0/16"]))
    assert harness.auth.authenticate(harness.bearer(**forwarded)).peer == "198.51.100.4"
    assert harness.auth.is_secure(harness.bearer(**forwarded))
    assert harness.auth.authenticate(harness.bearer(peer="192.0.2.1", **forwarded)).peer == "192.0.2.1"
    assert harness.auth.authenticate(harness.bearer(peer="172.17.3.4", **forwarded)).peer == "198.51.100.4"
    assert harness.auth.authenticate(harness.bearer(x_forwarded_for="<script>")).peer == "127.0.0.1"
    assert (
        harness.auth.authenticate(harness.bearer(x_forwarded_for="9.9.9.9, [2001:db8::7]")).peer
        == "2001:db8::7"
    )


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin", "origin": OWN}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, False),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}, False),
        ({"host": "evil.example"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"query": "token=x"}, False),
    ],
)
def test_the_page_needs_no_token_but_the_right_host(harness: AuthHarness, headers, admitted: bool) -> None:
    request = harness.request("GET", "/", **headers)
    if admitted:
        harness.auth.check_origin(request)
    else:
        with pytest.raises(RequestRefused):
            harness.auth.check_origin(request)


def test_requests_that_cannot_be_checked_now_are_not_counted_as_failures(
    harness: AuthHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> None:
        raise RequestRefused(503, "The tokens cannot be read.")

    with monkeypatch.context() as patch:
        patch.setattr(harness.tokens, "require_current", unreachable)
        assert {harness.status(harness.bearer()) for _ in range(30)} == {503}
    assert harness.status(harness.request()) == 401


async def test_failures_are_throttled_for_their_address_only(harness: AuthHarness) -> None:
    wrong = harness.request(authorization="Bearer acc_no", peer="198.51.100.4")
    assert [harness.status(wrong) for _ in range(21)] == [401] * 20 + [429]
    with pytest.raises(RequestRefused) as refused:
        harness.auth.authenticate(wrong)
    assert refused.value.headers == {"Retry-After": "5"}
    assert harness.status(harness.request(peer="198.51.100.5")) == 401
    assert harness.status(harness.bearer(peer="198.51.100.4")) == 200
    await harness.clock.advance(5)
    assert [harness.status(wrong), harness.status(wrong)] == [401, 429]


def test_ten_thousand_requests_without_a_token_are_all_rejected(harness: AuthHarness) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"authorization": "Bearer acc_aaaaaaaa_" + "A" * 43},
        {"authorization": f"Bearer acc_{harness.token.id}_" + "A" * 43},
        {"cookie": "accord=" + "A" * 43, "origin": OWN},
        {"kind": "websocket", "method": "GET", "query": "ticket=" + "A" * 43},
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"query": f"token={harness.text}"},
    ]
    for number in range(10_000):
        peer = f"2001:db8:{number % 5000:x}::1" if number % 2 else f"10.0.{number % 250}.{number % 97}"
        assert harness.status(harness.request(peer=peer, **ways[number % len(ways)])) in (
            400,
            401,
            403,
            421,
            429,
        )
    assert harness.auth.refused == 10_000
    assert len(harness.auth.throttle) <= 4096
    assert harness.auth.tokens.last_used(harness.token) is None
    assert harness.status(harness.bearer()) == 200


def test_rejections_are_logged_without_the_credentials(harness: AuthHarness) -> None:
    harness.status(harness.request(query=f"token={harness.text}"))
    harness.status(harness.request(authorization="Bearer acc_secret-thing"))
    log = harness.audit.path.read_text()
    assert log.count('"refused"') == 2
    assert harness.text not in log
    assert "secret-thing" not in log


async def test_connections_end_when_their_token_is_revoked(harness: AuthHarness) -> None:
    ended: list[str] = []
    rights = harness.auth.authenticate(harness.bearer())
    shown = (await harness.auth.log_in(harness.bearer(origin=OWN)))[1].partition(";")[0]
    harness.auth.watch_token(rights, ended.append)
    harness.auth.watch_token(rights, ended.append)
    left = harness.auth.watch_token(rights, ended.append)
    left.release()
    await harness.clock.advance(1)
    assert ended == []
    TokenStore(harness.folder / "tokens").revoke(harness.token.id)
    await harness.clock.advance(1)
    assert ended == ["the token was revoked"] * 2
    assert list((harness.folder / "browsers").iterdir()) == []
    assert harness.status(harness.request(cookie=shown, origin=OWN)) == 401
    assert harness.clock.waiting == 0


async def test_connections_end_when_their_token_expires(harness: AuthHarness) -> None:
    ended: list[str] = []
    token, _ = harness.tokens.new(expires=harness.time + 60)
    harness.auth.watch_token(token.rights(), ended.append)
    await harness.clock.advance(5)
    assert ended == []
    harness.time += 60
    await harness.clock.advance(1)
    assert ended == ["the token has expired"]
