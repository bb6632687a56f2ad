import math

import numpy as np
import pytest
from scipy import stats

from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.clipping import check_rows, quantise_weights
from fedboard.common.contribution_bounding.weights import (
    WeightScheme,
    entry_weights,
    item_weights,
)
from fedboard.common.errors import InputError, PrivacyError

N_ITEMS, N_USERS = 60, 400
COUNTS = np.random.default_rng(3).pareto(1.0, N_ITEMS) * 20 - 5


def make_cohort(n_users=N_USERS, seed=1):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, N_ITEMS + 1, n_users)
    sizes[:3] = (0, 1, N_ITEMS)
    rows = [np.sort(rng.choice(N_ITEMS, size, replace=False)) for size in sizes]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        items=np.concatenate(rows).astype(np.int32),
        ratings=np.ones(int(sizes.sum()), dtype=np.float32),
        n_items=N_ITEMS,
    )


COHORT = make_cohort()


def weights_of(scheme, cohort=COHORT, **changes):
    options = {"items_per_user": 7, "seed": 11, **changes}
    omega = item_weights(scheme, COUNTS, exponent=1 / 3, population=N_USERS, accuracy=4.0)
    return entry_weights(scheme, cohort, omega, **options)


def row_squares(weights, cohort=COHORT):
    return np.bincount(cohort.user_of_entry(), weights=weights**2, minlength=cohort.n_users)


@pytest.mark.parametrize("scheme", WeightScheme)
def test_no_user_has_more_than_the_whole_budget(scheme):
    weights = weights_of(scheme)

    assert (weights >= 0).all()
    assert row_squares(weights).max() <= 1 + 1e-12
    assert not check_rows(
        COHORT.indptr, COHORT.items, n_items=N_ITEMS, weights=quantise_weights(weights)
    ).any()


@pytest.mark.parametrize("scheme", WeightScheme)
def test_weights_do_not_depend_on_how_users_are_split_into_cohorts(scheme):
    whole = weights_of(scheme)

    for cuts in ((0, 400), (0, 1, 2, 400), (0, 137, 138, 290, 400), range(401)):
        parts = [
            weights_of(scheme, COHORT.rows(a, b))
            for a, b in zip(list(cuts)[:-1], list(cuts)[1:], strict=True)
        ]
        assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("scheme", WeightScheme)
def test_another_users_ratings_do_not_change_mine(scheme):
    other = make_cohort(seed=9)
    mine = COHORT.rows(50, 51)
    joined = Cohort(
        indptr=np.concatenate([other.indptr[:51], other.indptr[50] + mine.indptr[1:]]),
        items=np.concatenate([other.items[: other.indptr[50]], mine.items]),
        ratings=np.concatenate([other.ratings[: other.indptr[50]], mine.ratings]),
        n_items=N_ITEMS,
    )

    assert np.array_equal(weights_of(scheme, joined)[other.indptr[50] :], weights_of(scheme, mine))


@pytest.mark.parametrize("scheme", ["uniform", "tail"])
def test_sampling_takes_k_items_or_all_and_weighs_them_one_over_root_k(scheme):
    weights = weights_of(scheme)

    taken = np.bincount(COHORT.user_of_entry(), weights=weights > 0, minlength=N_USERS)
    assert np.array_equal(taken, np.minimum(COHORT.counts, 7))
    assert set(np.unique(weights)) == {0.0, 1 / math.sqrt(7)}


def test_tail_takes_the_items_with_the_smallest_counts():
    weights = weights_of("tail")

    for user in range(N_USERS):
        row = slice(COHORT.indptr[user], COHORT.indptr[user + 1])
        items = COHORT.items[row]
        smallest = items[np.argsort(COUNTS[items], kind="stable")[:7]]
        assert set(items[weights[row] > 0]) == set(smallest)


def test_a_tie_between_counts_goes_to_the_lower_item_number():
    omega = item_weights("tail", np.zeros(N_ITEMS))

    weights = entry_weights("tail", COHORT.rows(2, 3), omega, items_per_user=5)

    assert np.flatnonzero(weights).tolist() == [0, 1, 2, 3, 4]


def test_uniform_samples_every_item_and_every_pair_equally_often():
    n_users, k, n_items = 20_000, 3, 10
    everything = Cohort(
        indptr=np.arange(0, 10 * n_users + 1, 10, dtype=np.int64),
        items=np.tile(np.arange(10, dtype=np.int32), n_users),
        ratings=np.ones(10 * n_users, dtype=np.float32),
        n_items=n_items,
    )

    chosen = entry_weights("uniform", everything, np.ones(10), items_per_user=k, seed=5) > 0
    subsets = chosen.reshape(n_users, 10) @ (1 << np.arange(10))

    # 120 equally likely subsets of three; the negative control prefers one item slightly.
    counts = np.unique(subsets, return_counts=True)[1]
    assert counts.size == 120
    assert stats.chisquare(counts).pvalue > 1e-9
    skewed = np.where(np.arange(120) < 36, counts * 1.2, counts)
    assert stats.chisquare(skewed * counts.sum() / skewed.sum()).pvalue < 1e-9


def test_uniform_samples_of_two_users_and_of_two_seeds_are_unrelated():
    one = Cohort(
        indptr=np.arange(0, 61 * 100, 60, dtype=np.int64)[:101],
        items=np.tile(np.arange(60, dtype=np.int32), 100),
        ratings=np.ones(6000, dtype=np.float32),
        n_items=60,
    )
    samples = [
        entry_weights("uniform", one, np.ones(60), items_per_user=30, seed=seed).reshape(100, 60) > 0
        for seed in (1, 2)
    ]

    between_seeds = (samples[0] == samples[1]).mean()
    between_users = (samples[0][1:] == samples[0][:-1]).mean()

    assert abs(between_seeds - 0.5) < 6 * 0.5 / math.sqrt(6000)
    assert abs(between_users - 0.5) < 6 * 0.5 / math.sqrt(5940)


def test_large_cohorts_are_sampled_block_by_block_alike(monkeypatch):
    whole = weights_of("uniform")

    monkeypatch.setattr("fedboard.common.contribution_bounding.weights._ROWS_PER_BLOCK", 7)

    assert np.array_equal(whole, weights_of("uniform"))


def test_adaptive_weights_follow_their_formula():
    weights = weights_of("adaptive")

    row = slice(COHORT.indptr[5], COHORT.indptr[6])
    omega = [max(COUNTS[item], 1.0) ** (-1 / 3) for item in COHORT.items[row]]
    norm = math.sqrt(sum(x * x for x in omega))
    assert np.allclose(weights[row], [x / norm for x in omega])


@pytest.mark.parametrize(("scheme", "accuracy"), [("adaptive-clipped", 0.0), ("adaptive-overcount", 4.0)])
def test_the_clipped_schemes_follow_the_equations_of_the_paper(scheme, accuracy):
    mean_budget, mu = 0.3, 0.4

    omega = item_weights(
        scheme, COUNTS, exponent=mu, population=N_USERS, mean_budget=mean_budget, accuracy=4.0
    )
    weights = entry_weights(scheme, COHORT, omega)

    counts = [max(count, 1.0) + accuracy for count in COUNTS]
    scale = math.sqrt(sum(n ** (1 - 2 * mu) for n in counts) / (N_USERS * mean_budget))
    assert np.allclose(omega, [n**-mu / scale for n in counts])
    assert sum(n * w * w for n, w in zip(counts, omega, strict=True)) == pytest.approx(N_USERS * mean_budget)
    for user in range(0, N_USERS, 7):
        row = slice(COHORT.indptr[user], COHORT.indptr[user + 1])
        own = omega[COHORT.items[row]]
        factor = min(1.0, 1.0 / math.sqrt(sum(own**2))) if own.size else 1.0
        assert np.allclose(weights[row], own * factor)
    clipped = row_squares(weights) > 1 - 1e-9
    assert 0.05 < clipped.mean() < 0.95


@pytest.mark.parametrize("scheme", WeightScheme)
def test_an_empty_cohort_gets_no_weights(scheme):
    assert weights_of(scheme, COHORT.rows(0, 1)).shape == (0,)
    assert weights_of(scheme, COHORT.rows(0, 0)).shape == (0,)


@pytest.mark.parametrize("scheme", WeightScheme)
def test_counts_that_are_not_finite_are_refused(scheme):
    with pytest.raises(PrivacyError, match="finite"):
        item_weights(scheme, np.array([1.0, np.nan]), population=5)


@pytest.mark.parametrize(
    "options",
    [
        {"exponent": -0.1},
        {"exponent": 1.1},
        {"exponent": math.nan},
        {"accuracy": -1.0},
        {"accuracy": math.inf},
    ],
)
def test_parameters_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="exponent"):
        item_weights("adaptive", COUNTS, **options)


@pytest.mark.parametrize("options", [{}, {"population": 0}, {"population": 5, "mean_budget": 0.0}])
def test_the_clipped_schemes_need_a_population(options):
    with pytest.raises(InputError, match="population"):
        item_weights("adaptive-clipped", COUNTS, **options)


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("tail", {"items_per_user": None}),
        ("uniform", {"items_per_user": 0}),
        ("uniform", {"seed": None}),
        ("uniform", {"seed": -1}),
        ("uniform", {"seed": 2**64}),
    ],
)
def test_sampling_needs_its_parameters(scheme, options):
    with pytest.raises(InputError, match=r"items_per_user|seed"):
        weights_of(scheme, **options)


@pytest.mark.parametrize("omega", [np.ones(N_ITEMS - 1), np.zeros(N_ITEMS), np.full(N_ITEMS, np.nan)])
def test_item_weights_that_do_not_fit_are_refused(omega):
    with pytest.raises(InputError, match="omega"):
        entry_weights("adaptive", COHORT, omega)


def test_an_unknown_scheme_is_named_with_the_known_ones():
    with pytest.raises(InputError, match=r"adaptive-overcount.*got 'best'"):
        item_weights("best", COUNTS)


def test_a_weighting_that_chooses_too_many_items_is_stopped(monkeypatch):
    everything = "fedboard.common.contribution_bounding.weights._smallest_in_row"
    monkeypatch.setattr(everything, lambda cohort, keys, number: np.ones(cohort.n_ratings, dtype=bool))

    with pytest.raises(PrivacyError, match="uniform weights chose more than 7 items of a user"):
        weights_of("uniform")


@pytest.mark.parametrize("scheme", ["adaptive", "adaptive-clipped", "adaptive-overcount"])
def test_item_weights_that_are_too_large_are_clipped(scheme):
    weights = entry_weights(scheme, COHORT, np.full(N_ITEMS, 1e6))

    assert row_squares(weights).max() <= 1 + 1e-12
