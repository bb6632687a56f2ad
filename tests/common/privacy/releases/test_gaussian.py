"""The L2 bound of rows, to the last unit.

The floating-point attack is real against naive noise, and finds nothing in what a release publishes.
"""

import importlib.util
import math
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases import gaussian as release_module
from fedboard.common.privacy.releases.gaussian import BookedRelease, keeps_l2_bound
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise

FALSE_ALARM, N_DRAWS, WRONG_BY = 1e-9, 50_000, 0.10


def assert_normal_with(draws, stddev):
    assert stats.kstest(draws, stats.norm(scale=stddev).cdf).pvalue > FALSE_ALARM
    for wrong in (stddev * (1 - WRONG_BY), stddev * (1 + WRONG_BY)):
        assert stats.kstest(draws, stats.norm(scale=wrong).cdf).pvalue < FALSE_ALARM


def generous_ledger(tmp_path, adjacency=Adjacency.ADD_REMOVE):
    return Ledger.create(tmp_path / "l.sqlite", Budget(epsilon=1e6, delta=1e-5, adjacency=adjacency))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "same_sign", "factor"),
    [
        ("add-remove", False, 1.0),
        ("add-remove", True, 1.0),
        ("replace", False, 2.0),
        ("replace", True, math.sqrt(2)),
    ],
)
def test_noise_is_gaussian_with_the_multiplier_of_its_own_adjacency(
    make_release, tmp_path, adjacency, same_sign, factor
):
    release = make_release(
        rows=5000, adjacency=Adjacency(adjacency), same_sign=same_sign, noise_multiplier=3.0, l2_bound=2**20
    )
    with generous_ledger(tmp_path, Adjacency(adjacency)) as ledger:
        booked = release.book(ledger, SecureNoise())

    published = booked.publish(np.zeros((5000, 10), dtype=np.int64))

    assert_normal_with(published.ravel(), 3.0 * factor * 2**20 * release.grid_step)
    assert booked.event["noise_stddev"] == pytest.approx(3.0 * factor * 2**20, rel=1e-12)


@pytest.mark.parametrize("same_sign", [True, False])
def test_replacing_a_user_never_moves_the_sum_by_more_than_the_sensitivity(make_release, same_sign):
    rng = np.random.default_rng(4)
    release = make_release(adjacency=Adjacency.REPLACE, same_sign=same_sign)
    largest = 0.0
    for _ in range(200):
        pair = rng.standard_cauchy((2, 30))
        pair = np.abs(pair) if same_sign else pair
        pair *= (release.l2_bound / np.linalg.norm(pair, axis=1))[:, None]
        largest = max(largest, np.linalg.norm(pair[0] - pair[1]))
    worst = np.eye(2)[0] * release.l2_bound, np.eye(2)[1] * release.l2_bound
    worst = worst if same_sign else (worst[0], -worst[0])

    assert largest <= release.l2_sensitivity
    assert np.linalg.norm(worst[0] - worst[1]) == pytest.approx(release.l2_sensitivity)


@pytest.mark.slow
def test_off_diagonal_noise_has_half_the_variance_of_the_diagonal(make_release, ledger):
    release = make_release(rows=50_000, width=3, layout="symmetric", same_sign=True, l2_bound=2**38)

    published = release.book(ledger, SecureNoise()).publish(np.zeros((50_000, 3), dtype=np.int64))

    stddev = release.noise_stddev * release.grid_step
    assert_normal_with(published[:, 0], stddev)
    assert_normal_with(published[:, 1], stddev / math.sqrt(2))
    assert_normal_with(published[:, 2], stddev)


@pytest.mark.parametrize("rank", [1, 2, 3, 8])
def test_the_diagonal_of_a_packed_triangle_is_found(make_release, rank):
    release = make_release(layout="symmetric", width=rank * (rank + 1) // 2)
    rows, columns = np.triu_indices(rank)

    deviations = release.column_stddev() / release.noise_stddev

    assert np.allclose(deviations, np.where(rows == columns, 1, math.sqrt(0.5)))


def test_published_numbers_are_the_shifted_integer_sums(make_release, ledger):
    release = make_release(noise_multiplier=2.0**24, l2_bound=3, grid_step=0.5)
    rng = np.random.default_rng(1)
    sums = rng.integers(-(2**40), 2**40, (200, 10))
    noise = SeededNoise(8)

    published = release.book(ledger, noise).publish(sums)

    draws = noise.stream(release.name).normal(0, 2000).reshape(200, 10)
    expected = (sums + np.rint(draws * 3 * 2.0**24).astype(np.int64)) >> 5
    assert release.release_shift == 5
    assert np.array_equal(published, expected * 32 * 0.5)


def test_at_the_seam_of_the_modulus_a_user_moves_what_is_published_by_no_more_than_her_part(
    make_release, ledger
):
    bits = 40
    release = make_release(rows=20_000, noise_multiplier=1000.0, l2_bound=3)
    seam = np.full((20_000, release.width), 2 ** (bits - 1) - 1, dtype=np.int64)
    moved = seam + 1 - 2**bits  # what one unit more is, reduced
    noise = SeededNoise(5)

    one = release.book(ledger, noise).publish(seam, residue_bits=bits) / release.grid_step
    other = release.book(ledger, noise, reissue=True).publish(moved, residue_bits=bits) / release.grid_step
    late = np.abs(
        release.book(ledger, noise, reissue=True).publish(seam)
        - release.book(ledger, noise, reissue=True).publish(moved)
    )

    modulus = 2.0**bits
    apart = np.mod(other - one + modulus / 2, modulus) - modulus / 2
    assert np.all(np.abs(one) <= modulus / 2)
    assert np.all(apart == 1)
    assert 0.4 < np.mean(one > 0) < 0.6  # either end, whoever is there: the noise decides
    assert late.min() > 2 ** (bits - 1) * release.grid_step  # without it she decides


def test_sums_modulo_a_power_of_two_wrap_where_low_bits_are_dropped_too(make_release, ledger):
    """Against whole numbers of any size: the modulus is of the release's grid, what is kept is coarser."""
    bits, noise = 40, SeededNoise(8)
    release = make_release(noise_multiplier=2.0**24, l2_bound=3, grid_step=0.5)
    sums = np.random.default_rng(1).integers(-(2**39), 2**39, (200, 10))
    sums[:100] |= 2**38  # half of them near either end, so that the noise carries some over it
    sums[:100, ::2] = 2 ** (bits - 1) - 1
    draws = noise.stream(release.name).normal(0, 2000).reshape(200, 10)

    published = release.book(ledger, noise).publish(sums, residue_bits=bits)

    assert release.release_shift == 5
    wrapped = 0
    for (row, column), value in np.ndenumerate(sums):
        noisy = int(value) + round(draws[row, column] * 3 * 2.0**24)
        kept = noisy >> 5
        centred = (kept + 2 ** (bits - 6)) % 2 ** (bits - 5) - 2 ** (bits - 6)
        wrapped += centred != kept
        assert published[row, column] == centred * 32 * 0.5
    assert wrapped > 100


@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1e-4, 0), (1.0, 0), (2.0**20, 0), (2.0**21, 1), (2.0**31 - 1, 10)]
)
def test_the_dropped_bits_stay_twenty_below_the_noise(make_release, multiplier, shift):
    assert make_release(l2_bound=1, noise_multiplier=multiplier).release_shift == shift


def test_blocks_get_the_noise_of_the_whole_however_rows_are_split(make_release, ledger, monkeypatch):
    release = make_release()
    sums = np.arange(2000, dtype=np.int64).reshape(200, 10)
    booked = release.book(ledger, SecureNoise())
    ranges = ((0, 70), (70, 71), (71, 200))
    parts = [(booked.part(start, stop), start, stop) for start, stop in ranges]
    unused = replace(booked.receipt)
    again = BookedRelease(release=release, event=booked.event, receipt=unused, stream=booked.stream)

    monkeypatch.setattr(release_module, "_NUMBERS_PER_CHUNK", 64)
    whole = again.publish(sums)
    split = [part.publish(sums[start:stop], start_row=start) for part, start, stop in parts]

    assert np.array_equal(whole, np.concatenate(split))


def test_seeded_releases_are_reproducible_and_secure_ones_are_not(make_release, ledger):
    zeros = np.zeros((200, 10), dtype=np.int64)

    first = make_release().book(ledger, SeededNoise(1)).publish(zeros)
    second = make_release().book(ledger, SeededNoise(1), reissue=True).publish(zeros)
    secure = [make_release(name=name).book(ledger, SecureNoise()).publish(zeros) for name in "ab"]

    assert np.array_equal(first, second)
    assert np.mean(secure[0] == secure[1]) < 0.01


def test_the_booked_event_is_the_noise_that_is_drawn(make_release, ledger):
    release = make_release(l2_bound=12345, noise_multiplier=17.0)

    booked = release.book(ledger, SecureNoise())

    (event,) = ledger.events()
    assert event == booked.event
    assert event["noise_stddev"] == release.noise_stddev == 17.0 * 12345
    assert event["noise_stddev"] / event["l2_sensitivity"] == event["noise_multiplier"]


def test_a_receipt_opens_one_release(make_release, ledger):
    booked = make_release().book(ledger, SecureNoise())

    with pytest.raises(PrivacyError, match="used before"):
        BookedRelease(
            release=booked.release,
            event=booked.event,
            receipt=booked.receipt,
            stream=SecureNoise().stream(""),
        )
    copied = replace(booked)  # shares the rows that are left, so it draws no noise twice
    booked.publish(np.zeros((200, 10), dtype=np.int64))
    with pytest.raises(PrivacyError, match="published or handed over before"):
        copied.publish(np.ones((200, 10), dtype=np.int64))


def test_noise_cannot_be_had_with_the_receipt_of_another_release(make_release, ledger):
    weak, strong = make_release(name="a", noise_multiplier=5.0), make_release(name="a", noise_multiplier=50.0)
    booked = strong.book(ledger, SecureNoise())

    for event in (booked.event, {**booked.event, **weak.event()}):
        with pytest.raises(PrivacyError, match="another release"):
            BookedRelease(release=weak, event=event, receipt=booked.receipt, stream=booked.stream)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"noise_multiplier": None}, "noise_multiplier"),
        ({"noise_multiplier": "3"}, "noise_multiplier"),
        ({"noise_multiplier": True}, "noise_multiplier"),
        ({"l2_bound": 0}, "l2_bound"),
        ({"l2_bound": -5}, "l2_bound"),
        ({"l2_bound": None}, "l2_bound"),
        ({"l2_bound": math.inf}, "l2_bound"),
        ({"grid_step": 0.0}, "grid_step"),
        ({"grid_step": math.nan}, "grid_step"),
        ({"rows": 0}, "rows"),
        ({"width": 0}, "width"),
        ({"width": 4, "layout": "symmetric"}, "width"),
        ({"layout": "triangle"}, "layout"),
        ({"adjacency": "none"}, "adjacency"),
        ({"adjacency": None}, "adjacency"),
        ({"same_sign": None}, "same_sign"),
        ({"name": ""}, "name"),
        ({"covers": " "}, "covers"),
    ],
)
def test_a_release_that_bounds_nothing_is_refused(make_release, changes, names):
    with pytest.raises(PrivacyError, match=names):
        make_release(**changes)


def test_a_row_is_published_once(make_release, ledger):
    booked = make_release().book(ledger, SecureNoise())
    booked.publish(np.zeros((5, 10), dtype=np.int64), start_row=10)

    with pytest.raises(PrivacyError, match="before"):
        booked.publish(np.zeros((1, 10), dtype=np.int64), start_row=14)
    booked.publish(np.zeros((10, 10), dtype=np.int64))
    booked.publish(np.zeros((1, 10), dtype=np.int64), start_row=15)


def test_a_part_takes_its_rows_away_from_the_whole(make_release, ledger):
    booked = make_release().book(ledger, SecureNoise())
    part = booked.part(10, 20)

    with pytest.raises(PrivacyError, match="handed over"):
        booked.publish(np.zeros((1, 10), dtype=np.int64), start_row=10)
    with pytest.raises(PrivacyError, match="before"):
        booked.part(19, 21)
    with pytest.raises(PrivacyError, match="before"):
        part.publish(np.zeros((1, 10), dtype=np.int64), start_row=20)
    part.publish(np.zeros((10, 10), dtype=np.int64), start_row=10)


def test_a_pickled_part_publishes_the_same_and_remembers_what_is_spent(make_release, ledger):
    booked = make_release().book(ledger, SecureNoise())
    zeros = np.zeros((200, 10), dtype=np.int64)
    copy = pickle.loads(pickle.dumps(booked))

    assert np.array_equal(copy.publish(zeros), booked.publish(zeros))
    with pytest.raises(PrivacyError, match="before"):
        pickle.loads(pickle.dumps(booked)).publish(zeros)


@pytest.mark.parametrize(
    "sums",
    [
        np.zeros((3, 9), dtype=np.int64),
        np.zeros(10, dtype=np.int64),
        np.zeros((3, 10)),
        np.full((3, 10), np.nan),
        np.zeros((3, 10), dtype=np.int32),
    ],
)
def test_sums_of_another_shape_or_dtype_are_refused(make_release, ledger, sums):
    with pytest.raises(InputError, match="int64"):
        make_release().book(ledger, SecureNoise()).publish(sums)


@pytest.mark.parametrize("start", [-1, 198, 10**9])
def test_rows_outside_the_release_are_refused(make_release, ledger, start):
    with pytest.raises(InputError, match="must lie in"):
        make_release().book(ledger, SecureNoise()).publish(np.zeros((3, 10), dtype=np.int64), start_row=start)


@pytest.mark.parametrize("extreme", [2**62, -(2**62), -(2**63)])
def test_sums_without_headroom_are_refused_and_not_quoted(make_release, ledger, extreme):
    booked = make_release().book(ledger, SecureNoise())

    with pytest.raises(PrivacyError, match="64-bit") as error:
        booked.publish(np.full((1, 10), extreme, dtype=np.int64))
    assert str(abs(extreme)) not in str(error.value)


def test_nothing_is_drawn_when_the_budget_does_not_cover_it(make_release, ledger):
    class CountedNoise(SecureNoise):
        streams = 0

        def stream(self, name):
            CountedNoise.streams += 1
            return super().stream(name)

    with pytest.raises(BudgetExceededError):
        make_release(noise_multiplier=0.1).book(ledger, CountedNoise())

    assert CountedNoise.streams == 0
    assert ledger.events() == []


WIDE = 2**63


def obvious(rows: np.ndarray, bound: int) -> list[bool]:
    return [sum(int(value) ** 2 for value in row) <= bound**2 for row in rows]


def in_floats(rows: np.ndarray, bound: int) -> list[bool]:
    values = rows.astype(np.float64)
    return list(np.sqrt(np.einsum("jw,jw->j", values, values)) <= bound)


def test_a_row_that_is_longer_by_a_rounding_is_found() -> None:
    bound = 2**38
    rows = np.array([[bound, 0], [bound, 1], [bound, -1], [bound - 1, 1], [-bound, 0], [bound + 1, 0]])

    assert keeps_l2_bound(rows, bound).tolist() == [True, False, False, True, True, False]
    assert in_floats(rows, bound)[1]  # what 64-bit floats make of it


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_every_row_is_judged_as_in_whole_numbers(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 4))
    number = st.integers(-WIDE, WIDE - 1)
    rows = np.array(
        data.draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=1)), np.int64
    )
    squares = sum(int(value) ** 2 for value in rows[0])
    near = int(np.sqrt(float(squares)))
    bound = data.draw(st.integers(max(1, near - 2000), near + 2000))

    assert keeps_l2_bound(rows, bound).tolist() == obvious(rows, bound)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (70, 2000)])
def test_rows_are_judged_in_any_shape(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).integers(-9, 9, shape)
    bound = max(1, int(np.sqrt((rows**2).sum(axis=1).mean()))) if rows.size else 1

    found = keeps_l2_bound(rows, bound).tolist()
    assert found == obvious(rows, bound)
    assert len(set(found)) == (2 if rows.size else len(set(found)))


def test_the_smallest_number_is_as_long_as_it_is() -> None:
    rows = np.array([[-WIDE], [WIDE - 1]])

    assert keeps_l2_bound(rows, WIDE - 1).tolist() == [False, True]
    assert keeps_l2_bound(rows, WIDE).tolist() == [True, True]


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, math.isqrt(2**63 // 3), math.isqrt(2**63), 2**32])
def test_sums_that_just_fit_64_bits_and_just_do_not_are_judged_alike(width: int, largest: int) -> None:
    sizes = [largest, -largest, largest + 1, largest - 1]
    rows = np.array([[size] * width for size in sizes], np.int64)
    exactly = math.isqrt(width * largest**2)

    for bound in (exactly - 1, exactly, exactly + 1, exactly + 2):
        assert keeps_l2_bound(rows, bound).tolist() == obvious(rows, bound)
        for row in rows:
            assert keeps_l2_bound(row[np.newaxis], bound).tolist() == obvious(row[np.newaxis], bound)


PROGRAM = Path(__file__).parents[4] / "benchmarks" / "privacy_parts" / "floating_point.py"


@pytest.fixture(scope="module")
def attack() -> ModuleType:
    specification = importlib.util.spec_from_file_location("floating_point_attack", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("noise", ["float64", "float32"])
@pytest.mark.parametrize("sigma", [1.0, 10.0, 100.0])
def test_naive_noise_on_a_tail_item_gives_its_user_away(attack: ModuleType, noise: str, sigma: float) -> None:
    one = attack.single_numbers(noise, sigma, 0.0, 4000)
    item = attack.whole_items(noise, sigma, 10)

    assert one.absence_proved > 0.05
    assert item.absence_proved >= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.25, 1.0, 10.0, 100.0])
def test_published_releases_give_nobody_away(attack: ModuleType, sigma: float) -> None:
    for others in (0.0, 0.3, 1234.57):
        one = attack.single_numbers("grid", sigma, others, 4000)
        assert one.absence_proved == one.presence_proved == 0.0
    item = attack.whole_items("grid", sigma, 10)

    assert item.absence_proved == item.presence_proved == 0.0


def test_the_search_on_the_grid_does_find_what_is_impossible(attack: ModuleType) -> None:
    sums = np.zeros((1, 3), dtype=np.int64)
    release = attack.GaussianRelease(
        name="twin",
        rows=1,
        width=3,
        layout="vector",
        grid_step=1.0,
        l2_bound=1,
        same_sign=False,
        adjacency=attack.Adjacency.ADD_REMOVE,
        noise_multiplier=2.0**30,
        covers="nothing",
    )

    # No draw lies 10 deviations out, and nothing lies between two units of what is published.
    published = np.array([[5.0 * 2**30, 10.0 * 2**30, 2.0 ** (release.release_shift - 1)]])

    assert attack.possible_on_grid(published, sums, release).tolist() == [[True, False, False]]
