"""The address of a remote agent, time limits, and how to connect to it.

A token never stays in the address: it is taken from the fragment, sent in a header, and never shown.
"""

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


Tls: TypeAlias = ssl.SSLContext | str | os.PathLike[str]
"""The trusted certificates: a context, or a file in PEM format."""

SCHEMES: Final = ("ws", "wss", "http", "https")
DEFAULT_PATH: Final = "/acp"

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_RESERVED_HEADERS: Final = frozenset([
    "host", "connection", "upgrade", "content-type", "content-length", "transfer-encoding", "accept",
    "cookie", "last-event-id", "acp-connection-id", "acp-session-id",
])  # fmt: skip
"""Headers that the transports set; users cannot."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """A checked address."""

    url: str = field(repr=False)
    """The address to connect to: without a fragment, with its query."""
    shown: str
    """The address without its query, for messages."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Sent with every request; includes the token."""
    tls: Tls | None = field(default=None, repr=False)
    cookies: "CookieJar" = field(default_factory=lambda: _make_cookie_jar(), repr=False)
    """The cookies that the server set; sent again, also on the next connection."""

    def __str__(self) -> str:
        return self.shown

    @property
    def websocket(self) -> bool:
        """Whether to use a WebSocket; otherwise streamable HTTP."""
        return self.url.startswith("ws")

    @property
    def secure(self) -> bool:
        """Whether to use TLS."""
        return self.url.startswith(("wss:", "https:"))

    @property
    def host(self) -> str:
        """The host name or IP address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port of the address, or the default of its scheme."""
        return urlsplit(self.url).port or (443 if self.secure else 80)

    @property
    def http_url(self) -> str:
        """The address with an HTTP scheme, as the cookie jar needs it."""
        return "http" + self.url[2:] if self.websocket else self.url

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises UsageError for a file without certificates."""
        if isinstance(self.tls, ssl.SSLContext):
            return self.tls
        try:
            return ssl.create_default_context(cafile=None if self.tls is None else os.fspath(self.tls))
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror if isinstance(error, FileNotFoundError) else "it contains no certificates"
            raise UsageError(f"cannot use {os.fspath(self.tls or '')!r} for TLS: {reason}") from None


def is_address(text: str) -> bool:
    """Return whether this is the address of a remote agent, not a program."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def read_address(
    text: str, *, token: str | None = None, headers: Mapping[str, str] | None = None, tls: Tls | None = None
) -> AgentAddress:
    """Parse and check an address. `token` overrides one in the fragment (`#token=...`). Raises UsageError."""
    try:
        parts = urlsplit(text.strip())
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UsageError(f"the address {_without_secrets(text)!r} has an invalid host or port") from None
    if parts.scheme not in SCHEMES or not host:
        raise UsageError(
            f"{_without_secrets(text)!r} is not the address of an agent; "
            "write ws://HOST:PORT/acp or http://HOST:PORT/acp"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"the address of {host} contains a user name or password; give a token or headers instead"
        )
    if any(character <= " " or character == "\x7f" for character in text.strip()):
        raise UsageError(f"the address {_without_secrets(text)!r} contains spaces; remove them")
    token_in_fragment = parse_qs(parts.fragment, keep_blank_values=True).get("token", [""])[0]
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    netloc = (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
    return AgentAddress(
        url=urlunsplit((parts.scheme, netloc, path, parts.query, "")),
        shown=urlunsplit((parts.scheme, netloc, path, "", "")),
        headers=tuple(_make_headers(token or token_in_fragment or None, headers or {})),
        tls=tls,
    )


def _make_cookie_jar() -> "CookieJar":
    from http.cookiejar import CookieJar  # slow to import, and local agents do not need it

    return CookieJar()


def _make_headers(token: str | None, headers: Mapping[str, str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise UsageError(f"the header {name!r} cannot be set; use another name")
        if not _HEADER_VALUE.fullmatch(value):
            raise UsageError(
                f"the value of the header {name!r} contains characters that headers do not allow"
            )
        if not (token and name.lower() == "authorization"):
            pairs.append((name, value))
    if token:
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UsageError("the token contains spaces or other characters that tokens do not allow")
        pairs.append(("Authorization", f"Bearer {token}"))
    return pairs


def _without_secrets(text: str) -> str:
    """Return the part of an unreadable address that cannot contain a secret."""
    return one_line(re.split(r"[?#]", re.sub(r"//[^/]*@", "//", text, count=1), maxsplit=1)[0])


class NetworkTimeouts(Struct, frozen=True):
    """How long the network transports wait, in seconds."""

    connect: float = 20.0
    """For a connection; also for each attempt to reconnect."""
    close: float = 2.0
    """For unsent messages and for the server's close, when this side closes."""
    ping: float = 20.0
    """Silence before a ping is sent; after the same time again, the connection counts as lost."""
    silence: float = 60.0
    """Silence before an event stream with keep-alive comments counts as lost."""
    resume: float = 120.0
    """How long to try to resume a dropped connection."""
    retry_pause: float = 0.1
    """Before the second attempt; it doubles for each further one."""
    max_retry_pause: float = 5.0

    def pause_before(self, number: int) -> float:
        """Return the pause before an attempt: none before the first, then doubling with random jitter."""
        if number == 0:
            return 0.0
        max_pause = min(self.retry_pause * 2.0 ** (number - 1), self.max_retry_pause)
        return max_pause * random.uniform(0.5, 1.0)


LinkObserver: TypeAlias = Callable[[str], None]
"""Called with the reason when a dropped connection cannot be resumed at once, and with "" when it is resumed.

Not called at the end of the connection.
"""


@dataclass(frozen=True, slots=True)
class RemoteLauncher:
    """Connects to a remote agent: the counterpart of the command that starts a local one.

    Every `start` opens a new connection, with the cookies of earlier ones.
    """

    address: AgentAddress
    timeouts: NetworkTimeouts = field(default_factory=NetworkTimeouts)
    clock: Clock = SYSTEM_CLOCK
    on_link: LinkObserver | None = None

    def __str__(self) -> str:
        return self.address.shown

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> Transport:
        """Connect; `limit` is the longest accepted message. Raises MissingExtra, NeverStarted, UsageError."""
        require("remote", f"{self.address}: a remote agent")
        if self.address.websocket:
            from accord.wire.remote.websocket import open_websocket

            return await open_websocket(
                self.address,
                limit=limit,
                timeouts=self.timeouts,
                clock=self.clock,
                on_link=self.on_link,
            )
        from accord.wire.remote.streamable_http import StreamableHttpTransport

        return StreamableHttpTransport(
            self.address, limit=limit, timeouts=self.timeouts, clock=self.clock, on_link=self.on_link
        )
