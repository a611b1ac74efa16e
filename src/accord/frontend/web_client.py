"""HTTP client of web tools and notifications: URL parsing, address checks, one request, redirects.

A host name is resolved once, all its addresses are checked, and the connection goes to a checked address. DNS
answers that change afterwards have no effect. Redirects are checked at every hop.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from accord.errors import AccordError, MissingExtra
from accord.wire.remote.network_errors import error_sentence

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, in the order to try them. Raises OSError."""

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_TUNNELS: Final = (
    ipaddress.IPv6Network("2002::/16"),
    ipaddress.IPv6Network("2001::/32"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, resolved by the system."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def forbidden_reason(text: str) -> str | None:
    """Why an address must not be contacted; None if it may."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "is not an IP address"
    if "%" in text:
        return "is a link-local address"
    return _forbidden_address_reason(address)


def _forbidden_address_reason(address: Address) -> str | None:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _forbidden_address_reason(inner)
        if any(address in tunnel for tunnel in _TUNNELS):
            return "is an address of an IPv6 tunnel"
        if address.is_site_local:
            return "is a private address"
    for applies, reason in (
        (address.is_unspecified, "is an unspecified address"),
        (address.is_loopback, "is this machine"),
        (address.is_link_local, "is a link-local address"),
        (address.is_multicast, "is a multicast address"),
        (address.is_private, "is a private address"),
        (address.is_reserved or not address.is_global, "is not a public internet address"),
    ):
        if applies:
            return reason
    return None


@dataclass(frozen=True, kw_only=True)
class WebAccess:
    """What may be reached. By default only the public internet."""

    allowed: tuple[str, ...] = ()
    """Hosts (`intranet.example`, with subdomains) and networks (`10.0.0.0/8`) that may be reached
    although they are not public."""
    resolve: Resolve = resolve
    tls: ssl.SSLContext | None = None
    """The trusted certificates; by default those of the system."""

    def forbidden_reason(self, host: str, address: str) -> str | None:
        """Why this address of a host must not be contacted; None if it may."""
        return None if self.is_listed(host, address) else forbidden_reason(address)

    def is_listed(self, host: str, address: str) -> bool:
        """Whether the settings allow this address of a host by name."""
        return any(_matches(entry, host, address) for entry in self.allowed)


def _matches(entry: str, host: str, address: str) -> bool:
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lower().rstrip(".")
        return host == name or host.endswith(f".{name}")
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[a-z0-9_.:-]+")
# All characters that are valid in a path or query; percent signs are part of escapes.
_SAFE_CHARACTERS: Final = "/%:@!$&'()*+,;=-._~?"


class BadUrl(AccordError):
    """An address that cannot be fetched; the message says why."""


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
        """Host and port, as in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, reference: str) -> "Url":
        """Resolve a link on this page."""
        return parse_url(urljoin(str(self), reference))


def parse_url(text: str) -> Url:
    """Parse an address. Raises BadUrl."""
    text = text.strip()
    if any(c.isspace() or not c.isprintable() for c in text):
        raise BadUrl(f"{text[:200]!r} is not a URL: it has white space or control characters")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").rstrip(".")
        host = host if ":" in host else host.encode("idna").decode()
    except ValueError:
        raise BadUrl(f"{text[:200]!r} is not a URL") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise BadUrl(f"{text[:200]!r} cannot be fetched: only http and https addresses can")
    if not host or not _HOST.fullmatch(host.lower()):
        raise BadUrl(f"{text[:200]!r} has no host")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("a URL with a user name or password is not fetched")
    target = quote(parts.path or "/", safe=_SAFE_CHARACTERS) + (
        f"?{quote(parts.query, safe=_SAFE_CHARACTERS)}" if parts.query else ""
    )
    return Url(scheme, host.lower(), _PORTS[scheme] if port is None else port, target)


_CHUNK: Final = 64 * 1024
_USER_AGENT: Final = "accord-agent"
_ACCEPT: Final = "text/html,application/xhtml+xml,text/plain,text/markdown,application/json,*/*;q=0.5"


class WebRefused(AccordError):
    """The page could not be fetched; the message says why."""


class ForbiddenHost(WebRefused):
    """The address of the host may not be contacted."""


@dataclass(frozen=True, slots=True)
class HttpResponseHead:
    """Status and headers of a response."""

    status: int
    headers: dict[str, str]
    """By lower-case name; of repeated headers the last."""

    @property
    def type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding in the content type."""
        for parameter in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'") or None
        return None


class WebExchange:
    """One request: `async with WebExchange(...) as exchange:`, then `send`, then `body`.

    The connection ends with the block. h11 does HTTP, asyncio does TLS and sockets.
    """

    def __init__(self, url: Url, addresses: Sequence[str], tls: ssl.SSLContext | None) -> None:
        """The addresses are tried in order until one accepts the connection."""
        try:
            import h11
        except ImportError:
            raise MissingExtra("agent", "web pages") from None

        self._h11 = h11
        self._url = url
        self._addresses = addresses
        self._tls = tls
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._head: HttpResponseHead

    async def __aenter__(self) -> "WebExchange":
        tls = None
        if self._url.scheme == "https":
            tls = self._tls or await asyncio.to_thread(ssl.create_default_context)
        failure = OSError("it has no address")
        for address in self._addresses:
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    address, self._url.port, ssl=tls, server_hostname=self._url.host if tls else None
                )
            except OSError as error:
                failure = error
            else:
                return self
        raise WebRefused(f"no connection to {self._url.authority}: {error_sentence(failure)}")

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()  # do not wait for the server to close
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    async def send(self, headers: Mapping[str, str] | None = None, data: bytes = b"") -> HttpResponseHead:
        """Send a GET, or a POST if there is data, and read the head of the response."""
        all_headers = {
            "Host": self._url.authority,
            "User-Agent": _USER_AGENT,
            "Accept": _ACCEPT,
            "Accept-Encoding": "gzip",
            "Connection": "close",
            **({"Content-Length": str(len(data))} if data else {}),
            **(headers or {}),
        }
        h11 = self._h11
        method = "POST" if data else "GET"
        request = h11.Request(method=method, target=self._url.target, headers=list(all_headers.items()))
        events = [request, *([h11.Data(data=data)] if data else []), h11.EndOfMessage()]
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                headers_by_name = {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers
                }
                self._head = HttpResponseHead(event.status_code, headers_by_name)
                return self._head
            if not isinstance(event, h11.InformationalResponse):
                raise WebRefused(f"{self._url.host} closed the connection without an answer")

    async def body(self, limit: int) -> tuple[bytes, bool]:
        """The first `limit` bytes of the decompressed body, and whether that is all of it."""
        body = bytearray()
        async for chunk in self._decompressed(limit + 1):
            body += chunk
            if len(body) > limit:
                return bytes(body[:limit]), False
        return bytes(body), True

    async def _decompressed(self, limit: int) -> AsyncGenerator[bytes]:
        encoding = self._head.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            async for chunk in self._chunks():
                yield chunk
            return
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise WebRefused(f"{self._url.host} answered in the unknown encoding {encoding!r}")
        # Decompress in bounded pieces: a few bytes may expand to gigabytes.
        decompressor = zlib.decompressobj(wbits=47)
        async for chunk in self._chunks():
            while chunk:
                try:
                    yield decompressor.decompress(chunk, limit)
                except zlib.error as error:
                    raise WebRefused(
                        f"{self._url.host} sent a body that cannot be unpacked: {error}"
                    ) from None
                chunk = decompressor.unconsumed_tail

    async def _chunks(self) -> AsyncGenerator[bytes]:
        while isinstance(event := await self._event(), self._h11.Data):
            yield bytes(event.data)

    async def _event(self) -> object:
        try:
            while (event := self._http.next_event()) is self._h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_CHUNK))
        except (self._h11.RemoteProtocolError, OSError) as error:
            raise WebRefused(f"{self._url.host} broke off its answer: {error}") from None
        return event


_REDIRECT_STATUSES: Final = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class WebPage:
    """A fetched page."""

    url: Url
    """The address after redirects."""
    head: HttpResponseHead
    data: bytes
    complete: bool
    """Whether the body is complete."""
    redirect: Url | None = None
    """Set if the page is a redirect to another host, which has to be permitted first."""


async def fetch(url: Url, access: WebAccess, *, limit: int, redirects: int) -> WebPage:
    """Fetch a page, at most its first `limit` bytes. Raises WebRefused, BadUrl.

    Redirects to the same host, or between a host and its `www.`, are followed. A redirect to another host is
    returned, because it needs its own permission.
    """
    for _ in range(redirects + 1):
        async with await _connect(url, access) as exchange:
            head = await exchange.send()
            location = head.headers.get("location")
            if head.status not in _REDIRECT_STATUSES or not location:
                data, complete = await exchange.body(limit)
                return WebPage(url, head, data, complete)
        target = url.join(location)
        if url.scheme == "https" and target.scheme == "http":
            raise WebRefused(f"{url} redirects to {target}, which is not encrypted")
        if _site(target) != _site(url):
            return WebPage(url, head, b"", True, redirect=target)
        url = target
    raise WebRefused(f"{url.host} redirects more than {redirects} times")


async def call_api(
    url: Url, access: WebAccess, headers: Mapping[str, str], data: bytes, *, limit: int
) -> WebPage:
    """Send one request with these headers; a POST if there is data. Raises WebRefused.

    A redirect is not followed, so that a key in the headers reaches no other host.
    """
    async with await _connect(url, access) as exchange:
        head = await exchange.send(headers, data)
        body, complete = await exchange.body(limit)
        return WebPage(url, head, body, complete)


def check_host(url: Url, access: WebAccess) -> None:
    """Raise WebRefused if the host is not allowed, as far as that is known without a lookup."""
    is_local = url.host == "localhost" or url.host.endswith(".localhost")
    try:
        address = str(ipaddress.ip_address("127.0.0.1" if is_local else url.host))
    except ValueError:
        return  # a name
    if reason := access.forbidden_reason(url.host, address):
        raise ForbiddenHost(f"{url.host} may not be fetched: it {reason}")


async def _connect(url: Url, access: WebAccess) -> WebExchange:
    try:
        addresses = await access.resolve(url.host, url.port)
    except OSError as error:
        raise WebRefused(f"{url.host} is not known: {error.strerror or error}") from None
    if not addresses:
        raise WebRefused(f"{url.host} has no address")
    for address in addresses:
        # If one address of a host is not public, none of them is contacted.
        if reason := access.forbidden_reason(url.host, address):
            raise ForbiddenHost(f"{url.host} may not be fetched: {address} {reason}")
    return WebExchange(url, addresses, access.tls)


def _site(url: Url) -> str:
    return url.host.removeprefix("www.")
