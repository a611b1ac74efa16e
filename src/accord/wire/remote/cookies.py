"""Cookies of a WebSocket handshake, in the jar that the HTTP requests to the same server use, too."""

from collections.abc import Iterable
from email.message import Message
from http.client import HTTPResponse
from typing import cast
from urllib.request import Request

from accord.wire.remote.address import Address


def cookie_header(address: Address) -> str | None:
    """What to show to the server."""
    request = Request(address.http_url)
    address.cookies.add_cookie_header(request)
    return request.get_header("Cookie")


def keep_cookies(address: Address, headers: Iterable[tuple[str, str]]) -> None:
    """Keep what the server set in its answer."""
    found = Message()
    for name, value in headers:
        if name.lower() == "set-cookie":
            found[name] = value
    address.cookies.extract_cookies(cast(HTTPResponse, _Answer(found)), Request(address.http_url))


class _Answer:
    """Headers in the only form that the standard library's jar takes them."""

    def __init__(self, headers: Message) -> None:
        self._headers = headers

    def info(self) -> Message:
        return self._headers
