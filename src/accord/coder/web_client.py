"""HTTP client of `web_fetch`: URL parsing, address checks, one GET, redirects."""

import asyncio
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from accord.errors import AccordError, MissingExtra

# MERGED coder.web.addresses: Which addresses may be asked: those of the public internet, and what the user allowed on top.
#
# A name is resolved once, every address it has is checked, and the connection goes to an address that was checked: what a
# name says a moment later does not matter.

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, in the order in which they are to be tried. Raises OSError."""

_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
_TUNNELS: Final = (
    ipaddress.IPv6Network("2002::/16"),
    ipaddress.IPv6Network("2001::/32"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that this machine knows for a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def objection(text: str) -> str | None:
    """Why an address may not be asked; None if it may."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "is no address"
    if "%" in text:
        return "is an address of this link only"
    return _objection(address)


def _objection(address: Address) -> str | None:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _objection(inner)
        if any(address in tunnel for tunnel in _TUNNELS):
            return "is an address that leads on to another one"
        if address.is_site_local:
            return "is a private address"
    for wrong, what in (
        (address.is_unspecified, "is no address of anybody"),
        (address.is_loopback, "is this machine itself"),
        (address.is_link_local, "is an address of this link only"),
        (address.is_multicast, "is an address of many"),
        (address.is_private, "is a private address"),
        (address.is_reserved or not address.is_global, "is no address of the public internet"),
    ):
        if wrong:
            return what
    return None


# MERGED coder.web.access: What of the web may be reached from here: the user's exceptions, and how names and certificates are looked up.


@dataclass(frozen=True, kw_only=True)
class WebAccess:
    """Without anything given, the public internet and nothing else."""

    allowed: tuple[str, ...] = ()
    """Hosts (`intranet.example`, with all below them) and networks (`10.0.0.0/8`) that may be asked although they are not
    public."""
    resolve: Resolve = resolve
    tls: ssl.SSLContext | None = None
    """Whom to believe; by default those that this machine believes."""

    def objection(self, host: str, address: str) -> str | None:
        """Why this address, which a host has, may not be asked; None if it may."""
        if any(_covers(entry, host, address) for entry in self.allowed):
            return None
        return objection(address)


def _covers(entry: str, host: str, address: str) -> bool:
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lower().rstrip(".")
        return host == name or host.endswith(f".{name}")
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


# MERGED coder.web.url: Addresses of pages, taken apart and made safe to send.

_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[a-z0-9_.:-]+")
# Everything that may stand in a path or query; a percent sign is one of an escape already.
_KEPT: Final = "/%:@!$&'()*+,;=-._~?"


class BadUrl(AccordError):
    """No address that can be fetched; says why."""


@dataclass(frozen=True, slots=True)
class Url:
    """An http or https address."""

    scheme: str
    host: str
    """Lower case, in ASCII; an IPv6 address without its brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """Host and port, as the request names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, reference: str) -> "Url":
        """Where a link on this page leads."""
        return parse_url(urljoin(str(self), reference))


def parse_url(text: str) -> Url:
    """The address that is meant. Raises BadUrl."""
    text = text.strip()
    if any(c.isspace() or not c.isprintable() for c in text):
        raise BadUrl(f"{text[:200]!r} is no address: it has blanks or control characters in it")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").rstrip(".")
        host = host if ":" in host else host.encode("idna").decode()
    except ValueError:
        raise BadUrl(f"{text[:200]!r} is no address") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise BadUrl(f"{text[:200]!r} cannot be fetched: only http and https addresses can")
    if not host or not _HOST.fullmatch(host.lower()):
        raise BadUrl(f"{text[:200]!r} names no host")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("an address with a user name or password in it is not fetched")
    target = quote(parts.path or "/", safe=_KEPT) + (
        f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    )
    return Url(scheme, host.lower(), _PORTS[scheme] if port is None else port, target)


# MERGED coder.web.exchange: One GET over one connection to an address that was checked before. HTTP by h11, TLS and sockets by asyncio.

_CHUNK: Final = 64 * 1024
_AGENT: Final = "accord-agent"
_WANTED: Final = "text/html,application/xhtml+xml,text/plain,text/markdown,application/json,*/*;q=0.5"


class WebRefused(AccordError):
    """The page could not be had; one line says why."""


@dataclass(frozen=True, slots=True)
class HttpResponseHead:
    """The head of an answer; its body is still to be read."""

    status: int
    headers: dict[str, str]
    """By lower-case name; the last of several."""

    @property
    def type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding that the server names."""
        for parameter in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'") or None
        return None


class HttpGet:
    """`async with Exchange(...) as exchange:`, then `ask`, then `body`. The end of the block closes the connection."""

    def __init__(self, url: Url, addresses: Sequence[str], tls: ssl.SSLContext | None) -> None:
        """The addresses are tried in order until one takes the connection."""
        try:
            import h11
        except ImportError:
            raise MissingExtra("agent", "web_fetch") from None

        self._h11 = h11
        self._url = url
        self._addresses = addresses
        self._tls = tls
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._answer: HttpResponseHead

    async def __aenter__(self) -> "HttpGet":
        tls = None
        if self._url.scheme == "https":
            tls = self._tls or await asyncio.to_thread(ssl.create_default_context)
        failure: OSError | None = None
        for address in self._addresses:
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    address, self._url.port, ssl=tls, server_hostname=self._url.host if tls else None
                )
            except OSError as error:
                failure = error
            else:
                return self
        raise WebRefused(f"no connection to {self._url.authority}: {failure}")

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()  # nothing is left to say, and a server may be slow to hear it
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    async def ask(self) -> HttpResponseHead:
        """Send the request and read the head of the answer."""
        headers = [
            ("Host", self._url.authority),
            ("User-Agent", _AGENT),
            ("Accept", _WANTED),
            ("Accept-Encoding", "gzip"),
            ("Connection", "close"),
        ]
        h11 = self._h11
        request = h11.Request(method="GET", target=self._url.target, headers=headers)
        self._writer.write(
            (self._machine.send(request) or b"") + (self._machine.send(h11.EndOfMessage()) or b"")
        )
        await self._writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                found = {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers
                }
                self._answer = HttpResponseHead(event.status_code, found)
                return self._answer
            if not isinstance(event, h11.InformationalResponse):
                raise WebRefused(f"{self._url.host} closed the connection without an answer")

    async def body(self, most: int) -> tuple[bytes, bool]:
        """The body, unpacked, up to so many bytes; and whether that is all of it."""
        kept = bytearray()
        async for piece in self._unpacked(most + 1):
            kept += piece
            if len(kept) > most:
                return bytes(kept[:most]), False
        return bytes(kept), True

    async def _unpacked(self, most: int) -> AsyncGenerator[bytes]:
        packing = self._answer.headers.get("content-encoding", "identity").strip().lower()
        if packing in ("", "identity"):
            async for piece in self._pieces():
                yield piece
            return
        if packing not in ("gzip", "x-gzip", "deflate"):
            raise WebRefused(f"{self._url.host} answered in the unknown encoding {packing!r}")
        # Never more than was asked for at once: a few packed bytes may stand for gigabytes.
        unpacker = zlib.decompressobj(wbits=47)
        async for piece in self._pieces():
            while piece:
                try:
                    yield unpacker.decompress(piece, most)
                except zlib.error as error:
                    raise WebRefused(
                        f"{self._url.host} sent a body that cannot be unpacked: {error}"
                    ) from None
                piece = unpacker.unconsumed_tail

    async def _pieces(self) -> AsyncGenerator[bytes]:
        while isinstance(event := await self._event(), self._h11.Data):
            yield bytes(event.data)

    async def _event(self) -> object:
        try:
            while (event := self._machine.next_event()) is self._h11.NEED_DATA:
                self._machine.receive_data(await self._reader.read(_CHUNK))
        except (self._h11.RemoteProtocolError, OSError) as error:
            raise WebRefused(f"{self._url.host} broke off its answer: {error}") from None
        return event


# MERGED coder.web.fetch: Fetching a page: names looked up once, addresses checked at every hop, redirects followed as far as they may be.

_MOVED: Final = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class WebPage:
    """What was fetched."""

    url: Url
    """Where it was in the end."""
    answer: HttpResponseHead
    data: bytes
    complete: bool
    """Whether these are all its bytes."""
    leads_to: Url | None = None
    """It is only a redirect, to a host that nobody has agreed to."""


async def fetch(url: Url, access: WebAccess, *, most: int, redirects: int) -> WebPage:
    """The page, and of a larger one the first `most` bytes. Raises WebRefused, BadUrl.

    A redirect is followed on the same host, and between a host and its `www.`; one to another host is handed back,
    because whether that may be asked is to be judged first.
    """
    for _ in range(redirects + 1):
        async with await _connect(url, access) as exchange:
            answer = await exchange.ask()
            location = answer.headers.get("location")
            if answer.status not in _MOVED or not location:
                data, complete = await exchange.body(most)
                return WebPage(url, answer, data, complete)
        following = url.join(location)
        if url.scheme == "https" and following.scheme == "http":
            raise WebRefused(f"{url} redirects to {following}, which is not encrypted any more")
        if _site(following) != _site(url):
            return WebPage(url, answer, b"", True, leads_to=following)
        url = following
    raise WebRefused(f"{url.host} redirects more than {redirects} times")


async def _connect(url: Url, access: WebAccess) -> HttpGet:
    try:
        addresses = await access.resolve(url.host, url.port)
    except OSError as error:
        raise WebRefused(f"{url.host} is not known: {error.strerror or error}") from None
    if not addresses:
        raise WebRefused(f"{url.host} has no address")
    for address in addresses:
        # One that is not public makes the name suspect: then none of the others is asked either.
        if objection := access.objection(url.host, address):
            raise WebRefused(f"{url.host} may not be asked: {address} {objection}")
    return HttpGet(url, addresses, access.tls)


def _site(url: Url) -> str:
    return url.host.removeprefix("www.")
