"""Addresses of remote agents: the URL to connect to, the text to show, and no secrets in that text."""

import pytest

import accord
from accord.errors import UsageError
from accord.wire.remote.address import is_address, read_address


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("ws://box:8123", "ws://box:8123/acp"),
        ("http://box:8123/", "http://box:8123/acp"),
        ("https://box/agents/acp", "https://box/agents/acp"),
        ("wss://box/acp?room=1", "wss://box/acp?room=1"),
        ("  ws://[::1]:80/x  ", "ws://[::1]:80/x"),
        ("HTTP://Box/#token=abc", "http://box/acp"),
    ],
)
def test_an_address_without_a_path_gets_the_default_path(address: str, url: str):
    assert read_address(address).url == url


def test_a_token_in_the_fragment_becomes_a_header_and_is_never_shown():
    address = read_address("ws://box:1/acp?key=hush#token=s3cret%2Bx")
    assert address.headers == (("Authorization", "Bearer s3cret+x"),)
    for text in (address.url, address.shown, str(address), repr(address)):
        assert "s3cret" not in text
    assert "hush" not in str(address) + repr(address)


def test_an_explicit_token_replaces_the_fragment_and_the_header():
    address = read_address(
        "ws://box/#token=one", token="two", headers={"authorization": "Basic x", "X-Room": "1"}
    )
    assert address.headers == (("X-Room", "1"), ("Authorization", "Bearer two"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ws://", "not the address of an agent"),
        ("ftp://box/", "not the address of an agent"),
        ("ws://box:99999/", "host or port"),
        ("ws://user:hush@box/", "user name or password"),
        ("ws://box/a b#token=hush", "spaces"),
        ("ws://box:port/?key=hush#token=hush", "host or port"),
        ("nope://user:hush@box/?key=hush#token=hush", "not the address of an agent"),
    ],
)
def test_an_invalid_address_is_refused_without_showing_a_secret(text: str, why: str):
    with pytest.raises(UsageError, match=why) as caught:
        read_address(text)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"token": "hush hush"},
        {"token": "hush\r\nX: y"},
        {"headers": {"X-Key": "hush\r\nY: z"}},
        {"headers": {"Bad Name": "hush"}},
        {"headers": {"Acp-Connection-Id": "hush"}},
        {"headers": {"Host": "hush"}},
    ],
)
def test_an_invalid_header_or_token_is_refused_without_showing_it(options: dict[str, object]):
    with pytest.raises(UsageError) as caught:
        read_address("ws://box/", **options)  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)


def test_programs_are_not_addresses():
    assert not is_address("some-agent")
    assert not is_address("/bin/ws://x")
    assert not is_address("file:///x")
    assert is_address("WSS://box/")


def test_connect_refuses_to_mix_programs_and_addresses():
    with pytest.raises(UsageError, match="takes no arguments"):
        accord.connect("ws://box/", "--acp")
    with pytest.raises(UsageError, match="takes no arguments"):
        accord.connect("ws://box/", cwd="/")
    with pytest.raises(UsageError, match="is a program"):
        accord.connect("some-agent", token="x")


def test_a_file_without_certificates_is_named_in_the_error(tmp_path: object):
    with pytest.raises(UsageError, match=r"nowhere\.pem"):
        read_address("wss://box/", tls="nowhere.pem").tls_context()
    with pytest.raises(UsageError, match="contains no certificates"):
        read_address("wss://box/", tls=__file__).tls_context()
