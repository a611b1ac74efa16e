"""Which addresses may be contacted, and which page addresses are valid."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.frontend.web_client import BadUrl, WebAccess, forbidden_reason, parse_url


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
        ),
        *(
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
        ),
        *(
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "fd12:3456::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:7f00:1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
        ),
        *(
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "2001:0:1::1",
            "2001:db8::1",
            "100::1",
            "4000::1",
        ),
        *("localhost", "", "1.2.3", "example.com"),
    ],
)
def test_non_public_addresses_are_refused(address: str) -> None:
    assert forbidden_reason(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "2606:4700:4700::1111",
        "2a00:1450:4001:82a::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert forbidden_reason(address) is None


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_is_judged_like_the_plain_one(address: ipaddress.IPv4Address) -> None:
    expected = forbidden_reason(str(address))
    number = int(address)
    assert forbidden_reason(f"::ffff:{address}") == expected
    assert forbidden_reason(str(ipaddress.IPv6Address((0x0064_FF9B << 96) | number))) == expected
    if not address.is_global:
        assert expected
        assert forbidden_reason(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))))
        assert forbidden_reason(str(ipaddress.IPv6Address(number)))


def test_user_may_allow_hosts_and_networks() -> None:
    access = WebAccess(allowed=("Intranet.example", "10.1.0.0/16", "127.0.0.1"))
    assert access.forbidden_reason("intranet.example", "192.168.0.1") is None
    assert access.forbidden_reason("wiki.intranet.example", "192.168.0.1") is None
    assert access.forbidden_reason("notintranet.example", "192.168.0.1")
    assert access.forbidden_reason("x", "10.1.2.3") is None
    assert access.forbidden_reason("x", "10.2.2.3")
    assert access.forbidden_reason("x", "127.0.0.1") is None
    assert access.forbidden_reason("x", "127.0.0.2")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com", "https://example.com/"),
        (" HTTP://EXAMPLE.com:80/a b".replace("a b", "ab "), "http://example.com/ab"),
        ("https://example.com:8443/x?y=1#frag", "https://example.com:8443/x?y=1"),
        ("https://münchen.example/grün?q=ä", "https://xn--mnchen-3ya.example/gr%C3%BCn?q=%C3%A4"),
        ("https://[2606:4700::1]/", "https://[2606:4700::1]/"),
        ("http://example.com./a%20b/'x'", "http://example.com/a%20b/'x'"),
    ],
)
def test_page_addresses_are_normalized(text: str, url: str) -> None:
    assert str(parse_url(text)) == url


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ftp://example.com",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "example.com",
            "//example.com",
            "https://",
            "",
        ),
        *(
            "https://user:pass@example.com/",
            "https://user@example.com/",
            "https://exa mple.com/",
            "https://a\r\nHost: b/",
        ),
        *(
            "https://example.com:99999/",
            "https://exam\x00ple.com/",
            "https://[::1/",
            "https://a..b/",
            "http://a\u2028b/",
            "https://a@b/",
        ),
    ],
)
def test_invalid_page_addresses_are_refused(text: str) -> None:
    with pytest.raises(BadUrl):
        parse_url(text)


@settings(deadline=None)
@given(st.text(max_size=60) | st.text(max_size=40).map(lambda text: f"https://example.com/{text}"))
def test_any_text_is_refused_or_safe_to_send(text: str) -> None:
    try:
        url = parse_url(text)
    except BadUrl:
        return
    assert f"{url.authority}{url.target}".isascii()
    assert not any(c.isspace() or ord(c) < 33 for c in f"{url.authority}{url.target}")
    assert parse_url(str(url)) == url
