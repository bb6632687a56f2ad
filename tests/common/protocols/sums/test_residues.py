"""The packed vector: finest shift that has room, residues there and back, and what cannot be honest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.protocols.sums.residues import Packing


def a_request(
    name: str = "sums",
    source: SumSource = SumSource.TOTAL,
    *,
    rows: int = 1,
    width: int = 3,
    l2_bound: int = 1 << 24,
) -> Request:
    release = GaussianRelease(
        name=name,
        rows=rows,
        width=width,
        layout="vector",
        grid_step=1.0,
        l2_bound=l2_bound,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=1.0,
        covers="sums",
    )
    return Request(source=source, release=release)


@given(
    users=st.integers(1, 1 << 20), l2_bound=st.integers(64, 1 << 40), noise=st.sampled_from([0.0, 1.0, 50.0])
)
@settings(max_examples=100, deadline=None)
def test_the_shift_is_the_smallest_that_has_room_for_everybody(
    users: int, l2_bound: int, noise: float
) -> None:
    request, stddev = a_request(l2_bound=l2_bound), noise * l2_bound

    shift = Packing.of([request], most_users=users, noise_stddevs={"sums": stddev}).shifts["sums"]

    def needed(shift: int) -> float:
        return users * (l2_bound >> shift) + 12 * stddev / 2**shift

    assert needed(shift) < 2**31
    assert shift == 0 or needed(shift - 1) >= 2**31


def test_a_fine_packing_that_cannot_hold_the_sums_is_refused() -> None:
    request = a_request(l2_bound=1 << 24)

    assert Packing.of([request], most_users=1 << 24).shifts["sums"] == 18
    with pytest.raises(InputError, match="at least 64 are needed"):
        Packing.of([request], most_users=1 << 26)
    with pytest.raises(InputError, match="most_users must be at least 1"):
        Packing.of([request], most_users=0)
    assert Packing.of([a_request(l2_bound=1)], most_users=1 << 20).shifts["sums"] == 0, (
        "one unit is all there is"
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_residues_of_many_parts_add_up_to_the_sums(seed: int, n: int) -> None:
    requests = (a_request("a", rows=4, width=2, l2_bound=1 << 12), a_request("b", l2_bound=1 << 35))
    packing = Packing.of(requests, most_users=50)
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(n):
        most = {r.name: r.release.l2_bound >> packing.shifts[r.name] for r in requests}
        shapes = {r.name: (r.release.rows, r.release.width) for r in requests}
        largest = {name: most[name] // 3 for name in most}  # eight numbers: norm within the bound
        parts.append({name: rng.integers(-largest[name], largest[name] + 1, shapes[name]) for name in most})

    residues = np.zeros(packing.size, dtype=np.uint32)
    for part in parts:
        residues += packing.flatten(part)
    found = packing.unflatten(residues)

    for name in ("a", "b"):
        expected = sum(part[name] for part in parts) << packing.shifts[name]
        np.testing.assert_array_equal(found[name], expected)
    assert packing.plausible(found, n_users=n)


def test_a_sum_beyond_what_honest_users_can_reach_is_not_plausible() -> None:
    packing = Packing.of([a_request(l2_bound=100)], most_users=1000)
    most = {"sums": np.array([[0, -600, 800]])}
    above = {"sums": np.array([[0, -601, 800]])}

    assert packing.plausible(most, n_users=10)
    assert not packing.plausible(above, n_users=10)
    assert packing.plausible(above, n_users=11)
    assert packing.plausible(above, n_users=10, noise_stddevs={"sums": 1.0})


def test_what_is_no_vector_of_the_packing_is_refused() -> None:
    packing = Packing.of([a_request()], most_users=10)

    with pytest.raises(InputError, match="must be uint32"):
        packing.unflatten(np.zeros(4, dtype=np.uint32))
    with pytest.raises(InputError, match="must be uint32"):
        packing.unflatten(np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="another shape"):
        packing.flatten({"sums": np.zeros((3, 1), dtype=np.int64)})


def test_matrices_whose_sensitivity_relies_on_their_signs_are_not_coarsened() -> None:
    request = a_request(source=SumSource.QUADRATIC)
    relying = replace(request.release, same_sign=True, adjacency=Adjacency.REPLACE)
    matrix = replace(request, release=relying)

    with pytest.raises(PrivacyError, match="positive semi-definite"):
        Packing.of([matrix], most_users=1 << 10)
    assert Packing.of([matrix], most_users=1 << 6).shifts["sums"] == 0
    numbers = replace(matrix, source=SumSource.TOTAL)
    assert Packing.of([numbers], most_users=1 << 10).shifts["sums"] == 4, "truncated numbers keep their sign"
    dearer = replace(matrix, release=replace(relying, same_sign=False))
    assert Packing.of([dearer], most_users=1 << 10).shifts["sums"] == 4
