"""Neighbourhoods: their sizes keep what is promised and are no larger than need be."""

import os
import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from fedboard.common.errors import InputError
from fedboard.common.protocols.secure_sum.members import neighbours, ring
from fedboard.common.protocols.secure_sum.rules import (
    MOST_JOINED,
    SumRules,
    fewest_left,
    neighbourhood,
    share_of,
    vouched_neighbourhood,
)

FLEETS = [(1000, 0.3, 0.1), (1000, 0.2, 0.05), (200, 0.1, 0.1), (20_000, 0.25, 0.1), (5000, 0.1, 0.0)]


def holds(clients: int, size: int, needed: int, most: int, dropout: float, colluding: float) -> bool:
    """The three conditions, by another library's distribution."""
    bad, dropped = share_of(clients, colluding), share_of(clients, dropout)
    broken = clients * hypergeom.sf(most, clients - 1, bad, size)
    lost = clients * hypergeom.cdf(needed - 1, clients - 1, clients - 1 - dropped, size)
    cut = clients**2 / 2 * hypergeom.pmf(size, clients, bad + dropped, size)
    return bool(broken <= 2.0**-40 and lost <= 2.0**-20 and cut <= 2.0**-40 and needed <= size)


@pytest.mark.parametrize(("clients", "dropout", "colluding"), FLEETS)
def test_the_size_is_the_smallest_that_keeps_what_is_promised(
    clients: int, dropout: float, colluding: float
) -> None:
    found = neighbourhood(clients, dropout=dropout, colluding=colluding)

    assert holds(clients, found.size, found.needed, found.colluding, dropout, colluding)
    for most in range(found.colluding + 1):
        size = found.size - 2
        needed = (size + most) // 2 + 1
        assert not holds(clients, size, needed, most, dropout, colluding)


@pytest.mark.slow
@given(
    clients=st.integers(3, 3000), dropout=st.sampled_from([0, 0.1, 0.3]), colluding=st.sampled_from([0, 0.1])
)
@settings(max_examples=60, deadline=None)
def test_two_quorums_for_one_client_never_fit_into_its_neighbourhood(
    clients: int, dropout: float, colluding: float
) -> None:
    found = neighbourhood(clients, dropout=dropout, colluding=colluding)

    assert 2 * found.needed > found.size + found.colluding
    assert 2 * (found.needed - 1) <= found.size + found.colluding, "no more shares are needed than for that"
    assert 2 <= found.needed <= found.size <= clients - 1
    assert found.size == clients - 1 or found.size % 2 == 0
    if clients <= MOST_JOINED:
        assert found.size == clients - 1
        left = found.size - share_of(clients, dropout)
        assert left >= found.needed


@pytest.mark.parametrize("clients", [0, 1, 2])
def test_fewer_than_three_clients_are_refused(clients: int) -> None:
    with pytest.raises(InputError, match="each of two would learn"):
        neighbourhood(clients, dropout=0.3, colluding=0.1)


@pytest.mark.parametrize("clients", [1 << 13, 1 << 20])
def test_dropouts_near_one_half_are_refused_before_they_have_cost_much(clients: int) -> None:
    """Whoever states them would have each device search for hours."""
    begun = time.process_time()
    with pytest.raises(InputError, match="more than 4096 neighbours of each: lower dropout"):
        neighbourhood(clients, dropout=0.44, colluding=0.1)
    with pytest.raises(InputError, match="more than 4096 neighbours of each: lower dropout"):
        vouched_neighbourhood(clients, dropout=0.44, bad=clients // 10)
    with pytest.raises(InputError, match="more than 4096 neighbours of each: lower dropout"):
        SumRules.sized(clients=clients, users=clients, settings={"dropout": 0.44})

    assert time.process_time() - begun < 60
    assert neighbourhood(4097, dropout=0.4499, colluding=0.1).size == 4096, "these are all joined"


def test_shares_of_clients_are_counted_without_rounding_errors() -> None:
    assert share_of(100, 0.29) == 29
    assert share_of(10, 0.3) == 3
    assert fewest_left(10, 0.3) == 7
    assert fewest_left(1000, 0.2) == 800
    assert fewest_left(3, 0.9) == 2


@pytest.mark.parametrize(("clients", "size"), [(9, 4), (8, 7), (7, 6), (60, 10)])
def test_everybody_has_as_many_neighbours_and_is_theirs(clients: int, size: int) -> None:
    order = ring(bytes(32), [os.urandom(32) for _ in range(clients)])
    joined = {who: neighbours(order, place, size) for place, who in enumerate(order)}

    for who, others in joined.items():
        assert len(set(others)) == size
        assert others == sorted(others)
        assert who not in others
        assert all(who in joined[other] for other in others)


def test_the_ring_depends_on_the_session_and_on_every_key_and_not_on_who_comes_first() -> None:
    identities = [os.urandom(32) for _ in range(30)]
    order = ring(bytes(32), identities)

    assert ring(bytes(32), identities[::-1]) == order
    assert ring(b"\1" * 32, identities) != order
    swapped = [*identities[:-1], os.urandom(32)]
    assert [who for who in ring(bytes(32), swapped) if who in order[:]] != [
        who for who in order if who in swapped
    ], "one other key moves everybody"


def test_places_on_the_ring_are_uniform() -> None:
    """Each pair of eight is joined equally often; a ring in the order of the keys fails this."""
    identities = [bytes([number]) * 32 for number in range(8)]
    hits, by_key = dict.fromkeys(combinations(identities, 2), 0), 0
    for session in range(2000):
        order = ring(session.to_bytes(32, "big"), identities)
        for pair in hits:
            hits[pair] += pair[1] in neighbours(order, order.index(pair[0]), 2)
    by_key = sum(identities[1] in neighbours(identities, 0, 2) for _ in range(2000))

    expected, deviation = 2000 * 2 / 7, (2000 * 2 / 7 * 5 / 7) ** 0.5
    assert all(abs(count - expected) < 6 * deviation for count in hits.values())
    assert abs(by_key - expected) > 6 * deviation


@pytest.mark.parametrize(
    ("clients", "dropout", "share"), [(60, 0.1, 0.05), (200, 0.2, 0.05), (1000, 0.3, 0.1)]
)
def test_a_neighbourhood_against_a_server_that_lies_meets_its_conditions(
    clients: int, dropout: float, share: float
) -> None:
    """By another library's hypergeometric law, and the smallest that does."""
    bad, dropped = share_of(clients, share), share_of(clients, dropout)

    def conditions(size: int, colluding: int) -> tuple[bool, bool]:
        """Few enough collude in either half, in any of 2^64 graphs; and enough stay."""
        half, needed = size // 2, size // 2 + colluding + 1
        more = 2 * clients * hypergeom(clients - 1, bad, half).sf(colluding)
        lost = clients * hypergeom(clients - 1, clients - 1 - dropped, size).cdf(needed - 1)
        return more <= 2.0**-104, needed <= size and lost <= 2.0**-20

    found = vouched_neighbourhood(clients, dropout=dropout, bad=bad)
    half, colluding = found.size // 2, found.colluding // 2

    assert conditions(found.size, colluding) == (True, True)
    assert colluding == 0 or not conditions(found.size, colluding - 1)[0]
    assert found.needed == half + colluding + 1
    assert found.needed > 2 * colluding  # those who collude cannot put a secret together
    assert 2 * found.needed > found.size + 2 * colluding  # nor can both secrets of anybody be
    smaller = next(h for h in range(half) if conditions(found.size - 2, h)[0])
    assert not conditions(found.size - 2, smaller)[1]


def pieces(left: set[int], clients: int, half: int) -> list[set[int]]:
    """What those who are left fall into, where each is joined to those at most ``half`` places away."""
    found: list[set[int]] = []
    for one in sorted(left):
        near = {(one + step) % clients for step in range(-half, half + 1)}
        joined = [piece for piece in found if piece & near]
        found = [piece for piece in found if piece not in joined] + [{one}.union(*joined)]
    return found


def opened(left: set[int], bad: set[int], clients: int, half: int, needed: int) -> list[set[int]]:
    """Pieces of the ring whose sum comes out: of everybody in it enough neighbours would give a share."""
    found = []
    for piece in pieces(left, clients, half):
        near = {x: {(x + step) % clients for step in range(-half, half + 1)} - {x} for x in piece}
        if all(len(near[x] & (left | bad)) >= needed for x in piece):
            found.append(piece)
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(gone=st.sets(st.integers(0, 23), max_size=12), bad=st.sets(st.integers(0, 23), max_size=4))
def test_whoever_cuts_the_ring_can_open_no_piece_of_it(gone: set[int], bad: set[int]) -> None:
    """With ``t = k / 2 + h + 1``, where at most h of either half of a neighbourhood collude."""
    clients, half = 24, 4
    sides = [range(1, half + 1), range(-half, 0)]
    most = max(len({(x + step) % clients for step in side} & bad) for x in range(clients) for side in sides)
    left = set(range(clients)) - gone - bad

    assert len(opened(left, bad, clients, half, half + most + 1)) <= 1


def test_with_shares_of_half_a_neighbourhood_a_piece_of_a_cut_ring_comes_out() -> None:
    left = set(range(24)) - set(range(5, 9)) - set(range(20, 24))

    assert len(pieces(left, 24, 4)) == 2
    assert len(opened(left, set(), 24, 4, 4)) == 2
    assert opened(left, set(), 24, 4, 5) == []
