"""The door: header mixes and who is let in by them."""

from pathlib import Path
from typing import Any

import pytest

from accord.gateway.access.audit import Audit
from accord.gateway.access.browsers import Browsers
from accord.gateway.access.door import Door, Request
from accord.gateway.access.origins import Origins
from accord.gateway.access.proxies import Proxies
from accord.gateway.access.refusals import Refused
from accord.gateway.access.tokens import Tokens
from accord.testing import FakeClock


class House:
    """A door with one token, and requests to it."""

    def __init__(self, folder: Path, bound: str = "127.0.0.1", **options) -> None:
        self.clock = FakeClock()
        self.time = 1_800_000_000.0
        self.audit = Audit(folder / "audit.jsonl")
        origins = Origins(bound, names=options.pop("names", ()), allowed=options.pop("allowed", ()))
        self.door = Door(
            origins,
            tokens=Tokens(folder / "tokens", self.now),
            browsers=Browsers(folder / "browsers", self.now),
            audit=self.audit,
            clock=self.clock,
            **options,
        )
        self.token, self.text = self.door.tokens.new("mine")

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
        told = {"host": "127.0.0.1:8765"} | {name.replace("_", "-"): value for name, value in headers.items()}
        many = {
            name: [value] if isinstance(value, str) else value
            for name, value in told.items()
            if value is not None
        }
        return Request(method=method, path=path, query=query, kind=kind, peer=peer, tls=tls, headers=many)

    def bearer(self, **more) -> Request:
        return self.request(authorization=f"Bearer {self.text}", **more)

    def status(self, request: Request) -> int:
        try:
            visa = self.door.admit(request)
        except Refused as caught:
            refusal = caught
        else:
            assert visa.token == self.token.id
            return 200
        assert self.text not in refusal.reason
        assert refusal.reason.endswith(".")
        return refusal.status


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


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
def test_the_right_token_in_every_setting(house: House, headers, status: int) -> None:
    assert house.status(house.bearer(**headers)) == status
    assert house.status(house.bearer(kind="websocket", method="GET", **headers)) == status


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer acc_x", "Token {}", "{}"]
)
def test_what_is_no_token_lets_nobody_in(house: House, header: str | None) -> None:
    request = house.request(authorization=header and header.format(house.text))
    with pytest.raises(Refused) as refused:
        house.door.admit(request)
    assert refused.value.status == 401
    assert refused.value.headers["WWW-Authenticate"].startswith('Bearer realm="accord"')


def test_a_token_in_the_address_is_refused_even_beside_a_right_header(house: House) -> None:
    for query in (f"token={house.text}", f"x={house.text}", f"{house.text}", f"ticket={house.text}"):
        assert house.status(house.request(query=query)) == 400
        assert house.status(house.bearer(query=query)) == 400


def test_a_token_in_the_path_is_refused_and_not_logged(house: House) -> None:
    assert house.status(house.bearer(path=f"/acp/{house.text}")) == 400
    assert house.text not in house.audit.path.read_text()


def test_an_app_with_a_scheme_of_its_own_can_be_allowed(tmp_path: Path) -> None:
    house = House(tmp_path, allowed=["capacitor://localhost", "vscode-webview://0abc"])
    assert house.status(house.bearer(origin="capacitor://localhost")) == 200
    assert house.status(house.bearer(origin="vscode-webview://0abc")) == 200
    assert house.status(house.bearer(origin="ionic://localhost")) == 403
    assert house.status(house.bearer(origin="file://")) == 403


def test_a_wrong_token_is_not_made_up_for_by_a_cookie(house: House) -> None:
    _, cookie = house.door.log_in(house.bearer(path="/api/login", origin=OWN))
    shown = cookie.partition(";")[0]
    assert house.status(house.request(cookie=shown, origin=OWN)) == 200
    assert house.status(house.request(cookie=shown, origin=OWN, authorization="Bearer acc_no")) == 401


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
def test_a_cookie_counts_for_our_own_page_alone(house: House, headers, status: int) -> None:
    _, cookie = house.door.log_in(house.bearer(path="/api/login", origin=OWN))
    shown = "other=1; " + cookie.partition(";")[0]
    assert house.status(house.request(cookie=shown, **headers)) == status
    assert house.status(house.request(cookie=shown, kind="websocket", method="GET", **headers)) in (401, 403)


def test_the_cookie_is_closed_to_scripts_and_other_sites(tmp_path: Path) -> None:
    house = House(tmp_path, names=["home.example"])
    _, cookie = house.door.log_in(house.bearer(origin=OWN))
    assert cookie.endswith("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict")
    _, cookie = house.door.log_in(house.bearer(tls=True))
    assert cookie.endswith("; Secure")
    _, cookie = house.door.log_in(house.bearer(host="home.example", origin="https://home.example"))
    assert cookie.endswith("; Secure")


def test_a_cookie_outlives_the_gateway_and_dies_with_its_token(house: House, tmp_path: Path) -> None:
    _, cookie = house.door.log_in(house.bearer(origin=OWN))
    shown = cookie.partition(";")[0]
    again = House(tmp_path)
    again.token = house.token
    assert again.status(again.request(cookie=shown, origin=OWN)) == 200
    Tokens(tmp_path / "tokens").revoke(house.token.id)
    assert again.status(again.request(cookie=shown, origin=OWN)) == 401
    assert shown.partition("=")[2] not in "".join(map(str, tmp_path.rglob("*")))


def test_logging_out_and_staying_away_end_a_cookie(house: House) -> None:
    shown = house.door.log_in(house.bearer(origin=OWN))[1].partition(";")[0]
    other = house.door.log_in(house.bearer(origin=OWN))[1].partition(";")[0]
    assert "Max-Age=0" in house.door.log_out(house.request(cookie=shown, origin=OWN))
    assert house.status(house.request(cookie=shown, origin=OWN)) == 401
    house.time += 29 * 86400
    assert house.status(house.request(cookie=other, origin=OWN)) == 200
    house.time += 29 * 86400
    assert house.status(house.request(cookie=other, origin=OWN)) == 200
    house.time += 30 * 86400
    assert house.status(house.request(cookie=other, origin=OWN)) == 401


def test_logging_in_takes_a_token_and_nothing_else(house: House) -> None:
    shown = house.door.log_in(house.bearer(origin=OWN))[1].partition(";")[0]
    with pytest.raises(Refused):
        house.door.log_in(house.request(cookie=shown, origin=OWN))


async def test_a_ticket_opens_one_websocket_within_its_time(house: House) -> None:
    def opens(ticket: str, **more) -> int:
        return house.status(house.request("GET", kind="websocket", query=f"ticket={ticket}", **more))

    ticket = house.door.ticket(house.bearer(path="/api/ticket"))
    assert opens(ticket) == 200
    assert opens(ticket) == 401
    late = house.door.ticket(house.bearer(path="/api/ticket"))
    await house.clock.advance(30)
    assert opens(late) == 401
    twice = house.door.ticket(house.bearer(path="/api/ticket"))
    assert opens(f"{twice}&ticket={twice}") == 401
    http = house.door.ticket(house.bearer(path="/api/ticket"))
    assert house.status(house.request(query=f"ticket={http}")) == 401
    foreign = house.door.ticket(house.bearer(path="/api/ticket", origin=OWN))
    assert opens(foreign) == 401
    same = house.door.ticket(house.bearer(path="/api/ticket", origin=OWN))
    assert opens(same, origin=OWN) == 200
    revoked = house.door.ticket(house.bearer(path="/api/ticket"))
    house.door.tokens.revoke(house.token.id)
    assert opens(revoked) == 401


def test_every_address_is_ours_where_we_listen_on_all(tmp_path: Path) -> None:
    house = House(tmp_path, bound="0.0.0.0")
    assert house.status(house.bearer(host="192.168.1.5:8765", origin="http://192.168.1.5:8765")) == 200
    assert house.status(house.bearer(host="[fd00::2]:8765")) == 200
    assert house.status(house.bearer(host="0.0.0.0:8765")) == 421
    assert house.status(house.bearer(host="nas.local:8765")) == 421


def test_names_and_origins_that_were_added(tmp_path: Path) -> None:
    house = House(tmp_path, names=["home.example"], allowed=["https://app.example/"])
    at_home = {"host": "home.example"}
    assert house.status(house.bearer(**at_home)) == 200
    assert house.status(house.bearer(**at_home, origin="https://home.example")) == 200
    assert house.status(house.bearer(**at_home, origin="https://home.example:8443")) == 403
    assert house.status(house.bearer(origin="https://app.example", sec_fetch_site="cross-site")) == 200
    assert house.status(house.bearer(origin="http://app.example")) == 403
    shown = house.door.log_in(house.bearer(origin=OWN))[1].partition(";")[0]
    assert house.status(house.request(cookie=shown, origin="https://app.example")) == 403
    assert "Access-Control-Allow-Origin" in house.door.cors(house.request(origin="https://app.example"))
    assert "Access-Control-Allow-Origin" not in house.door.cors(house.request(origin=OWN))


def test_a_proxy_counts_only_if_we_were_told_of_it(tmp_path: Path) -> None:
    told = {"x_forwarded_for": "203.0.113.9, 198.51.100.4", "x_forwarded_proto": "https"}
    plain = House(tmp_path / "plain")
    assert plain.door.admit(plain.bearer(**told)).peer == "127.0.0.1"
    assert not plain.door.is_secure(plain.bearer(**told))
    house = House(tmp_path / "behind", proxies=Proxies(["127.0.0.1", "172.17.0.0/16"]))
    assert house.door.admit(house.bearer(**told)).peer == "198.51.100.4"
    assert house.door.is_secure(house.bearer(**told))
    assert house.door.admit(house.bearer(peer="192.0.2.1", **told)).peer == "192.0.2.1"
    assert house.door.admit(house.bearer(peer="172.17.3.4", **told)).peer == "198.51.100.4"
    assert house.door.admit(house.bearer(x_forwarded_for="<script>")).peer == "127.0.0.1"
    assert house.door.admit(house.bearer(x_forwarded_for="9.9.9.9, [2001:db8::7]")).peer == "2001:db8::7"


@pytest.mark.parametrize(
    ("headers", "let_in"),
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
def test_the_page_itself_needs_no_token_but_the_right_name(house: House, headers, let_in: bool) -> None:
    request = house.request("GET", "/", **headers)
    if let_in:
        house.door.check(request)
    else:
        with pytest.raises(Refused):
            house.door.check(request)


async def test_failures_are_slowed_down_for_their_address_alone(house: House) -> None:
    wrong = house.request(authorization="Bearer acc_no", peer="198.51.100.4")
    assert [house.status(wrong) for _ in range(21)] == [401] * 20 + [429]
    with pytest.raises(Refused) as refused:
        house.door.admit(wrong)
    assert refused.value.headers == {"Retry-After": "5"}
    assert house.status(house.request(peer="198.51.100.5")) == 401
    assert house.status(house.bearer(peer="198.51.100.4")) == 200
    await house.clock.advance(5)
    assert [house.status(wrong), house.status(wrong)] == [401, 429]


def test_ten_thousand_without_a_token_let_nobody_in(house: House) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"authorization": "Bearer acc_aaaaaaaa_" + "A" * 43},
        {"authorization": f"Bearer acc_{house.token.id}_" + "A" * 43},
        {"cookie": "accord=" + "A" * 43, "origin": OWN},
        {"kind": "websocket", "method": "GET", "query": "ticket=" + "A" * 43},
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"query": f"token={house.text}"},
    ]
    for number in range(10_000):
        peer = f"2001:db8:{number % 5000:x}::1" if number % 2 else f"10.0.{number % 250}.{number % 97}"
        assert house.status(house.request(peer=peer, **ways[number % len(ways)])) in (400, 401, 403, 421, 429)
    assert house.door.refused == 10_000
    assert len(house.door.throttle) <= 4096
    assert house.door.tokens.last_used(house.token) is None
    assert house.status(house.bearer()) == 200


def test_refusals_are_in_the_audit_log_without_what_was_shown(house: House) -> None:
    house.status(house.request(query=f"token={house.text}"))
    house.status(house.request(authorization="Bearer acc_secret-thing"))
    log = house.audit.path.read_text()
    assert log.count('"refused"') == 2
    assert house.text not in log
    assert "secret-thing" not in log


async def test_what_was_let_in_ends_with_its_token(house: House) -> None:
    ended: list[str] = []
    visa = house.door.admit(house.bearer())
    shown = house.door.log_in(house.bearer(origin=OWN))[1].partition(";")[0]
    house.door.hold(visa, ended.append)
    house.door.hold(visa, ended.append)
    left = house.door.hold(visa, ended.append)
    left.release()
    await house.clock.advance(1)
    assert ended == []
    Tokens(house.door.tokens.folder).revoke(house.token.id)
    await house.clock.advance(1)
    assert ended == ["the token was revoked"] * 2
    assert list(house.door.browsers.folder.iterdir()) == []
    assert house.status(house.request(cookie=shown, origin=OWN)) == 401
    assert house.clock.waiting == 0


async def test_what_was_let_in_ends_when_its_time_is_over(house: House) -> None:
    ended: list[str] = []
    token, _ = house.door.tokens.new(expires=house.time + 60)
    house.door.hold(token.visa(), ended.append)
    await house.clock.advance(5)
    assert ended == []
    house.time += 60
    await house.clock.advance(1)
    assert ended == ["the token has expired"]
