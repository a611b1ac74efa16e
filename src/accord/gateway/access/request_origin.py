"""Allowed hosts, origins and reverse proxies; the refusal with its HTTP status.

`Host` names the host that a browser asked for. A foreign name there means DNS rebinding: a page made its
own name resolve to this machine. A foreign `Origin` means a page of another site. Both are refused on
loopback as well, because every page in the user's browser can reach it.
"""

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from types import MappingProxyType
from typing import Final

from accord.errors import AccordError, UsageError

Headers = Mapping[str, Sequence[str]]
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_AUTHORITY: Final = re.compile(
    r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9](?:[a-z0-9._-]{0,252})))(?::([0-9]{1,5}))?"
)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,63}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Proxies:
    """Trusted reverse proxies, by address or network. Only their forwarding headers are used.

    Raises UsageError for an invalid address.
    """

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        try:
            self._networks = [ip_network(text.strip()) for text in addresses]
        except ValueError as error:
            raise UsageError(f"invalid --proxy: {error}; write it as 127.0.0.1 or 172.17.0.0/16") from None

    def peer(self, peer: str, headers: Headers) -> str:
        """Return the client's address: the last one that a trusted proxy names, which it saw itself."""
        if not self.is_trusted(peer):
            return peer
        value = ",".join(headers.get("x-forwarded-for", ())).rpartition(",")[2].strip()
        try:
            return str(ip_address(value.strip("[]")))
        except ValueError:
            return peer

    def reports_tls(self, peer: str, headers: Headers) -> bool:
        """Whether the browser used TLS to the proxy."""
        value = headers.get("x-forwarded-proto", ())
        return len(value) == 1 and value[0].strip().lower() == "https" and self.is_trusted(peer)

    def is_trusted(self, peer: str) -> bool:
        """Whether this is the address of a trusted proxy."""
        if not self._networks:
            return False
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self._networks)


class RequestRefused(AccordError):
    """A request was refused. The reason says what is wrong and what to do, and never repeats a secret."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        super().__init__(reason)
        self.status: int = status
        self.reason: str = reason
        self.headers: dict[str, str] = dict(headers)


def split_authority(text: str) -> tuple[str, int | None] | None:
    """Return the name in lower case, without brackets or a final dot, and the port; None if invalid."""
    match = _AUTHORITY.fullmatch(text.lower())
    if match is None:
        return None
    port = int(match[3]) if match[3] else None
    if port is not None and not 0 < port < 65536:
        return None
    return (match[1] or match[2]).removesuffix("."), port


def split_origin(text: str) -> tuple[str, str, int] | None:
    """Return scheme, name and port of an origin; None if invalid or `null`.

    Apps have schemes of their own and no port.
    """
    scheme, separator, authority = text.lower().partition("://")
    parts = split_authority(authority) if separator and _SCHEME.fullmatch(scheme) else None
    return None if parts is None else (scheme, parts[0], parts[1] or _DEFAULT_PORTS.get(scheme, 0))


def is_loopback(name: str) -> bool:
    """Whether an address or a name stays on this machine."""
    return name in LOOPBACK or (_is_address(name) and ip_address(name).is_loopback)


def machine_address(version: int = 4) -> str:
    """Return the address by which other machines reach this one; a loopback address without a network."""
    # Connecting a datagram socket sends nothing, but makes the system choose the source address.
    family, target = (socket.AF_INET, "192.0.2.1") if version == 4 else (socket.AF_INET6, "2001:db8::1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1" if version == 4 else "::1"


class Origins:
    """The host names that are served, and the origins whose pages may send requests.

    Raises UsageError for an invalid one.
    """

    def __init__(self, host: str, *, names: Iterable[str] = (), allowed: Iterable[str] = ()) -> None:
        self._host = host.lower().strip("[]")
        self._all_addresses = _is_address(self._host) and ip_address(self._host).is_unspecified
        self._names: set[str] = set()
        for name in names:
            parts = split_authority(name)
            if parts is None or "://" in name:
                raise UsageError(f"invalid --host-name {name!r}; write it as example.org")
            self._names.add(parts[0])
        self._allowed: set[tuple[str, str, int]] = set()
        for origin in allowed:
            parsed = split_origin(origin.rstrip("/"))
            if parsed is None:
                raise UsageError(f"invalid --allow-origin {origin!r}; write it as https://example.org")
            self._allowed.add(parsed)

    def serves(self, name: str) -> bool:
        """Whether a request for this host name is for this gateway.

        When listening on all addresses, every address is accepted: unlike a name, an address cannot be made
        to resolve elsewhere.
        """
        if name in LOOPBACK or name in self._names or (name == self._host and not self._all_addresses):
            return True
        return self._all_addresses and _is_address(name) and not ip_address(name).is_unspecified

    def authority(self, hosts: Iterable[str]) -> tuple[str, int | None]:
        """Return the host name and port of a request. Raises RequestRefused."""
        values = list(hosts)
        parts = split_authority(values[0]) if len(values) == 1 else None
        if parts is None:
            raise RequestRefused(400, "Exactly one Host header with a name or an address is required.")
        if not self.serves(parts[0]):
            raise RequestRefused(
                421,
                "The gateway does not serve this host name; start `accord serve` with --host-name to add it.",
            )
        return parts

    def is_own(self, origin: str, authority: tuple[str, int | None], scheme: str) -> bool:
        """Whether the origin is the one that the request was sent to.

        For a name of `--host-name`, https is accepted too: TLS may end at a proxy.
        """
        parsed = split_origin(origin)
        if parsed is None:
            return False
        name, port = authority
        schemes = {scheme, "https"} if name in self._names else {scheme}
        return any(
            parsed == (allowed_scheme, name, port or _DEFAULT_PORTS[allowed_scheme])
            for allowed_scheme in schemes
        )

    def is_allowed(self, origin: str) -> bool:
        """Whether it is one of `--allow-origin`."""
        return split_origin(origin) in self._allowed


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
