"""Certificates of every kind there is, made from what a training plans, without the training."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from fedboard.common.algorithms.registry import variant_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.certificate import Certificate, certify
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise
from fedboard.common.privacy.releases.pure import ExponentialRelease, LaplaceRelease
from fedboard.common.protocols.registry import sized_protocol
from fedboard.server.calibrating import Training, calibrated_task
from fedboard.server.publication import ASSUMPTIONS
from fedboard.server.run_spec import Promise
from tests.common.privacy.commitments import planned

ACCOUNT = PopulationTotal(
    population="12" * 16,
    head="ef" * 32,
    delta=1e-5,
    adjacency="add-remove",
    budget=8.000001,
    spent=5.0,
    committed=5.0,
    runs=2,
    releases=40,
    private=True,
    lineage="34" * 16,
    lineage_spent=5.0,
    lineage_budget=None,
)
"""Of two runs on the same people; their budget has more digits than people read."""


@cache
def planned_events(algorithm: str, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> tuple[Event, ...]:
    """The releases that a training of this algorithm plans, as events that say nothing about their noise."""
    chosen = variant_of(algorithm)
    feedback = min(chosen.algorithm.feedback)  # explicit, where it learns from that
    training = Training(
        algorithm=chosen, feedback=Feedback(feedback), promise=Promise(epsilon=5.0, adjacency=adjacency)
    )
    task = calibrated_task(training, rating_range=(1.0, 5.0), backend="numpy").task
    return tuple(request.release.event() for requests in task.plan() for request in requests)


def certificate_of(
    algorithm: str = "residual",
    *,
    protocol: str = "trusted",
    noise: NoiseSource | None = None,
    events: Sequence[Event] | None = None,
    **changes: Any,
) -> Certificate:
    """The certificate of a whole training of an algorithm under a protocol."""
    carried = sized_protocol(protocol, clients=20, users=200)
    source = carried.noise(SecureNoise() if noise is None else noise)
    if events is None:
        events = [{**event, **source.describe()} for event in planned_events(algorithm)]
    options: dict[str, Any] = {
        "commitment": changes.pop("commitment", None) or planned(events, epsilon=5.0),
        "trust": carried.trust.sentences,
        "assumptions": ASSUMPTIONS,
        "dataset": "300 made-up films, ratings from 1 to 5",
        "board_digest": "cd" * 32,
        "rounds": RoundsMade(planned=7, made=7, lost=0),
    }
    return certify(events, **{**options, **changes})


def questions(noise: NoiseSource | None = None) -> Certificate:
    """Of pure releases that nobody planned: the budget is claimed."""
    source = SecureNoise() if noise is None else noise
    laplace = LaplaceRelease(
        name="question-1",
        width=1,
        grid_step=1.0,
        l1_bound=1000,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=5.0,
        covers="a sum",
    )
    chosen = ExponentialRelease(
        name="question-2",
        candidates=10,
        score_sensitivity=1.0,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=5.0,
        covers="a choice",
    )
    budget = Commitment.of(Budget(epsilon=2.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE))
    events = [{**release.event(), **source.describe()} for release in (laplace, chosen)]
    return certify(events, commitment=budget, trust=(), assumptions=(), dataset="made up")
