"""Ways to learn a shared representation privately, by name, run as any run and judged alike."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedboard import Budget
from fedboard.common.arrays import FloatArray
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.tasks.on_examples.examples import ExampleTask
from fedboard.common.tasks.representation.algorithm import Representation, representation_of
from fedboard.common.tasks.representation.config import (
    AlternationTarget,
    Pairs,
    RepresentationConfig,
    calibrated,
)
from fedboard.simulations.baselines.examples import fit_all
from fedboard.simulations.datasets.synthetic.examples import Population
from research.jain.fedrep_private import FedRepConfig, FedRepPrivate
from research.jain.fedrep_private import calibrated as calibrated_fedrep
from research.jain.single_model import SingleModel, SingleModelConfig
from research.personalisation.learning import Learner


@dataclass(frozen=True, slots=True)
class Method:
    """One way: from (epsilon, delta) to a calibrated task. Public."""

    task: Callable[[float, float], ExampleTask]
    adjacency: Adjacency

    @staticmethod
    def altmin(*, rank: int, adjacency: Adjacency) -> "Method":
        """Alternating minimisation with our residual answers."""
        settings = RepresentationConfig(rank=rank, adjacency=adjacency)
        return Method(lambda e, d: Representation(calibrated(settings, epsilon=e, delta=d)), adjacency)

    @staticmethod
    def altmin_as_printed(*, rank: int, adjacency: Adjacency) -> "Method":
        """The same with labels as answers and disjoint pairs, as in its Algorithms 2 and 3."""
        settings = RepresentationConfig(
            rank=rank,
            adjacency=adjacency,
            answer=AlternationTarget.RESPONSE,
            pairs=Pairs.DISJOINT,
            step_bounds=(1.0, 1.0),
        )
        return Method(lambda e, d: Representation(calibrated(settings, epsilon=e, delta=d)), adjacency)

    @staticmethod
    def fedrep(*, rank: int, adjacency: Adjacency) -> "Method":
        """Gradient steps whose clipping norm falls from round to round."""
        settings = FedRepConfig(rank=rank, adjacency=adjacency)
        return Method(lambda e, d: FedRepPrivate(calibrated_fedrep(settings, epsilon=e, delta=d)), adjacency)

    @staticmethod
    def fedrep_as_stated(*, rank: int, adjacency: Adjacency) -> "Method":
        """The same with one clipping norm for all rounds, as its authors have."""
        usual = FedRepConfig(rank=rank, adjacency=adjacency)
        settings = replace(usual, clip_norms=(usual.clip_norms[0],) * usual.rounds)
        return Method(lambda e, d: FedRepPrivate(calibrated_fedrep(settings, epsilon=e, delta=d)), adjacency)

    @staticmethod
    def single(*, adjacency: Adjacency) -> "Method":
        """One model for everybody."""
        settings = SingleModelConfig(adjacency=adjacency)
        return Method(lambda e, d: SingleModel.calibrated(settings, epsilon=e, delta=d), adjacency)

    def error(
        self,
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
            population: the data and the truth behind them.
            epsilon: of the run.
            delta: of the run.
            seed: of the noise.
            place: new folder for ledger and boards.
            workers: threads.
        """
        learner = Learner(
            task=self.task(epsilon, delta),
            budget=Budget(epsilon=epsilon, delta=delta, adjacency=self.adjacency),
            noise=SeededNoise(seed),
            workers=workers,
        )
        catalogue = population.source.catalogue
        board = learner.learn(population.examples, catalogue, place, dataset=f"made up from seed {seed}")
        if "representation" in board.arrays:
            return personal_error(population, representation_of(board))
        return population.mean_squared_error(np.asarray(board.arrays["model"])[:, None], np.ones(1))


def personal_error(population: Population, representation: FloatArray) -> float:
    """Population mean squared error where everybody fits her own vector to her examples. Not private."""
    settings = RepresentationConfig(rank=representation.shape[1])
    return population.mean_squared_error(
        representation, fit_all(population.examples, representation, settings)
    )
