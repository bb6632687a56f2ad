"""The rate limit: exact in the long run, and about addresses only."""

import pytest

from fedboard.server.board_service import limits as module
from fedboard.server.board_service.limits import Limits, RateLimit, network_of


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def admitted(limit, clock, *, seconds, per_second, peer="ipv4:10.0.0.1:5"):
    taken = 0
    for _ in range(int(seconds * per_second)):
        clock.now += 1.0 / per_second
        taken += limit.wait(peer) == 0
    return taken


def test_one_address_gets_its_rate_and_no_more():
    clock = Clock()
    limit = RateLimit(Limits(requests_per_second_per_address=10), clock=clock)

    taken = admitted(limit, clock, seconds=100, per_second=1000)

    assert 1000 <= taken <= 1000 + 2 * 10 + 1


def test_all_addresses_together_get_the_rate_of_all():
    clock = Clock()
    limit = RateLimit(Limits(requests_per_second=100, requests_per_second_per_address=1000), clock=clock)

    taken = sum(
        admitted(limit, clock, seconds=1, per_second=500, peer=f"ipv4:10.0.0.{n}:1") for n in range(20)
    )

    assert 2000 <= taken <= 2000 + 100 + 1


def test_whoever_is_sent_away_is_told_when_to_come_back():
    clock = Clock()
    limit = RateLimit(Limits(requests_per_second_per_address=0.5), clock=clock)
    assert limit.wait("ipv4:10.0.0.1:1") == 0

    wait = limit.wait("ipv4:10.0.0.1:2")

    assert 0 < wait <= 2.0
    clock.now += wait
    assert limit.wait("ipv4:10.0.0.1:3") == 0


def test_without_a_limit_per_address_only_all_together_count():
    limit = RateLimit(Limits(requests_per_second=1000, requests_per_second_per_address=0), clock=Clock())

    assert all(limit.wait("ipv4:10.0.0.1:1") == 0 for _ in range(500))


def test_addresses_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ADDRESSES", 3)
    limit = RateLimit(Limits(requests_per_second=1e6, requests_per_second_per_address=1), clock=Clock())
    for n in range(10):
        limit.wait(f"ipv4:10.0.0.{n}:1")

    assert len(limit._addresses) == 3


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("ipv4:127.0.0.1:53412", "127.0.0.1"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::"),
        ("ipv6:%5B2001:db8:1:2::9%5D:80", "2001:db8:1:2::"),
        ("unix:/tmp/socket", "other"),
        ("", "other"),
    ],
)
def test_a_peer_is_its_address_or_its_ipv6_network(peer, network):
    assert network_of(peer) == network
