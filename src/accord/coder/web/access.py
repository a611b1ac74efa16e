"""What of the web may be reached from here: the user's exceptions, and how names and certificates are looked up."""

import ipaddress
import ssl
from dataclasses import dataclass

from accord.coder.web.addresses import Resolve, objection, resolve


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
