"""Ways to learn a shared representation, by name, run as any run and judged alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedboard import Budget
from fedboard.common.algorithms.representation.algorithm import Representation, representation_of
from fedboard.common.algorithms.representation.config import (
    AlternationTarget,
    Pairs,
    RepresentationConfig,
    calibrated,
)
from fedboard.common.algorithms.supervised.examples import ExampleTask
from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution_bounding.participation import FullParticipation, round_name, round_number
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import NoiseSource, SeededNoise
from fedboard.simulations.baselines.examples import fit_all, own_models, shared_without_privacy
from fedboard.simulations.data.synthetic.examples import Population
from research.jain.fedrep_private import FedRepConfig, FedRepPrivate
from research.jain.fedrep_private import calibrated as calibrated_fedrep
from research.jain.single_model import SingleModel, SingleModelConfig
from research.personalisation.learning import Learner


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByNumber:
    """Every so-manieth row. Public."""

    of: int
    """>= 1."""
    number: int
    """Which of them, in 0..of - 1."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` take part."""
        return np.asarray(np.arange(start, stop) % self.of == self.number)


@dataclass(frozen=True, slots=True)
class DisjointCohorts:
    """Alternating rounds ask cohort after cohort; everybody takes part in the preparation round.

    Guarantee: user number j takes part in the rounds t = 1, 2, ... with ``(t - 1) mod cohorts = j mod cohorts`` and
    in no others.
    """

    cohorts: int
    """Number of cohorts; >= 2. Public."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: fewer than two cohorts.
        """
        require_whole("disjoint cohorts", self.cohorts, least=2)

    @property
    def assumption(self) -> str:
        """What the guarantee takes for granted."""
        return (
            "Every user has a public number that does not depend on her data, and takes part only in the rounds of "
            f"cohort (number modulo {self.cohorts}); of these rounds, which are about different users, the cohort "
            "that costs most is accounted."
        )

    def event_field(self, name: str) -> dict[str, Any] | None:
        """Kind, cohort, number of cohorts, and the pass as the round; None for the preparation round."""
        if name == round_name(0):
            return None
        number, cohort = divmod(round_number(name) - 1, self.cohorts)
        return {"kind": "disjoint", "cohort": cohort, "cohorts": self.cohorts, "round": f"pass-{number + 1}"}

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByNumber | None:
        """The cohort whose turn it is, a range of rows at a time; public, no coin is thrown."""
        stated = self.event_field(name)
        return None if stated is None else RowsByNumber(of=self.cohorts, number=stated["cohort"])


FIRST_SEED = 1
"""Settings were chosen on the data of seed 0, which is not among those reported."""
OWN, WITHOUT = "own", "nonprivate"
Settings: TypeAlias = RepresentationConfig | FedRepConfig | SingleModelConfig


def ways(rank: int, adjacency: Adjacency) -> dict[str, Settings]:
    """The private ones: ours, variants that are closer to the algorithms as printed, and baselines. Public."""
    ours = RepresentationConfig(rank=rank, adjacency=adjacency)
    fedrep = FedRepConfig(rank=rank, adjacency=adjacency)
    return {
        "altmin": ours,
        "altmin-as-printed": replace(
            ours, answer=AlternationTarget.RESPONSE, pairs=Pairs.DISJOINT, step_bounds=(1.0, 1.0)
        ),
        "altmin-disjoint": replace(ours, cohorts=ours.rounds),
        "fedrep": fedrep,
        "fedrep-as-stated": replace(fedrep, clip_norms=(fedrep.clip_norms[0],) * fedrep.rounds),
        "single": SingleModelConfig(adjacency=adjacency),
    }


def errors_without(population: Population) -> dict[str, float]:
    """Population mean squared error on own data alone, and on a shared representation without privacy."""
    source = population.source
    shared = shared_without_privacy(population.examples, RepresentationConfig(rank=source.rank))
    own = population.mean_squared_error(np.eye(source.dimension), own_models(population.examples))
    return {OWN: own, WITHOUT: _personal_error(population, shared)}


def error_of(
    settings: Settings,
    population: Population,
    *,
    epsilon: float,
    delta: float,
    seed: int,
    place: Path,
    workers: int = 1,
) -> float:
    """Population mean squared error after a whole run with ledger, noise and boards. Not private.

    Args:
        settings: one of ``ways``.
        population: the data and the truth behind them.
        epsilon: of the run.
        delta: of the run.
        seed: of the noise.
        place: new folder for ledger and boards.
        workers: threads.
    """
    cohorts = settings.cohorts if isinstance(settings, RepresentationConfig) else 1
    learner = Learner(
        task=_task(settings, epsilon, delta),
        budget=Budget(epsilon=epsilon, delta=delta, adjacency=settings.adjacency),
        noise=SeededNoise(seed),
        participation=FullParticipation() if cohorts == 1 else DisjointCohorts(cohorts),
        workers=workers,
    )
    catalogue = population.source.catalogue
    board = learner.learn(population.examples, catalogue, place, dataset=f"made up from seed {seed}")
    if "representation" in board.arrays:
        return _personal_error(population, representation_of(board))
    return population.mean_squared_error(np.asarray(board.arrays["model"])[:, None], np.ones(1))


def means(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Over the seeds, by method."""
    rows = list(each)
    return {name: float(np.mean([errors[name] for errors in rows])) for name in rows[0]}


def _task(settings: Settings, epsilon: float, delta: float) -> ExampleTask:
    match settings:
        case RepresentationConfig():
            return Representation(calibrated(settings, epsilon=epsilon, delta=delta))
        case FedRepConfig():
            return FedRepPrivate(calibrated_fedrep(settings, epsilon=epsilon, delta=delta))
    return SingleModel.calibrated(settings, epsilon=epsilon, delta=delta)


def _personal_error(population: Population, representation: FloatArray) -> float:
    """Everybody fits her own vector to her examples."""
    settings = RepresentationConfig(rank=representation.shape[1])
    vectors = fit_all(population.examples, representation, settings)
    return population.mean_squared_error(representation, vectors)
