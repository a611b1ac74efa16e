"""Listening addresses, TLS requirements, and the address of links."""

import socket
from pathlib import Path

import msgspec
import pytest

from accord.cli.serve_command import ServeSettings, parse_duration, with_limits
from accord.cli.serve_process import check_encrypted, public_url, resolve_host
from accord.errors import UsageError
from accord.gateway.access.resource_limits import GatewayLimits


@pytest.mark.parametrize(
    ("settings", "addresses", "port", "url"),
    [
        ({}, ("127.0.0.1",), 8765, "http://127.0.0.1:8765"),
        ({}, ("::1",), 8766, "http://[::1]:8766"),
        ({}, ("127.0.0.1",), 80, "http://127.0.0.1"),
        ({"tls_cert": "c"}, ("192.0.2.9",), 443, "https://192.0.2.9"),
        ({"host_names": ("home.example",)}, ("127.0.0.1",), 8765, "https://home.example"),
        ({"host_names": ("home.example",), "tls_cert": "c"}, ("0.0.0.0",), 8765, "https://home.example:8765"),
        ({"host_names": ("nas.lan",), "insecure": True}, ("0.0.0.0",), 8765, "http://nas.lan:8765"),
    ],
)
def test_a_link_starts_with_an_address_that_a_browser_reaches(
    settings, addresses, port: int, url: str
) -> None:
    assert public_url(ServeSettings(**settings), addresses, port) == url


def test_a_link_never_contains_a_wildcard_address() -> None:
    for address in ("0.0.0.0", "::"):
        url = public_url(ServeSettings(), (address,), 8765)
        assert "0.0.0.0" not in url
        assert "[::]" not in url


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.2.1", "::1"])
def test_a_loopback_address_needs_no_tls(address: str) -> None:
    check_encrypted(ServeSettings(host=address), (address,))


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "fd00::2", "203.0.113.5"])
def test_any_other_address_needs_tls_or_insecure(address: str) -> None:
    with pytest.raises(UsageError, match="--insecure"):
        check_encrypted(ServeSettings(host=address), (address,))
    check_encrypted(ServeSettings(host=address, insecure=True), (address,))
    check_encrypted(ServeSettings(host=address, tls_cert="c", tls_key="k"), (address,))


def test_a_name_with_one_public_address_needs_tls() -> None:
    with pytest.raises(UsageError):
        check_encrypted(ServeSettings(host="both"), ("127.0.0.1", "192.0.2.1"))


def test_hosts_are_resolved_or_refused() -> None:
    assert resolve_host("127.0.0.1") == ("127.0.0.1",)
    if socket.has_ipv6:
        assert resolve_host("[::1]") == ("::1",)
    for wrong in ("", " ", "no such host"):
        with pytest.raises(UsageError):
            resolve_host(wrong)


def test_durations_and_limits_are_parsed() -> None:
    assert [parse_duration("--expires", text) for text in ("90s", "5m", "12H", "30d", "2w")] == [
        90,
        300,
        43200,
        2592000,
        1209600,
    ]
    for wrong in ("", "0d", "-1d", "1.5d", "d", "1y", "30"):
        with pytest.raises(UsageError):
            parse_duration("--expires", wrong)
    changed = with_limits(GatewayLimits(sessions=3), ["connections=7", "messagesPerSecond=0.5"])
    assert (changed.connections, changed.messages_per_second, changed.sessions) == (7, 0.5, 3)


def test_the_documented_settings_are_valid() -> None:
    text = (Path(__file__).parents[3] / "docs" / "gateway-reference.md").read_text("utf-8")
    example = text.split("```json\n", 1)[1].split("```", 1)[0]
    settings = msgspec.json.decode(example, type=ServeSettings)
    assert settings.agents == ("claude", "accord")
    for field in msgspec.structs.fields(GatewayLimits):
        assert f"`{field.encode_name}`" in text
