"""Residual alternating minimisation where a round was paid for and lost: what follows does without it."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Catalogue
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.common.tasks.residual.config import Curvature, Start
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.server.round import lost_round
from fedboard.server.runtime import NoisedSums
from tests.common.tasks.conftest import N_ITEMS, PRESENCE, a_residual_task, population, presence

BUDGET = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("feedback", list(Feedback))
@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_lost_round_is_skipped(tmp_path: Path, feedback: Feedback, lost: int) -> None:
    """In turn the round of the biases, the pairs of items, and the first two alternations."""
    settings = dict(PRESENCE) if feedback is Feedback.IMPLICIT else {}
    task = a_residual_task(start=Start.SPECTRAL, curvature=Curvature.ONCE, **settings)
    cohort = presence(population()) if feedback is Feedback.IMPLICIT else population()
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(N_ITEMS)))))
    with Ledger.create(tmp_path / "l", BUDGET) as ledger:
        while requests := task.requests(board):
            if board.version == lost:
                board = lost_round(board)
                continue
            sums = FactoredSums.of(task.contribute(cohort, board, requests))
            booked = {r.name: r.release.book(ledger, SeededNoise(0)) for r in requests}
            board = task.update(board, NoisedSums(sums=sums, requests=requests, booked=booked))

    assert np.isfinite(board.arrays["item_factors"]).all()
    assert np.any(board.arrays["item_factors"])
