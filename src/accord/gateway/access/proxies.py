"""Reverse proxies that we were told of: what they say of a request is believed, what anybody else says is not."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from accord.errors import UsageError

Headers = Mapping[str, Sequence[str]]


class Proxies:
    """Known by address, or by network. Raises UsageError for what is neither."""

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        try:
            self._networks = [ip_network(text.strip()) for text in addresses]
        except ValueError as error:
            raise UsageError(f"--proxy: {error}: write it as 127.0.0.1 or 172.17.0.0/16") from None

    def peer(self, peer: str, headers: Headers) -> str:
        """Whose request it is: the last one that our own proxy names, which is the one it saw itself."""
        if not self._knows(peer):
            return peer
        told = ",".join(headers.get("x-forwarded-for", ())).rpartition(",")[2].strip()
        try:
            return str(ip_address(told.strip("[]")))
        except ValueError:
            return peer

    def tells_of_tls(self, peer: str, headers: Headers) -> bool:
        """Whether the browser spoke TLS to the proxy."""
        told = headers.get("x-forwarded-proto", ())
        return len(told) == 1 and told[0].strip().lower() == "https" and self._knows(peer)

    def _knows(self, peer: str) -> bool:
        if not self._networks:
            return False
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self._networks)
