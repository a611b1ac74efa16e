"""Failed attempts, counted per address: a few are free, then they are slowed down. Who has a right token never waits."""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final

from accord.clock import Clock
from accord.gateway.access.bucket import Bucket

FREE: Final = 20
"""So many failures at once are answered with the reason."""
PER_SECOND: Final = 0.2
_REMEMBERED: Final = 4096


class Throttle:
    """The failures of each address. It remembers so many addresses at most; the one heard of longest ago goes first."""

    def __init__(self, clock: Clock, *, free: int = FREE, per_second: float = PER_SECOND) -> None:
        self._clock = clock
        self._free = free
        self._per_second = per_second
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def failed(self, peer: str) -> int:
        """Count a failure; the result is how many seconds to stay away, 0 for one of the free ones."""
        key = _key(peer)
        bucket = self._buckets.pop(key, None) or Bucket(self._clock, self._per_second, self._free)
        self._buckets[key] = bucket
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return ceil(bucket.take(1))


def _key(peer: str) -> str:
    """An IPv6 host has a whole network of addresses to try from; they count as one."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))
