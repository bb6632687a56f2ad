"""The rate limit: exact in the long run, and about addresses only."""

import pytest

from fedboard.server.publishing import limits as module
from fedboard.server.publishing.limits import Held, Limits, RateLimit, network_of


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def admitted(limit, clock, *, seconds, per_second, peer="10.0.0.1"):
    taken = 0
    for _ in range(int(seconds * per_second)):
        clock.now += 1.0 / per_second
        taken += limit.wait(peer) == 0
    return taken


def test_all_addresses_together_get_the_rate_of_all():
    clock = Clock()
    limit = RateLimit(Limits(requests_per_second=100, requests_per_second_per_address=1000), clock=clock)

    taken = sum(admitted(limit, clock, seconds=1, per_second=500, peer=f"10.0.0.{n}") for n in range(20))

    assert 2000 <= taken <= 2000 + 100 + 1


def test_addresses_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ADDRESSES", 3)
    limit = RateLimit(Limits(requests_per_second=1e6, requests_per_second_per_address=1), clock=Clock())
    for n in range(10):
        limit.wait(f"10.0.0.{n}")

    assert len(limit._addresses) == 3


def test_an_address_that_holds_nothing_is_forgotten():
    held = Held(5)
    for n in range(100):
        held.take(f"10.0.0.{n}")
        held.give_back(f"10.0.0.{n}")

    assert not held._held


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("ipv4:203.0.113.7:50123", "203.0.113.7"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:50123", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:203.0.113.7%5D:1", "203.0.113.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80::/64"),
        ("unix:/tmp/socket", "unix"),
        ("", ""),
    ],
)
def test_an_address_is_what_grpc_says_and_of_ipv6_its_network(peer, network):
    assert network_of(peer) == network


def test_one_address_gets_its_rate_and_no_more():
    clock = Clock()
    limit = RateLimit(Limits(requests_per_second_per_address=10), clock=clock)

    taken = admitted(limit, clock, seconds=100, per_second=1000)

    assert 1000 <= taken <= 1000 + 2 * 10 + 1
