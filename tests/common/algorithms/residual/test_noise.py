"""The noise of the residual task's releases, and what a replaced user moves.

Residual alternating minimisation where a round was paid for and lost: what follows does without it.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.residual.config import Curvature, Start, stage_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import SumSource
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from tests.common.algorithms.conftest import (
    N_USERS,
    PRESENCE,
    SPREAD,
    a_residual_task,
    exact_sums,
    isometric_norm,
    population,
    presence,
    residual_boards,
    through,
)
from tests.common.algorithms.residual.test_bounds import with_ratings


def test_the_private_quantile_counts_who_is_within_the_norm(cohort: Cohort) -> None:
    task = a_residual_task(clip_quantile=0.5)
    plain = residual_boards(task)[3]
    board, unbounded = (
        replace(plain, arrays={**plain.arrays, "clip_norm": np.array([norm])}) for norm in (1.2, 4 * 1.3)
    )
    (clip,) = (r for r in task.requests(board) if r.name.endswith("/clip"))
    assert clip.source is SumSource.TOTAL

    told = task.contribute(cohort, board, task.requests(board)).totals[clip.name]

    whole = task.contribute(cohort, unbounded, task.requests(unbounded))
    assert whole.vectors is not None
    parts = task.weigh(cohort, board) * whole.responses * 4.0 / 4096
    norms = np.linalg.norm(whole.vectors.astype(float), axis=1) * 1.3 / 4096
    norms *= np.sqrt(np.bincount(cohort.user_of_entry(), parts**2, minlength=N_USERS))
    sure = np.abs(norms - 1.2) > 0.01  # what the board says now, not the settings
    assert 8 < np.count_nonzero(norms[sure] > 1.2) < 32
    np.testing.assert_array_equal(told[sure, 1] > 0, norms[sure] > 1.2)
    rated = cohort.counts > 0
    assert np.all(told[rated].sum(axis=1) == clip.release.l2_bound)
    assert not np.any(told[~rated])


def test_every_release_has_the_noise_of_the_plan_in_real_units(tmp_path: Path) -> None:
    """Published with nobody there, a release is its noise; a tenth more or less would be seen."""
    task = a_residual_task(
        20.0,
        start=Start.SPECTRAL,
        clip_quantile=0.5,
        clip_norm=0.6,
        bias_clip_norm=0.7,
        bias_scale=0.9,
        curvature=Curvature.RELEASED,
    )
    s, z = task.settings, task.settings.shared.noise_multipliers
    real = {
        "moments": np.sqrt(3.0),
        "counts": 1.0,
        "weighted-counts": 1.0,
        "bias/linear": 0.7 * SPREAD,
        "bias/moment": 0.9**2,
        "pairs": 1.0,
    }
    n_items, nobody = (
        800,
        Cohort(
            indptr=np.zeros(1, dtype=np.int64),
            items=np.zeros(0, dtype=np.int32),
            ratings=np.zeros(0, dtype=np.float32),
            n_items=800,
        ),
    )
    tested = set()
    budget = Budget(epsilon=20.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "l", budget, plan=z) as ledger:
        for board in residual_boards(task, n_items=n_items):
            requests = task.requests(board)
            sums = whole_sums(FactoredSums.of(task.contribute(nobody, board, requests)), requests)
            t = stage_of(board.version, s).alternation
            clip_norm = 0.8 * 0.6 if t > 1 else 0.6
            real |= {
                f"round-{t}/linear": clip_norm * SPREAD,
                f"round-{t}/ridges": 1.0,
                f"round-{t}/moment": 1.3**2,
                f"round-{t}/curvature": 1.3**2,
                f"round-{t}/clip": 1.0,
            }
            for request in requests:
                name = request.name
                assert request.release.noise_multiplier == z[name]
                noise = request.release.book(ledger, SeededNoise(4)).publish(sums[name])
                noise /= request.release.column_stddev() / request.release.noise_stddev
                assert np.abs(noise).max() < 8 * z[name] * real[name]
                if noise.size >= 800:  # deviation of a deviation: 2.5 %
                    found = float(np.sqrt(np.mean(noise**2))) / (z[name] * real[name])
                    assert 0.9 < found < 1.1
                    assert not 0.9 < 1.25 * found < 1.1
                    assert not 0.9 < 0.8 * found < 1.1
                    tested.add(name)
        assert ledger.spent().epsilon == pytest.approx(20.0, rel=1e-3)
    linear = {f"round-{t}/{what}" for t in (1, 2, 3) for what in ("linear", "curvature")}
    assert tested == {"counts", "weighted-counts", "bias/linear", "pairs", *linear}


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_sensitivities_follow_the_adjacency(adjacency: Adjacency) -> None:
    task = a_residual_task(
        start=Start.SPECTRAL, clip_quantile=0.5, curvature=Curvature.RELEASED, adjacency=adjacency
    )
    mixed = {"moments", "bias/linear", *(f"round-{t}/linear" for t in (1, 2, 3))}
    mixed |= {f"round-{t}/ridges" for t in (2, 3)}
    for board in residual_boards(task):
        for request in task.requests(board):
            factor = request.release.l2_sensitivity / request.release.l2_bound
            if adjacency is Adjacency.ADD_REMOVE:
                assert factor == 1.0
            else:
                assert factor == pytest.approx(2.0 if request.name in mixed else np.sqrt(2.0))


def test_two_users_are_never_further_apart_than_replace_books() -> None:
    task = a_residual_task(
        start=Start.SPECTRAL,
        clip_quantile=0.5,
        clip_norm=0.3,
        bias_clip_norm=0.3,
        curvature=Curvature.RELEASED,
        adjacency=Adjacency.REPLACE,
    )
    cohort = population(n_users=12)
    opposite = cohort.ratings.copy()
    opposite[cohort.indptr[3] : cohort.indptr[4]] = 6.0 - opposite[cohort.indptr[3] : cohort.indptr[4]]
    largest: dict[str, float] = {}
    for board in residual_boards(task):
        requests = {r.name: r for r in task.requests(board)}
        alone = [exact_sums(task, cohort.rows(j, j + 1), board) for j in range(12)]
        alone.append(exact_sums(task, with_ratings(cohort, opposite).rows(3, 4), board))
        for one, other in itertools.combinations(alone, 2):
            for name, request in requests.items():
                apart = isometric_norm(request, one[name] - other[name]) / request.release.l2_sensitivity
                largest[name] = max(largest.get(name, 0.0), apart)
    assert max(largest.values()) <= 1.0
    assert largest["round-3/linear"] > 0.6


BUDGET = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("feedback", list(Feedback))
@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_lost_round_is_skipped(tmp_path: Path, feedback: Feedback, lost: int) -> None:
    """In turn the round of the biases, the pairs of items, and the first two alternations."""
    settings = dict(PRESENCE) if feedback is Feedback.IMPLICIT else {}
    task = a_residual_task(start=Start.SPECTRAL, curvature=Curvature.RELEASED, **settings)
    cohort = presence(population()) if feedback is Feedback.IMPLICIT else population()
    with Ledger.create(tmp_path / "l", BUDGET) as ledger:
        *_, board = through(task, cohort, ledger, lost=lost)

    assert np.isfinite(board.arrays["item_factors"]).all()
    assert np.any(board.arrays["item_factors"])
