"""Any request to the authenticator is admitted or rejected with a status and a reason; without the token it
is never admitted.
"""

from asyncio import iscoroutine
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions

from accord.gateway.access.access_tokens import Token, TokenStore
from accord.gateway.access.authentication import Authenticator, AuthRequest
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import Origins, Proxies, RequestRefused
from accord.testing import FakeClock

TEXT, OTHER = "the-token", "another-token"
"""Placeholders for the right token, and for one with the right id and a wrong secret."""

_bytes = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=40)
_values = {
    "host": st.sampled_from(
        ["127.0.0.1:8765", "localhost", "[::1]", "evil.example", "127.0.0.1:0", "[", ":", "::1"]
    ),
    "origin": st.sampled_from(
        ["http://127.0.0.1:8765", "null", "http://", "https://evil.example", "http://[::1"]
    ),
    "authorization": st.sampled_from(
        [f"Bearer {OTHER}", "Bearer", "bearer  x", f"Basic {TEXT}", TEXT, f"Bearer {TEXT}x"]
    ),
    "cookie": st.sampled_from(["accord=", "accord", "=;=", "accord=../../x; accord=\x00", f"accord={TEXT}"]),
    "sec-fetch-site": st.sampled_from(["same-origin", "none", "cross-site", ""]),
    "x-forwarded-for": st.sampled_from(["1.2.3.4", ",", "x, y", "::1%lo"]),
    "x-forwarded-proto": st.sampled_from(["https", "http", "HTTPS, http"]),
}
_headers = st.fixed_dictionaries(
    {}, optional={name: st.lists(one | _bytes, max_size=2) for name, one in _values.items()}
)
_queries = (
    st.sampled_from(["", "ticket=x", "ticket=x&ticket=y", "a=%ff", "token", f"x={TEXT}", "&&=&"]) | _bytes
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("auth")


@pytest.fixture(scope="module")
def token(folder: Path) -> tuple[Token, str]:
    return TokenStore(folder / "tokens").new()


@settings(max_examples=repetitions(300), deadline=None)
@given(
    _headers,
    _queries,
    _bytes,
    st.sampled_from(["http", "websocket"]),
    st.booleans(),
    _bytes | st.just("127.0.0.1"),
)
def test_no_request_without_the_token_is_admitted(
    folder: Path, token: tuple[Token, str], headers, query: str, path: str, kind, tls: bool, peer: str
) -> None:
    made, text = token

    def real(value: str) -> str:
        return value.replace(OTHER, f"acc_{made.id}_" + "A" * 43).replace(TEXT, text)

    auth = Authenticator(
        Origins("127.0.0.1", names=["home.example"]),
        tokens=TokenStore(folder / "tokens"),
        browsers=BrowserLogins(folder / "browsers"),
        clock=FakeClock(),
        proxies=Proxies(["127.0.0.1"]),
    )
    sent_headers = {name: [real(value) for value in values] for name, values in headers.items()}
    request = AuthRequest(
        method="GET", path="/" + path, query=real(query), headers=sent_headers, peer=peer, tls=tls, kind=kind
    )
    for ask in (auth.authenticate, auth.authenticate_socket, auth.log_in, auth.issue_ticket):
        with pytest.raises(RequestRefused) as refused:
            _call(ask, request)
        assert refused.value.status in (400, 401, 403, 421)
        assert text not in refused.value.reason
    for harmless in (auth.check_origin, auth.log_out, auth.cors_headers):
        try:
            _call(harmless, request)
        except RequestRefused as refusal:
            assert refusal.status in (400, 403, 421)  # noqa: PT017 - it may also succeed


def _call(function: Callable[[AuthRequest], Any], request: AuthRequest) -> None:
    """Call a function that may be asynchronous, but waits for nothing on one machine."""
    result = function(request)
    if iscoroutine(result):
        with suppress(StopIteration):
            result.send(None)
            pytest.fail("it waits")
