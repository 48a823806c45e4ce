"""Rate limit of attempts with invalid keys, per address."""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from manylabel_service.access.rates import TokenBucket

AT_ONCE = 100
PER_SECOND = 10.0
"""Wrong keys of one address that are checked: the burst, and the number per second after it."""
MAX_ADDRESSES = 10_000
"""Addresses remembered, those that tried last."""


class FailedAttempts:
    """Failed attempts by their source: an address, or the /64 network of an IPv6 address.

    Parameters
    ----------
    at_once : that one address may make before it must wait.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def count(self, address: str) -> float:
        """Count an attempt that failed; return 0, or, where there are too many, the seconds until there are not."""
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
