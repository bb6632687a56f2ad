"""The exponential mechanism over a net: the net covers, a user moves a score by its bound, draws are as booked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.exponential import BookedChoice
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.tasks.representation.config import RepresentationConfig
from fedboard.simulations.datasets.synthetic.examples import SharedLinear
from research.jain.net import CHOICE, PENALTY_GRID, NetChoice, stiefel_net

EPSILON = 2.0
SETTINGS = RepresentationConfig(rank=1, vector_bound=2.0, noise_multipliers={CHOICE: 1 / EPSILON})
BUDGET = Budget(epsilon=EPSILON, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
SOURCE = SharedLinear(users=6, examples=4, dimension=2, rank=1)


def choice(*, score_bound: float = 1.0, candidates: int | None = None) -> NetChoice:
    net = stiefel_net(2, 1, 0.8)[:candidates]
    return NetChoice(settings=SETTINGS, feature_bound=3.0, score_bound=score_bound, net=net)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "rank", "radius"), [(2, 1, 0.2), (3, 1, 0.4), (2, 2, 0.6), (3, 2, 1.0)]
)
def test_every_orthonormal_matrix_is_within_the_radius_of_the_net(
    dimension: int, rank: int, radius: float
) -> None:
    net = stiefel_net(dimension, rank, radius)
    rng = np.random.default_rng(0)

    np.testing.assert_allclose(
        np.swapaxes(net, 1, 2) @ net, np.broadcast_to(np.eye(rank), (len(net), rank, rank)), atol=1e-9
    )
    for _ in range(200):
        point = np.linalg.qr(rng.standard_normal((dimension, rank)))[0]
        assert np.linalg.norm(net - point, axis=(1, 2)).min() <= radius


def test_a_net_that_is_too_large_is_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match="tiny sizes"):
        stiefel_net(50, 2, 0.5)


@pytest.mark.parametrize("score_bound", [0.01, 1.0, 100.0])
def test_a_user_moves_no_penalty_beyond_the_sensitivity(score_bound: float) -> None:
    given = choice(score_bound=score_bound).penalties(SOURCE.sample(1).examples.padded())

    assert given.min() >= 0
    assert given.max() <= PENALTY_GRID == choice().release().score_sensitivity


def test_without_the_cut_a_user_would_move_a_penalty_beyond_it() -> None:
    """The negative control: her uncut score is far outside the bound."""
    small = choice(score_bound=0.01)
    scores = np.stack([small._scores(SOURCE.sample(1).examples.padded(), c) for c in small.net])

    assert scores.min() < -5 * small.score_bound


def test_a_candidate_near_the_truth_leaves_less_loss() -> None:
    source = SharedLinear(users=200, examples=6, dimension=2, rank=1)
    population = source.sample(3)
    tried = replace(choice(score_bound=20.0), net=stiefel_net(2, 1, 0.2))
    total = tried.penalties(population.examples.padded()).sum(axis=0)

    best = tried.net[int(np.argmin(total))]

    assert abs(float(best[:, 0] @ population.representation[:, 0])) > 0.98


@pytest.mark.slow
def test_choices_have_the_probabilities_of_the_exponential_mechanism(tmp_path: Path) -> None:
    tried = choice(score_bound=4.0, candidates=5)
    block = SOURCE.sample(2).examples.padded()
    penalties = tried.penalties(block).sum(axis=0)
    exact = np.exp(-EPSILON * (penalties - penalties.min()) / (2 * PENALTY_GRID))
    exact /= exact.sum()
    draws = 2000
    counts = np.zeros(exact.size)
    with Ledger.create(tmp_path / "ledger.sqlite", BUDGET) as ledger:
        paid = tried.release().book(ledger, SeededNoise(0))
    for seed in range(draws):
        stream = SeededNoise(seed).stream(CHOICE)
        receipt = replace(paid.receipt)  # as if it had not been used
        booked = BookedChoice(release=paid.release, event=paid.event, receipt=receipt, stream=stream)
        chosen = tried.choose([block], booked)
        counts[int(np.argmin(np.linalg.norm(tried.net - chosen, axis=(1, 2))))] += 1

    def chi_square(probabilities: FloatArray) -> float:
        return float(np.sum((counts - draws * probabilities) ** 2 / (draws * probabilities)))

    twice = exact**2 / np.sum(exact**2)
    assert exact.max() < 0.6
    assert chi_square(exact) < 18.5  # 99.9 % of 4 degrees of freedom
    assert chi_square(twice) > 60.0  # a scale that is off by 2 would show


def test_the_choice_is_booked_before_it_is_made_and_made_once(tmp_path: Path) -> None:
    tried, block = choice(), SOURCE.sample(2).examples.padded()
    with Ledger.create(tmp_path / "ledger.sqlite", BUDGET) as ledger:
        booked = tried.release().book(ledger, SeededNoise(0))

        assert [event["mechanism"] for event in ledger.events()] == ["exponential"]
        assert ledger.spent().epsilon <= EPSILON * (1 + 1e-9)
        assert tried.choose([block], booked).shape == (2, 1)
        with pytest.raises(PrivacyError, match="before"):
            tried.choose([block], booked)


def test_without_an_epsilon_nothing_can_be_chosen() -> None:
    with pytest.raises(PrivacyError, match="noise_multiplier"):
        replace(choice(), settings=RepresentationConfig(rank=1)).release()
