"""Limits of the board service: how often it may be asked, by all together and from one address."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_ADDRESSES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one service takes on."""

    requests_per_second: float = 5_000.0
    """Of all readers together, with bursts of one second's worth."""
    requests_per_second_per_address: float = 50.0
    """From one IPv4 address or IPv6 /64 network, with bursts of two seconds' worth; 0: no limit, for a service
    behind a proxy, where all readers have one address."""
    streams: int = 1_000
    """Downloads under way."""
    watchers: int = 10_000
    """Readers who wait for new boards."""
    stream_seconds: float = 900.0
    """A download that takes longer is cut; the reader resumes it."""


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

    def wait(self, peer: str) -> float:
        """Seconds after which to come back; 0: go ahead.

        Args:
            peer: as gRPC names it (``ipv4:127.0.0.1:5000``).
        """
        now = self._clock()
        if self._per_address > 0:
            wait = self._bucket(network_of(peer), now).wait(now)
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
    """The address behind a peer's name without its port; of IPv6 the first 64 bits."""
    address = peer.partition(":")[2].replace("%5B", "[").replace("%5D", "]").rpartition(":")[0].strip("[]")
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "other"
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)


__all__ = ["Bucket", "Limits", "RateLimit", "network_of"]
