"""The address of a remote agent, time limits, and how it is dialed."""

import os
import random
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit, urlunsplit

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.extras import require
from accord.safe_text import one_line
from accord.wire.transport import Transport

if TYPE_CHECKING:
    from http.cookiejar import CookieJar


# MERGED wire.remote.address: Where a remote agent is: the address that is dialled, what may be shown of it, and what goes with every request.
#
# A token never stays in the address: it is taken out of the fragment, travels in a header, and is in no text that is shown.

Tls: TypeAlias = ssl.SSLContext | str | os.PathLike[str]
"""Whom to trust: a context, or a file of certificates in PEM form."""

SCHEMES: Final = ("ws", "wss", "http", "https")
DEFAULT_PATH: Final = "/acp"

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS: Final = frozenset(
    [
        "host",
        "connection",
        "upgrade",
        "content-type",
        "content-length",
        "transfer-encoding",
        "accept",
        "cookie",
        "last-event-id",
        "acp-connection-id",
        "acp-session-id",
    ]
)
"""Headers that the transports set themselves."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """An address that was read and found good."""

    url: str = field(repr=False)
    """What is dialled: without a fragment, with whatever query it has."""
    shown: str
    """The same without its query, for messages."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Go with every request; the token is one of them."""
    tls: Tls | None = field(default=None, repr=False)
    cookies: "CookieJar" = field(default_factory=lambda: _empty_jar(), repr=False)
    """What the server set; shown to it again, on the next connection, too."""

    def __str__(self) -> str:
        return self.shown

    @property
    def websocket(self) -> bool:
        """Whether it is spoken to over a WebSocket, not over streamable HTTP."""
        return self.url.startswith("ws")

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.url.startswith(("wss:", "https:"))

    @property
    def host(self) -> str:
        """The name or number of the machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """As it stands there, or the scheme's own."""
        return urlsplit(self.url).port or (443 if self.secure else 80)

    @property
    def http_url(self) -> str:
        """The same address in the words of HTTP, which cookies know."""
        return "http" + self.url[2:] if self.websocket else self.url

    def tls_context(self) -> ssl.SSLContext:
        """Whom to trust. Raises UsageError for a file that holds no certificates."""
        if isinstance(self.tls, ssl.SSLContext):
            return self.tls
        try:
            return ssl.create_default_context(cafile=None if self.tls is None else os.fspath(self.tls))
        except (OSError, ssl.SSLError) as error:
            why = error.strerror if isinstance(error, FileNotFoundError) else "it holds no certificates"
            raise UsageError(f"tls {os.fspath(self.tls or '')!r} cannot be used: {why}") from None


def is_address(text: str) -> bool:
    """Whether this names a remote agent, not a program."""
    scheme, mark, _ = text.partition("://")
    return bool(mark) and scheme.lower() in SCHEMES


def read_address(
    text: str, *, token: str | None = None, headers: Mapping[str, str] | None = None, tls: Tls | None = None
) -> AgentAddress:
    """Read an address. A token that is given comes before one in the fragment (`#token=...`). Raises UsageError."""
    try:
        parts = urlsplit(text.strip())
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UsageError(f"the host or the port of this address is none: {_plain(text)!r}") from None
    if parts.scheme not in SCHEMES or not host:
        raise UsageError(
            f"this is no address of an agent: {_plain(text)!r}; write ws://HOST:PORT/acp or http://HOST:PORT/acp"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"the address of {host} has a name or password in it: give a token, or headers, instead"
        )
    if any(character <= " " or character == "\x7f" for character in text.strip()):
        raise UsageError(f"this is no address, it has blanks in it: {_plain(text)!r}")
    found = parse_qs(parts.fragment, keep_blank_values=True).get("token", [""])[0]
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    place = (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
    return AgentAddress(
        url=urlunsplit((parts.scheme, place, path, parts.query, "")),
        shown=urlunsplit((parts.scheme, place, path, "", "")),
        headers=tuple(_headers(token or found or None, headers or {})),
        tls=tls,
    )


def _empty_jar() -> "CookieJar":
    from http.cookiejar import CookieJar  # takes a while to load, and local agents need none

    return CookieJar()


def _headers(token: str | None, given: Mapping[str, str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OURS:
            raise UsageError(f"the header {name!r} cannot be set")
        if not _HEADER_VALUE.fullmatch(value):
            raise UsageError(f"the value of the header {name!r} has characters that no header can carry")
        if not (token and name.lower() == "authorization"):
            found.append((name, value))
    if token:
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UsageError("the token has blanks or other characters in it that no token has")
        found.append(("Authorization", f"Bearer {token}"))
    return found


def _plain(text: str) -> str:
    """What may be shown of an address that could not be read: nothing that could hold a secret."""
    return one_line(re.split(r"[?#]", re.sub(r"//[^/]*@", "//", text, count=1), maxsplit=1)[0])


# MERGED wire.remote.times: How long the network transports wait for what, in seconds, and how they pause between tries.


class NetworkTimeouts(Struct, frozen=True):
    """Patience with a server and the way to it."""

    connect: float = 20.0
    """Until a connection stands; also for each try to get one back."""
    leave: float = 2.0
    """For what is unsent, and for the server to say goodbye, when this side closes."""
    ping: float = 20.0
    """Silence after which a sign of life is asked for; after as much again, the server counts as gone."""
    silence: float = 60.0
    """Silence of an event stream, on which signs of life come by themselves, before it counts as gone."""
    back: float = 120.0
    """How long a connection that dropped is tried to be had back."""
    pause: float = 0.1
    """Before the second try; it doubles from then on."""
    longest_pause: float = 5.0

    def pause_before(self, number: int) -> float:
        """The pause before a try: none before the first, then longer and longer, never all at the same moment."""
        if number == 0:
            return 0.0
        longest = min(self.pause * 2.0 ** (number - 1), self.longest_pause)
        return longest * random.uniform(0.5, 1.0)


# MERGED wire.remote.dial: How a remote agent is reached, as often as it takes: the counterpart of the command that starts a local one.


@dataclass(frozen=True, slots=True)
class RemoteLauncher:
    """An address and the patience with it; every `start` is a connection of its own, with the cookies of those before."""

    address: AgentAddress
    times: NetworkTimeouts = field(default_factory=NetworkTimeouts)
    clock: Clock = SYSTEM_CLOCK

    def __str__(self) -> str:
        return self.address.shown

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> Transport:
        """Connect, in messages up to the limit. Raises MissingExtra, NeverStarted, UsageError."""
        require("remote", f"{self.address}: a remote agent")
        if self.address.websocket:
            from accord.wire.remote.websocket import open_websocket

            return await open_websocket(self.address, limit=limit, times=self.times, clock=self.clock)
        from accord.wire.remote.streamable_http import StreamableHttpTransport

        return StreamableHttpTransport(self.address, limit=limit, times=self.times, clock=self.clock)
