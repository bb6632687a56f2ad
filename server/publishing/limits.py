"""Limits of the service that boards are read from: how much it takes on, for all together and for one address.

gRPC tells the address of each call and no more: how many connections one address may open is for the firewall, or
the proxy, before the port.
"""

import ipaddress
import time
import urllib.parse
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_ADDRESSES = 50_000
_MORE_CALLS_OF_ONE = 64
_IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one service takes on. An address is an IPv4 address or an IPv6 /64 network."""

    requests_per_second: float = 5_000.0
    """Of all readers together, with bursts of one second's worth."""
    requests_per_second_per_address: float = 50.0
    """From one address, with bursts of two seconds' worth."""
    streams: int = 1_000
    """Downloads under way."""
    streams_per_address: int = 100
    """Of them, to one address."""
    watchers: int = 10_000
    """Readers who wait for new boards, and witnesses."""
    watchers_per_address: int = 1_000
    """Of them, at one address."""
    stream_seconds: float = 900.0
    """A download that takes longer is cut; the reader resumes it."""
    least_bytes_per_second: float = 16_384.0
    """A download that is slower over a chunk of 1 MB is cut, after 10 s at least; the reader resumes it."""

    @property
    def calls_per_address(self) -> int:
        """Calls of any kind under way from one address, also those whose answer is not taken."""
        return self.streams_per_address + self.watchers_per_address + _MORE_CALLS_OF_ONE


class Held:
    """How many of something each address holds."""

    def __init__(self, most: int) -> None:
        """Count from nothing.

        Args:
            most: of one address.
        """
        self._most = most
        self._held: Counter[str] = Counter()

    def take(self, network: str) -> bool:
        """One more, if it may be."""
        if self._held[network] >= self._most:
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
        return self._bucket(network, now).wait(now) or self._all.wait(now)

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
