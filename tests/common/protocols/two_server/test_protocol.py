"""Two servers: exact shares, noise of the helper's own, padding, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.residues import coarse_sums
from fedboard.common.protocols.two_server.helper import LocalHelper, RoundKey, helper_noise, lattice_noise
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.shares import Layout, ShareSums, kept_entries, split
from fedboard.simulations.sessions.session import drive
from tests.common.algorithms.conftest import N_ITEMS, N_USERS
from tests.common.protocols.meetings import ABOUT, BOARDS, TASK, SilentNoise, rows_of
from tests.common.releases import a_release
from tests.refusals import refused

ITEMS = BOARDS["items"]
REQUESTS = TASK.requests(ITEMS)


def two_servers(**settings: int) -> TwoServer:
    return TwoServer.sized(clients=3, users=N_USERS, settings=settings)


def shares_of(rows: Contribution, layout: Layout) -> tuple[ShareSums, ShareSums]:
    shared = split(rows, layout)
    found = []
    for party in (0, 1):
        sums = ShareSums(layout, party=party)
        sums.add(sums.read(shared.keys), shared.seeds[party], shared.others if party == 0 else None)
        found.append(sums)
    return found[0], found[1]


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_the_shares_without_noise_add_up_to_the_coarse_sum_to_the_last_bit(board: Any) -> None:
    requests = TASK.requests(board)
    layout = two_servers().rules.layout(ABOUT, requests)
    rows = rows_of(board, 0, N_USERS)

    leader, helper = shares_of(rows, layout)

    exact = layout.packing.flatten(coarse_sums(rows, requests, layout.packing.shifts))
    np.testing.assert_array_equal(leader.vector() + helper.vector(), exact)
    assert (leader.vector() != exact).mean() > 0.99
    assert (helper.vector() != exact).mean() > 0.99


@pytest.mark.parametrize("party", [0, 1])
def test_the_seed_of_one_server_does_not_open_the_share_of_the_other(party: int) -> None:
    requests = TASK.requests(BOARDS["preparation"])
    layout = two_servers().rules.layout(ABOUT, requests)
    rows = rows_of(BOARDS["preparation"], 0, N_USERS)
    shared = split(rows, layout)

    own, guessed = ShareSums(layout, party=party), ShareSums(layout, party=1 - party)
    own.add(own.read(shared.keys), shared.seeds[party], None if party else shared.others)
    guessed.add(guessed.read(shared.keys), shared.seeds[party])

    exact = layout.packing.flatten(coarse_sums(rows, requests, layout.packing.shifts))
    assert (own.vector() + guessed.vector() != exact).mean() > 0.99
    assert len({*shared.seeds, *split(rows, layout).seeds}) == 4


def test_the_keys_of_one_user_of_a_client_open_with_no_other_users_seed() -> None:
    """The seeds that both servers expand go by the user's place: keys in another order are of no use to them."""
    layout = two_servers().rules.layout(ABOUT, counting(200))
    rows = replace(weighted([5, 900, 3, 800]), indptr=np.array([0, 2, 4]))
    exact = layout.packing.flatten(coarse_sums(rows, layout.packing.requests, layout.packing.shifts))
    shared = split(rows, layout)

    for keys, opens in ((shared.keys, True), (shared.keys[::-1], False)):
        leader, helper = ShareSums(layout, party=0), ShareSums(layout, party=1)
        leader.add(leader.read(keys), shared.seeds[0], shared.others)
        helper.add(helper.read(keys), shared.seeds[1])
        assert (leader.vector() + helper.vector() == exact).all() == opens


# The helper's noise.


def noised(source: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the helper adds to a round, in deviations of each release's columns, and on which lattice it lies."""
    protocol = two_servers().helped_by(LocalHelper(source))
    given = {f"client-{k}": Given(contribution=rows_of(ITEMS, k, k + 1), requests=REQUESTS) for k in range(2)}
    server = protocol.open(ABOUT, REQUESTS, tuple(given), n_items=N_ITEMS)
    clients = {name: protocol.join(ABOUT, SecureNoise()) for name in given}
    found = drive(server, clients, given)
    shifts = protocol.packing(REQUESTS).shifts
    off, remainders = [], []
    for request in REQUESTS:
        exact = sum(
            coarse_sums(one.contribution, REQUESTS, shifts)[request.name] << shifts[request.name]
            for one in given.values()
        )
        noise = found.block([request], 0, request.release.rows)[request.name] - exact
        off.append((noise / request.release.column_stddev()).ravel())
        remainders.append((noise % (1 << shifts[request.name])).ravel())
    return np.concatenate(off), np.concatenate(remainders)


def looks_standard_normal(values: np.ndarray) -> bool:
    """Mean and deviation within five standard errors."""
    error = 1 / np.sqrt(values.size)
    return bool(abs(values.mean()) < 5 * error and abs(values.std() - 1) < 5 * error / np.sqrt(2))


def test_the_helper_adds_the_whole_noise_of_each_release_on_the_lattice_of_the_sums() -> None:
    parts = [noised(SeededNoise(seed)) for seed in range(4)]
    off, remainders = (np.concatenate(both) for both in zip(*parts, strict=True))

    assert off.size > 1000
    assert looks_standard_normal(off)
    assert not remainders.any()
    for wrong in (1.25, 0.8):
        assert not looks_standard_normal(wrong * off)  # negative control: half or double the noise would show
    assert not noised(SilentNoise())[0].any()


def test_noise_on_the_lattice_is_the_rounded_gaussian_of_the_release() -> None:
    release = a_release(name="r", rows=30_000, width=2, l2_bound=1 << 10)
    stream = SeededNoise(1).stream("any")

    for shift in (0, 4):
        drawn = lattice_noise(release, stream, shift=shift)
        exact = stream.normal(0, 60_000).reshape(-1, 2) * release.noise_stddev / 2**shift
        np.testing.assert_array_equal(drawn, np.rint(exact))
        assert looks_standard_normal(drawn.ravel() * 2**shift / release.noise_stddev)


def test_helper_and_leader_draw_different_noise_from_one_seed() -> None:
    """Else the leader, who draws its own, takes the helper's off the sums it holds."""
    source, (release,) = SeededNoise(3), (r.release for r in REQUESTS if r.name.endswith("linear"))
    helper = helper_noise(two_servers().packing(REQUESTS), source)[release.name].ravel()
    leader = source.stream(release.name).normal(0, helper.size)

    assert helper.size >= 100
    assert abs(np.corrcoef(helper, leader)[0, 1]) < 6 / np.sqrt(helper.size)


def test_the_packing_has_room_for_the_helpers_noise() -> None:
    wide = a_release(name="r", rows=2, width=1, l2_bound=1 << 20, noise_multiplier=400.0)
    request = Request(source=SumSource.TOTAL, release=wide)
    packing = two_servers().packing([request])
    shift = packing.shifts["r"]

    assert N_USERS * wide.l2_bound < 2**31  # without noise nothing would be left out
    assert shift > 0
    assert N_USERS * (wide.l2_bound >> shift) + 12 * wide.noise_stddev / 2**shift < 2**31


# What a user sends.


def counting(n_items: int) -> tuple[Request, ...]:
    release = a_release(name="counts", rows=n_items, width=1, l2_bound=1 << 14)
    return (Request(source=SumSource.ITEM_COUNT, release=release),)


def weighted(weights: list[int], n_items: int = 200) -> Contribution:
    return Contribution(
        n_items=n_items,
        indptr=np.array([0, len(weights)]),
        items=(np.arange(len(weights)) * 3).astype(np.int32),
        weights=np.array(weights, dtype=np.int16),
    )


def test_of_a_user_with_more_items_than_are_sent_those_of_smallest_weight_are_left_out() -> None:
    weights = [5, 900, 3, 800, 700, 1, 600, 2]
    requests = counting(200)
    layout = two_servers(most_items=4).rules.layout(ABOUT, requests)
    leader, helper = shares_of(weighted(weights), layout)

    sums = (leader.vector() + helper.vector()).astype(np.int64)

    expected = np.zeros(200, dtype=np.int64)
    expected[[3, 9, 12, 18]] = [900, 800, 700, 600]
    np.testing.assert_array_equal(sums, expected)


def test_items_of_equal_weight_are_left_out_without_regard_to_their_numbers_and_always_the_same() -> None:
    layout = two_servers(most_items=10).rules.layout(ABOUT, counting(200))
    kept = []
    for first in range(30):
        rows = replace(weighted([7] * 40), items=(first + np.arange(40) * 3).astype(np.int32))
        places, _ = kept_entries(rows, slice(0, 40), layout)
        assert (places == kept_entries(rows, slice(0, 40), layout)[0]).all()
        assert np.unique(places).size == 10
        kept.append(places)

    assert 75 < np.sum(np.concatenate(kept) < 20) < 225  # half of 300, give or take 8 deviations


def test_nothing_that_is_sent_has_another_size_for_a_user_with_other_items() -> None:
    layout = two_servers(most_items=8).rules.layout(ABOUT, counting(200))
    sent = [split(weighted(weights), layout) for weights in ([], [1], [1, 2, 3], list(range(1, 30)))]

    assert len({(one.keys.shape, one.others.shape) for one in sent}) == 1


# What is refused.


def test_sums_over_pairs_of_items_are_refused_in_one_sentence() -> None:
    pairs = replace(counting(4)[0], source=SumSource.ITEM_PAIRS)
    with pytest.raises(InputError, match="pairs of items"):
        two_servers().rules.layout(ABOUT, (pairs,))
    other = replace(counting(100)[0], release=a_release(name="other", rows=100, width=1, l2_bound=1 << 14))
    with pytest.raises(InputError, match="one catalogue"):
        two_servers().rules.layout(ABOUT, (*counting(200), other))


def test_parameters_out_of_range_are_refused() -> None:
    good = {"most_users": 10, "most_items": 5, "survivors": 2}
    for name, value in (
        ("most_users", 0),
        ("most_users", 1 << 25),
        ("most_items", 0),
        ("most_items", 1 << 17),
        ("survivors", 0),
        ("survivors", 11),
        ("survivors", True),
    ):
        with pytest.raises(InputError):
            TwoServer.from_parameters({**good, name: value})
    with pytest.raises(InputError):
        TwoServer.from_parameters(good).pinned(b"short")


def test_a_client_that_pins_the_helper_answers_no_other_and_none_that_did_not_sign() -> None:
    helper = LocalHelper(SilentNoise())
    protocol = two_servers().helped_by(helper)
    server = protocol.open(ABOUT, REQUESTS, ("a", "b"), n_items=N_ITEMS)
    message = server.outgoing()["a"]
    given = Given(contribution=rows_of(ITEMS, 0, 1), requests=REQUESTS)

    other = two_servers().pinned(bytes(32)).join(ABOUT, SecureNoise())
    assert refused(other.answer, message, given) is Refusal.OTHER_HELPER
    assert protocol.pinned(helper.identity).join(ABOUT, SecureNoise()).answer(message, given)
    with pytest.raises(InputError, match="pinned"):
        protocol.pinned(bytes(32)).open(ABOUT, REQUESTS, ("a", "b"), n_items=N_ITEMS)


def test_a_key_that_the_helper_did_not_sign_for_this_round_and_these_parameters_is_refused() -> None:
    helper = LocalHelper(SilentNoise())
    key = helper.begin(ABOUT, REQUESTS, two_servers().rules)
    bound = two_servers().rules.bound(ABOUT)
    key.require(bound=bound, identity=helper.identity)

    for wrong in (two_servers().rules.bound(b"elsewhere"), two_servers(most_items=3).rules.bound(ABOUT)):
        with pytest.raises(RefusedError):
            key.require(bound=wrong, identity=helper.identity)
    swapped = RoundKey(key=ReplyKey().public, identity=key.identity, signature=key.signature)
    with pytest.raises(RefusedError):
        swapped.require(bound=bound, identity=None)


def test_a_round_without_items_and_one_without_totals_are_shared_too() -> None:
    requests = TASK.requests(BOARDS["preparation"])
    rows = rows_of(BOARDS["preparation"], 0, N_USERS)
    for chosen in (
        tuple(r for r in requests if r.source.per_item),
        tuple(r for r in requests if not r.source.per_item),
    ):
        layout = two_servers().rules.layout(ABOUT, chosen)
        leader, helper = shares_of(rows, layout)
        exact = layout.packing.flatten(coarse_sums(rows, chosen, layout.packing.shifts))
        np.testing.assert_array_equal(leader.vector() + helper.vector(), exact)
