"""Every item has three bins, every user's items find bins of their own, and sums come back by item.

Two servers' shares of a point function add up to it, and either alone says nothing.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.arrays import IntArray, ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import RefusedError
from fedboard.common.protocols.two_server import point_functions
from fedboard.common.protocols.two_server.bins import (
    N_TABLES,
    RESIDUES_PER_BLOCK,
    Bins,
    Domain,
    TreeHash,
    block_cipher,
    expanded,
)
from fedboard.common.protocols.two_server.point_functions import (
    Corrections,
    generate,
    leaf_blocks,
    roots,
    rows_of,
)


def test_each_table_holds_every_item_once() -> None:
    bins = Bins.of(b"round", n_items=100, most_items=8)

    for table in range(N_TABLES):
        assert sorted(bins.orders[table]) == list(range(100))
        np.testing.assert_array_equal(bins.places[table][bins.orders[table]], np.arange(100))
    assert bins.n_rows * bins.per_table >= 100


def test_bins_are_the_same_on_every_machine_and_others_in_another_round() -> None:
    bins = Bins.of(b"round", n_items=50, most_items=4)
    assert bins.orders[:, :6].tolist() == [
        [1, 34, 21, 14, 32, 13],
        [35, 4, 26, 12, 43, 32],
        [49, 43, 26, 39, 18, 19],
    ]
    assert (bins.orders != Bins.of(b"other", n_items=50, most_items=4).orders).any()


@pytest.mark.parametrize("most_items", [1, 2, 5, 16, 64])
def test_items_get_bins_of_their_own_that_hold_them(most_items: int) -> None:
    random = np.random.default_rng(most_items)
    bins = Bins.of(b"round", n_items=3000, most_items=most_items)
    for _ in range(100):
        items = random.choice(3000, most_items, replace=False)
        found = bins.assign(items)
        assert (found >= 0).all()
        assert np.unique(found).size == most_items
        values = np.zeros((bins.n_bins, bins.n_rows, 1), dtype=np.uint32)
        values[found, bins.rows(items, found), 0] = np.arange(1, most_items + 1)
        by_item = bins.by_item(values)[:, 0]
        np.testing.assert_array_equal(by_item[items], np.arange(1, most_items + 1))
        assert np.count_nonzero(by_item) == most_items


def test_where_bins_are_short_the_last_items_go_without_and_no_bin_is_given_twice() -> None:
    bins = Bins.of(b"round", n_items=3000, most_items=1)
    items = np.random.default_rng(0).choice(3000, 200, replace=False)

    found = bins.assign(items)

    placed = found[found >= 0]
    assert np.unique(placed).size == placed.size == bins.n_bins
    assert (found[:3] >= 0).all()
    assert (found[-100:] < 0).all()


SEEDS = (b"first server 016", b"second server 16")


def evaluate_all(corrections: Corrections, seed: bytes, domain: Domain, *, party: int) -> ResidueArray:
    """One server's share of the sum of all point functions, at every row; uint32, shape (n_points, width)."""
    total = np.zeros((domain.leaf_blocks, domain.n_leaves, 1, RESIDUES_PER_BLOCK), dtype=np.uint32)
    for leaves, block, numbers in leaf_blocks(corrections, seed, domain, party=party):
        total[block, leaves, 0] += numbers.sum(axis=1, dtype=np.uint32)
    return rows_of(total, domain, party=party)[0]


def values_of(n_keys: int, width: int, seed: int = 0) -> ResidueArray:
    return np.random.default_rng(seed).integers(0, 1 << 32, size=(n_keys, width), dtype=np.uint32)


def shared(points: IntArray, domain: Domain, seed: int = 0) -> tuple[Corrections, ResidueArray]:
    values = values_of(points.size, domain.width, seed)
    return generate(points, values, domain, seeds=SEEDS), values


def added_up(corrections: Corrections, domain: Domain) -> ResidueArray:
    first, second = (evaluate_all(corrections, SEEDS[party], domain, party=party) for party in (0, 1))
    return first + second


def table(points: IntArray, values: ResidueArray, domain: Domain) -> ResidueArray:
    expected = np.zeros((domain.n_points, domain.width), dtype=np.uint32)
    np.add.at(expected, points, values)
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 9])
def test_every_row_of_every_small_table_is_right(width: int) -> None:
    for n_points in [*range(1, 18), 33]:
        domain = Domain(n_points=n_points, width=width)
        for point in range(n_points):
            points = np.array([point])
            corrections, values = shared(points, domain, seed=point)
            np.testing.assert_array_equal(added_up(corrections, domain), table(points, values, domain))


@settings(max_examples=60, deadline=None)
@given(
    n_points=st.integers(1, 300),
    width=st.integers(1, 12),
    places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
def test_many_functions_at_once_add_up_also_where_their_points_are_equal(
    n_points: int, width: int, places: list[float]
) -> None:
    domain = Domain(n_points=n_points, width=width)
    points = (np.array(places) * n_points).astype(np.int64)
    corrections, values = shared(points, domain)

    read = Corrections.from_bytes(corrections.to_bytes(), domain, n_keys=points.size)

    np.testing.assert_array_equal(added_up(read, domain), table(points, values, domain))


def test_large_tables_are_evaluated_in_subtrees_and_blocks_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = Domain(n_points=1001, width=7)
    points = np.random.default_rng(1).integers(0, 1001, 30)
    corrections, values = shared(points, domain)
    whole = evaluate_all(corrections, SEEDS[0], domain, party=0)

    monkeypatch.setattr(point_functions, "_STATE_BYTES", 1 << 12)
    monkeypatch.setattr(point_functions, "_BLOCK_BYTES", 1 << 11)

    np.testing.assert_array_equal(evaluate_all(corrections, SEEDS[0], domain, party=0), whole)
    np.testing.assert_array_equal(added_up(corrections, domain), table(points, values, domain))


# What one server sees.


def bits_of(corrections: Corrections) -> np.ndarray:
    """All of a server's bits but the padding of control bits."""
    parts = [np.ascontiguousarray(a).view(np.uint8).ravel() for a in (corrections.nodes, corrections.numbers)]
    return np.concatenate([*(np.unpackbits(part) for part in parts), corrections.right.ravel()])


def deviations_from_fair(bits: np.ndarray) -> float:
    """How far the share of ones, and of equal neighbours, is from a half; the larger, in standard deviations."""
    equal = bits[1:] == bits[:-1]
    return max(2 * abs(found.mean() - 0.5) * np.sqrt(found.size) for found in (bits, equal))


def share_bits(points: IntArray, domain: Domain, *, party: int) -> np.ndarray:
    corrections = generate(points, np.zeros((points.size, domain.width), np.uint32), domain, seeds=SEEDS)
    table = evaluate_all(corrections, SEEDS[party], domain, party=party)
    return np.unpackbits(table.view(np.uint8).ravel())


def test_what_a_server_gets_looks_like_coin_flips_and_a_plain_value_does_not() -> None:
    domain = Domain(n_points=500, width=6)
    zeros = np.zeros((400, 6), dtype=np.uint32)
    at_one_place = generate(np.full(400, 7), zeros, domain, seeds=SEEDS)

    assert deviations_from_fair(bits_of(at_one_place)) < 6
    for party in (0, 1):
        assert deviations_from_fair(share_bits(np.full(3, 7), domain, party=party)) < 6
    uncorrected = replace(at_one_place, numbers=zeros)
    assert deviations_from_fair(bits_of(uncorrected)) > 6  # negative control


def test_the_same_functions_shared_again_have_nothing_in_common_with_the_first_time() -> None:
    domain, points = Domain(n_points=100, width=3), np.arange(50)
    first, _ = shared(points, domain)
    second, _ = shared(points, domain)

    assert first.salt != second.salt
    equal = bits_of(first) == bits_of(second)
    assert abs(equal.mean() - 0.5) * 2 * np.sqrt(equal.size) < 6


def test_the_two_servers_controls_differ_along_the_path_and_nowhere_else() -> None:
    """So that a server alone, whose control bits are coin flips, cannot tell where the path is."""
    domain = Domain(n_points=256, width=4)
    point = np.array([77])
    corrections = generate(point, np.zeros((1, 4), np.uint32), domain, seeds=SEEDS)
    large = np.array([[1, 2, 3, 4]], dtype=np.uint32)
    shifted = replace(corrections, numbers=corrections.numbers + large)

    found = added_up(shifted, domain)  # changes the sum where exactly one server's control bit is set

    assert np.flatnonzero(found.any(axis=1)).tolist() == [77]
    first = evaluate_all(shifted, SEEDS[0], domain, party=0) - evaluate_all(
        corrections, SEEDS[0], domain, party=0
    )
    set_bits = first.any(axis=1)
    assert 80 < set_bits.sum() < 176


# Damage and misuse.


@pytest.mark.parametrize("width", [1, 9])
def test_only_keys_of_the_right_form_are_read(width: int) -> None:
    domain = Domain(n_points=100, width=width)
    content = shared(np.arange(5), domain)[0].to_bytes()

    for other in (Domain(n_points=1000, width=width), Domain(n_points=100, width=width + 1)):
        with pytest.raises(RefusedError):
            Corrections.from_bytes(content, other, n_keys=5)
    for bad in (b"", content[:-1], content + b"\0", content[:40], b"x" * len(content)):
        with pytest.raises(RefusedError):
            Corrections.from_bytes(bad, domain, n_keys=5)
    for n_keys in (4, 6):
        with pytest.raises(RefusedError):
            Corrections.from_bytes(content, domain, n_keys=n_keys)


def test_points_and_values_out_of_range_are_refused() -> None:
    domain = Domain(n_points=10, width=2)
    values = values_of(1, 2)
    for points, given_values in (
        (np.array([10]), values),
        (np.array([-1]), values),
        (np.zeros(0, np.int64), values[:0]),
        (np.array([1]), values.astype(np.int64)),
        (np.array([1, 2]), values),
    ):
        with pytest.raises(InputError):
            generate(points, given_values, domain, seeds=SEEDS)
    for wrong in ({"n_points": 0, "width": 1}, {"n_points": 1, "width": 0}):
        with pytest.raises(InputError):
            Domain(**wrong)


# The hash.


def test_the_block_cipher_is_aes_128() -> None:
    """FIPS-197, appendix C.1, twice in one buffer."""
    key = bytes(range(16))
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    sealed = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")

    assert block_cipher(key).update(2 * plain) == 2 * sealed


def test_the_hash_is_the_cipher_with_its_input_added_and_its_uses_differ() -> None:
    hashed = TreeHash(bytes(16), blocks=2)
    seeds = expanded(bytes(16), b"test", 8).reshape(4, 2)
    outputs = [np.empty_like(seeds) for _ in range(2)]
    for side in (0, 1):
        hashed.child(seeds, side, out=outputs[side])
    outputs += [hashed.block(seeds, block) for block in (0, 1)]

    ciphers = [*hashed._sides, *hashed._leaf]
    for found, cipher in zip(outputs, ciphers, strict=True):
        plain = np.frombuffer(cipher.update(seeds.tobytes()), dtype=np.uint64).reshape(4, 2)
        np.testing.assert_array_equal(found, plain ^ seeds)
    assert len({found.tobytes() for found in outputs}) == 4
    other = np.empty_like(seeds)
    TreeHash(b"another salt 016", blocks=1).child(seeds, 0, out=other)
    assert (other != outputs[0]).all()


def test_roots_carry_the_servers_number_and_uses_of_a_seed_have_nothing_in_common() -> None:
    for party in (0, 1):
        assert (roots(SEEDS[0], 9, party=party)[:, 0] & np.uint64(1) == party).all()
    assert (expanded(SEEDS[0], b"a", 4) != expanded(SEEDS[0], b"b", 4)).all()
    assert (expanded(SEEDS[0], b"a", 9)[:4] == expanded(SEEDS[0], b"a", 4)).all()
