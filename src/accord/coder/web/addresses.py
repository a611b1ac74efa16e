"""Which addresses may be asked: those of the public internet, and what the user allowed on top.

A name is resolved once, every address it has is checked, and the connection goes to an address that was checked: what a
name says a moment later does not matter.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias

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
