"""Rate limit of attempts with invalid keys, per address."""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from manylabel_service.access.rates import TokenBucket

AT_ONCE = 100
PER_SECOND = 10.0
"""Number of wrong keys of one address that are checked per second, after a burst."""
MAX_ADDRESSES = 10_000
"""Maximum number of remembered addresses, the latest."""


class FailedAttempts:
    """Failed attempts by their source: an address, or the /64 network of an IPv6 address."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def count(self, address: str) -> float:
        """Count a failed attempt; return 0, or the seconds to wait if there are too many."""
        place = _network(address)
        bucket = self._buckets.get(place)
        if bucket is None:
            bucket = self._buckets[place] = TokenBucket(PER_SECOND, self._at_once)
            if len(self._buckets) > MAX_ADDRESSES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(place)
        return bucket.take(1)


def _network(address: str) -> str:
    try:
        is_long = isinstance(ip_address(address), IPv6Address)
    except ValueError:
        return address
    return str(ip_network((address, 64), strict=False)) if is_long else address
