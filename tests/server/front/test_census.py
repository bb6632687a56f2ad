"""Who is counted, who makes room, and who is sent away; what an address is; what a process may open."""

import resource

import pytest

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import Address
from fedboard.server.front.census import Census
from fedboard.server.front.descriptors import room_for
from fedboard.server.front.front import bound
from fedboard.server.front.limits import ConnectionLimits, network_of


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class One:
    def __init__(self, network, clock):
        self.network, self.last_moved, self.closed = network, clock.now, False

    def abort(self):
        self.closed = True


@pytest.fixture
def clock():
    return Clock()


def census(clock, **limits):
    return Census(
        ConnectionLimits(**({"connections": 10, "per_address": 3, "spared_seconds": 2.0} | limits)), clock
    )


def let_in(counted, clock, network, number):
    found = [One(network, clock) for _ in range(number)]
    return [one for one in found if counted.admit(one)]


def test_at_the_limit_of_all_the_address_with_the_most_makes_room(clock):
    counted = census(clock, per_address=8)
    many = let_in(counted, clock, "10.0.0.1", 8)
    few = let_in(counted, clock, "10.0.0.2", 2)
    clock.now = 5.0

    newcomers = let_in(counted, clock, "10.0.0.3", 3)

    assert len(newcomers) == 3
    assert sum(one.closed for one in many) == 3
    assert not any(one.closed for one in few)
    assert counted.total == 10


def test_whoever_has_the_most_takes_the_room_of_nobody_else(clock):
    counted = census(clock, per_address=0)
    one, other = let_in(counted, clock, "10.0.0.1", 6), let_in(counted, clock, "10.0.0.2", 4)
    clock.now = 5.0

    let_in(counted, clock, "10.0.0.1", 6)

    assert all(connection.closed for connection in one)
    assert not any(connection.closed for connection in other)


def test_who_left_is_not_counted_and_may_leave_twice(clock):
    counted = census(clock)
    first, *_ = let_in(counted, clock, "10.0.0.1", 3)

    counted.leave(first)
    counted.leave(first)

    assert counted.total == 2
    assert len(let_in(counted, clock, "10.0.0.1", 2)) == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("", "other"),
    ],
)
def test_an_address_is_itself_or_its_ipv6_network(address, network):
    assert network_of(address) == network


def test_the_soft_limit_of_descriptors_is_raised_and_what_does_not_fit_is_refused(monkeypatch):
    limits = [100, 1000]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.__setitem__(0, wanted[0]))

    assert room_for(200, most=12_000, others=100, key="connections") == 200
    assert limits[0] == 700
    assert room_for(None, most=12_000, others=100, key="connections") == 300  # as many as fit
    with pytest.raises(
        InputError, match=r"connections is 301, which needs 1003 .* may open 1000; .* at most 300"
    ):
        room_for(301, most=12_000, others=100, key="connections")
    with pytest.raises(InputError, match="ulimit -Hn"):
        room_for(None, most=12_000, others=990, key="connections")


def test_a_system_that_lets_nothing_be_raised_is_believed(monkeypatch):
    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert room_for(None, most=12_000, others=100, key="connections") == 52


@pytest.mark.parametrize("host", ["nowhere.invalid", "203.0.113.1"])
def test_an_address_that_cannot_be_listened_on_is_refused(host):
    with pytest.raises(InputError, match="cannot listen"):
        bound(Address(host, 0), name="it")


@pytest.mark.parametrize("limits", [{"connections": 0}, {"per_address": -1}, {"idle_seconds": 0.0}])
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(InputError):
        ConnectionLimits(**({"connections": 10} | limits))


def test_an_address_has_as_many_as_it_may_and_others_theirs(clock):
    counted = census(clock)

    assert len(let_in(counted, clock, "10.0.0.1", 100)) == 3
    assert len(let_in(counted, clock, "10.0.0.2", 2)) == 2
    assert counted.total == 5


def test_at_the_limit_of_an_address_its_longest_silent_connection_makes_room(clock):
    counted = census(clock)
    old = let_in(counted, clock, "10.0.0.1", 3)
    clock.now = 5.0
    old[0].last_moved = old[1].last_moved = 4.0  # these two are in use

    newer = let_in(counted, clock, "10.0.0.1", 2)

    assert [one.closed for one in old] == [False, False, True]
    assert len(newer) == 1  # nobody else was silent for long enough
    assert counted.total == 3
