"""Limits of the service that boards are read from: how much it takes on, for all together and for one address.

gRPC tells the address of each call and no more: how many connections one address may open is for the firewall, or
the proxy, before the port.
"""

import ipaddress
import math
import time
import urllib.parse
from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

_MOST_ADDRESSES = 50_000
_MORE_CALLS_OF_ONE = 64
_IPV6_NETWORK_BITS = 64


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one service takes on. An address is an IPv4 address or an IPv6 /64 network; limits of one address that
    are 0 do not hold, for a service behind a proxy, where all readers have one address.
    """

    requests_per_second: float = 5_000.0
    """Of all readers together, with bursts of one second's worth; > 0."""
    requests_per_second_per_address: float = 50.0
    """From one address, with bursts of two seconds' worth; >= 0."""
    streams: int = 1_000
    """Downloads under way; >= 0."""
    streams_per_address: int = 100
    """Of them, to one address; >= 0."""
    watchers: int = 10_000
    """Readers who wait for new boards, and witnesses; >= 0."""
    watchers_per_address: int = 1_000
    """Of them, at one address; >= 0."""
    stream_seconds: float = 900.0
    """A download that takes longer is cut; the reader resumes it. > 0."""
    least_bytes_per_second: float = 16_384.0
    """A download that is slower over a chunk of 1 MB is cut, after 10 s at least; the reader resumes it. 0: none is
    too slow."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: names the field.
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            positive = name in ("requests_per_second", "stream_seconds")
            if not 0 <= value < math.inf or (positive and not value):
                raise ValueError(f"{name} must be {'> 0' if positive else '>= 0'}, got {value}")

    @property
    def calls_per_address(self) -> int:
        """Calls of any kind under way from one address, also those whose answer is not taken; 0: any number."""
        if not self.streams_per_address or not self.watchers_per_address:
            return 0
        return self.streams_per_address + self.watchers_per_address + _MORE_CALLS_OF_ONE


class Held:
    """How many of something each address holds."""

    def __init__(self, most: int) -> None:
        """Count from nothing.

        Args:
            most: of one address; 0: any number.
        """
        self._most = most
        self._held: Counter[str] = Counter()

    def take(self, network: str) -> bool:
        """One more, if it may be."""
        if self._most and self._held[network] >= self._most:
            return False
        self._held[network] += 1
        return True

    def give_back(self, network: str) -> None:
        """One less."""
        self._held[network] -= 1
        if self._held[network] <= 0:
            del self._held[network]


class Bucket:
    """A token bucket: ``rate`` tokens a second, never more than ``burst``."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst, self._tokens, self._at = rate, burst, burst, now

    def wait(self, now: float) -> float:
        """Take a token: 0; or leave it, and say in how many seconds there will be one."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._rate
        self._tokens -= 1.0
        return 0.0


class RateLimit:
    """Buckets for all and for each address; addresses are held in memory alone and forgotten, oldest first."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        rate = limits.requests_per_second
        self._all = Bucket(rate, max(rate, 1.0), clock())
        self._per_address = limits.requests_per_second_per_address
        self._addresses: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, network: str) -> float:
        """Seconds after which to come back; 0: go ahead.

        Args:
            network: the address that asks.
        """
        now = self._clock()
        if self._per_address > 0:
            wait = self._bucket(network, now).wait(now)
            if wait > 0:
                return wait
        return self._all.wait(now)

    def _bucket(self, network: str, now: float) -> Bucket:
        bucket = self._addresses.pop(network, None)
        if bucket is None:
            bucket = Bucket(self._per_address, max(2 * self._per_address, 1.0), now)
        self._addresses[network] = bucket
        if len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        return bucket


def network_of(peer: str) -> str:
    """The address of a caller, of IPv6 its /64 network.

    Args:
        peer: as gRPC names it, such as ``ipv4:203.0.113.7:50123`` or ``ipv6:%5B2001:db8::1%5D:50123``.
    """
    host = urllib.parse.unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return peer.partition(":")[0]
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        if mapped is None:
            return str(ipaddress.ip_network((int(address), _IPV6_NETWORK_BITS), strict=False))
        return str(mapped)
    return str(address)
