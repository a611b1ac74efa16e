"""Addresses of pages, taken apart and made safe to send."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from accord.errors import AccordError

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
