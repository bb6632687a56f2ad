"""Board-only games: blind under a strong guarantee, seeing under a weak one, within the bound always."""

import numpy as np
import pytest

from fedboard.simulations.audit.board_games import BoardGame, board_games, highest_rate
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import configuration, entered


def games(pool: WorkerPool, epsilon: float) -> dict[str, BoardGame]:
    played = board_games(*entered(configuration(privacy={"epsilon": epsilon})), pool=pool, seed=0)
    return {game.name: game for game in played}


def test_both_games_are_played_within_the_bound(pool: WorkerPool) -> None:
    played = games(pool, 1.0)

    assert set(played) == {"membership", "attribute"}
    assert played["attribute"].mu == pytest.approx(2 * played["membership"].mu)
    for game in played.values():
        assert game.finding.passed
        assert 0.3 < game.auc < 0.7
        assert game.auc_at_most < 0.7


def test_almost_no_noise_gives_members_away(pool: WorkerPool) -> None:
    membership = games(pool, 1e5)["membership"]

    assert membership.auc > 0.75
    assert membership.finding.passed


def test_rates_of_a_game_rise_and_its_area_is_that_of_the_scores(pool: WorkerPool) -> None:
    membership = games(pool, 1e5)["membership"]
    false_rates, true_rates = membership.roc

    assert (np.diff(false_rates) > 0).all()
    assert (np.diff(true_rates) >= 0).all()
    assert true_rates[-1] > 0.9  # of the members, those above the lowest of the others
    assert np.trapezoid(true_rates, false_rates) == pytest.approx(membership.auc, abs=0.06)


def test_no_test_of_a_mechanism_without_loss_beats_guessing() -> None:
    rates = np.array([0.01, 0.2, 0.9])

    np.testing.assert_allclose(highest_rate(rates, 0.0), rates)
    assert highest_rate(np.array([0.01]), 1.0)[0] == pytest.approx(0.0924, abs=1e-4)
