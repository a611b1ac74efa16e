"""Where the gateway listens, whether that is safe, and the address that a link begins with."""

import socket
from ipaddress import ip_address

from accord.cli.serving.settings import Settings
from accord.errors import UsageError
from accord.gateway.access.origins import is_loopback


def listening_on(host: str) -> tuple[str, ...]:
    """The addresses that a host stands for. Raises UsageError."""
    name = host.strip().strip("[]")
    try:
        found = socket.getaddrinfo(name or "-", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"--host {host!r} is neither an address of this machine nor a name of one") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def insist_on_safety(settings: Settings, addresses: tuple[str, ...]) -> None:
    """Refuse an address that others reach without TLS, unless told otherwise. Raises UsageError."""
    if settings.insecure or settings.tls_cert is not None or all(map(is_loopback, addresses)):
        return
    raise UsageError(
        f"--host {settings.host} can be reached by others, and nothing would be encrypted: pass --tls-cert F --tls-key F, "
        "or keep to loopback behind a reverse proxy (docs/gateway.md), or pass --insecure in a network that you trust"
    )


def public_url(settings: Settings, addresses: tuple[str, ...], port: int) -> str:
    """How a browser gets here, as far as we can know."""
    tls = settings.tls_cert is not None
    outside = not all(map(is_loopback, addresses))
    if settings.host_names:
        name = settings.host_names[0]
        if not tls and not outside:
            return f"https://{name}"  # a proxy stands before us
        return url_of(tls, name, port)
    return url_of(tls, _reachable(addresses[0]), port)


def url_of(tls: bool, name: str, port: int) -> str:
    """The address of a host and a port."""
    usual = 443 if tls else 80
    host = f"[{name}]" if ":" in name else name
    return f"{'https' if tls else 'http'}://{host}" + ("" if port == usual else f":{port}")


def _reachable(address: str) -> str:
    """The address itself; where it stands for all of them, the one that other machines would see."""
    parsed = ip_address(address.partition("%")[0])
    if not parsed.is_unspecified:
        return address
    # Connecting a datagram socket sends nothing: it makes the system choose the address it would send from.
    family, elsewhere = (
        (socket.AF_INET, "192.0.2.1") if parsed.version == 4 else (socket.AF_INET6, "2001:db8::1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1" if parsed.version == 4 else "::1"
