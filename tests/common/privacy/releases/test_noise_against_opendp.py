"""Published noise against OpenDP's exact discrete Gaussian: an implementation that shares nothing with ours.

Each comparison fails by chance with probability 1e-8, so all of them together in less than one run of 10^6; noise
of 0.9 deviations is told apart by every one.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedboard.common.arrays import FloatArray
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise

opendp = pytest.importorskip("opendp.prelude", reason="opendp is not installed: pip install opendp")

FALSE_ALARM = 1e-8
N_DRAWS = 30_000
TOO_SMALL = 0.9
N_CELLS = 40
# Far enough above 1 that rounded and discrete Gaussian cannot be told apart by these many draws: their variances
# differ by 1/12. The last drops low bits after the noise.
STDDEVS = (16, 1_000, 2**28)


def ours(folder: Path, stddev: int, *, multiplier: float = 1.0) -> FloatArray:
    release = GaussianRelease(
        name="noise",
        rows=N_DRAWS // 100,
        width=100,
        layout="vector",
        grid_step=1.0,
        l2_bound=stddev,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=multiplier,
        covers="nothing",
    )
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(folder / f"ledger-{multiplier}", budget) as ledger:
        booked = release.book(ledger, SecureNoise())
    return booked.publish(np.zeros((release.rows, 100), dtype=np.int64)).ravel()


def theirs(stddev: int) -> FloatArray:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    measurement = opendp.m.make_gaussian(*space, scale=float(stddev))
    # Sensitivity s and deviation s: zCDP with rho = 1/2, as an event with noise multiplier 1 says of ours.
    assert measurement.map(float(stddev)) == pytest.approx(0.5, rel=1e-9)
    return np.array(measurement([0] * N_DRAWS), dtype=np.float64)


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
    right = p_values(ours(tmp_path, stddev), reference)
    wrong = p_values(ours(tmp_path, stddev, multiplier=TOO_SMALL), reference)

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
