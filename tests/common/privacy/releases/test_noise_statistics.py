"""Many published draws against the law they should have: every cell, the tails, the lowest bits.

Thresholds are such that all tests of this file together fail by chance in less than one run of 10^6, and each is
shown to notice noise that is a little wrong.

Published noise against OpenDP's exact discrete Gaussian: an implementation that shares nothing with ours.

Each comparison fails by chance with probability 1e-8, so all of them together in less than one run of 10^6; noise
of 0.9 deviations is told apart by every one.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from fedboard.common.arrays import FloatArray
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.releases import a_release

FALSE_ALARM = 1e-8
N_DRAWS = 2_000_000
WIDTH = 100


def published(folder: Path, stddev: int, *, wrong_by: float = 1.0, n_draws: int = N_DRAWS) -> FloatArray:
    """Noise of a release of this deviation in grid units, as integers; ``wrong_by`` scales what is drawn."""
    release = a_release(
        name="noise", rows=n_draws // WIDTH, width=WIDTH, l2_bound=stddev, noise_multiplier=wrong_by
    )
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    folder.mkdir()
    with Ledger.create(folder / "ledger", budget) as ledger:
        booked = release.book(ledger, SecureNoise())
    return booked.publish(np.zeros((release.rows, WIDTH), dtype=np.int64)).ravel()


def cells(stddev: int) -> tuple[FloatArray, FloatArray]:
    """Whole numbers within 4 deviations and their exact probabilities; the rest is in the two ends."""
    numbers = np.arange(-4 * stddev, 4 * stddev + 1)
    ends = np.concatenate([[-np.inf], numbers[:-1] + 0.5, [np.inf]])
    return numbers.astype(np.float64), np.diff(ndtr(ends / stddev))


def p_of_cells(draws: FloatArray, stddev: int) -> float:
    numbers, expected = cells(stddev)
    places = np.clip(draws - numbers[0], 0, numbers.size - 1).astype(np.int64)
    counts = np.bincount(places, minlength=numbers.size)
    return float(stats.chisquare(counts, expected * draws.size).pvalue)


@pytest.mark.slow
def test_every_whole_number_is_hit_as_often_as_the_rounded_normal_says(tmp_path: Path) -> None:
    stddev = 64
    draws = published(tmp_path / "right", stddev)

    assert p_of_cells(draws, stddev) > FALSE_ALARM
    within = np.abs(draws) <= 3 * stddev
    assert np.unique(draws[within]).size == 6 * stddev + 1  # no holes
    for wrong_by in (0.98, 1.02):
        wrong = published(tmp_path / f"wrong-{wrong_by}", stddev, wrong_by=wrong_by)
        assert p_of_cells(wrong, stddev) < FALSE_ALARM


def test_equal_slices_are_hit_equally_often_where_cells_are_fine(tmp_path: Path) -> None:
    stddev, slices = 2**30, 1000
    draws = published(tmp_path / "right", stddev)

    counts = np.bincount((ndtr(draws / stddev) * slices).astype(np.int64), minlength=slices)

    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    wrong = np.bincount((ndtr(0.98 * draws / stddev) * slices).astype(np.int64), minlength=slices)
    assert stats.chisquare(wrong).pvalue < FALSE_ALARM


@pytest.mark.parametrize("stddev", [2**12, 2**20, 2**40])
def test_the_lowest_bits_that_are_published_are_even(stddev: int, tmp_path: Path) -> None:
    draws = published(tmp_path / "right", stddev)
    shift = max(0, stddev.bit_length() - 1 - 20)

    low = (draws / 2**shift).astype(np.int64) % 256

    assert stats.chisquare(np.bincount(low, minlength=256)).pvalue > FALSE_ALARM
    # Negative control: a grid that is too coarse by one bit.
    uneven = low // 2 * 2
    assert stats.chisquare(np.bincount(uneven, minlength=256)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("deviations", [3.0, 4.0, 4.5])
def test_tails_are_as_heavy_as_the_normal_on_either_side(deviations: float, tmp_path: Path) -> None:
    draws = published(tmp_path / "right", 2**30) / 2**30

    for beyond in (draws > deviations, draws < -deviations):
        chance = float(ndtr(-deviations))
        assert stats.binomtest(int(beyond.sum()), N_DRAWS, chance).pvalue > FALSE_ALARM
    assert np.abs(draws).max() < 9.2


def test_draws_of_neighbouring_rows_columns_and_releases_are_independent(tmp_path: Path) -> None:
    first = published(tmp_path / "first", 2**30)
    second = published(tmp_path / "second", 2**30)

    for lag in (1, 2, WIDTH, WIDTH + 1):
        assert abs(np.corrcoef(first[lag:], first[:-lag])[0, 1]) < 6 / np.sqrt(N_DRAWS)
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(N_DRAWS)
    assert np.mean(first == second) < 1e-4


opendp = pytest.importorskip("opendp.prelude", reason="opendp is not installed: pip install opendp")

N_COMPARED = 30_000
TOO_SMALL = 0.9
N_CELLS = 40
# Far enough above 1 that rounded and discrete Gaussian cannot be told apart by these many draws: their variances
# differ by 1/12. The last drops low bits after the noise.
STDDEVS = (16, 1_000, 2**28)


def theirs(stddev: int) -> FloatArray:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    measurement = opendp.m.make_gaussian(*space, scale=float(stddev))
    # Sensitivity s and deviation s: zCDP with rho = 1/2, as an event with noise multiplier 1 says of ours.
    assert measurement.map(float(stddev)) == pytest.approx(0.5, rel=1e-9)
    return np.array(measurement([0] * N_COMPARED), dtype=np.float64)


def p_values(first: FloatArray, second: FloatArray) -> dict[str, float]:
    """Two-sample tests: of the law, of the law of the magnitude (where a wrong scale shows best), of cells."""
    edges = np.quantile(second, np.linspace(0, 1, N_CELLS + 1)[1:-1])
    edges = np.unique(np.floor(edges) + 0.5)  # between whole numbers
    counts = [np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (first, second)]
    return {
        "law": float(stats.ks_2samp(first, second).pvalue),
        "magnitude": float(stats.ks_2samp(np.abs(first), np.abs(second)).pvalue),
        "cells": float(stats.chi2_contingency(np.array(counts)).pvalue),
    }


@pytest.mark.slow
@pytest.mark.parametrize("stddev", STDDEVS)
def test_noise_has_the_law_of_opendp_and_a_tenth_less_is_noticed(stddev: int, tmp_path: Path) -> None:
    reference = theirs(stddev)
    right = p_values(published(tmp_path / "right", stddev, n_draws=N_COMPARED), reference)
    quiet = published(tmp_path / "wrong", stddev, wrong_by=TOO_SMALL, n_draws=N_COMPARED)
    wrong = p_values(quiet, reference)

    assert min(right.values()) > FALSE_ALARM, right
    assert wrong["magnitude"] < FALSE_ALARM
    assert wrong["cells"] < FALSE_ALARM


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 4.0871, 20.0])
def test_what_a_release_books_is_what_opendp_charges_for_the_same_noise(noise_multiplier: float) -> None:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    stddev = 1000.0 * noise_multiplier

    charged = opendp.m.make_gaussian(*space, scale=stddev).map(1000.0)

    assert math.isclose(charged, 0.5 / noise_multiplier**2, rel_tol=1e-9)
