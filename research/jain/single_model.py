"""The single model: one private linear regression for all users, as if they were alike. A baseline.

``fedboard simulate --algorithm research/jain/single_model.py:ALGORITHM``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.algorithms.representation.algorithm import solved_step, unit_total
from fedboard.common.algorithms.representation.config import NoisedSettings
from fedboard.common.algorithms.representation.device import moment_rows, packed_width
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm, Examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import Positive, require
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.task import ReleasedSums

_CURVATURE, _GRADIENT = "curvature", "gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleModelConfig(NoisedSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    model_bound: Positive = 1.0
    """A user whose own normal equations ask for ``|theta|`` beyond this is scaled down, ``|b_j| > bound |G_j|``."""
    clip_norm: Positive = 1e-4
    """Norm in the units of the data up to which a user is not scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleModelShares:
    """How mu^2 is shared between the two sums."""

    curvature: float = 0.5
    """For ``X^T X``, in (0, 1); the rest is for ``X^T y``."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: a share is not in (0, 1).
        """
        require(0 < self.curvature < 1, "share of curvature", "in (0, 1)", self.curvature)


def shares_by_release(settings: SingleModelConfig, shares: SingleModelShares) -> dict[str, float]:
    """Share of mu^2 of each release; sums to 1."""
    return {_CURVATURE: shares.curvature, _GRADIENT: 1.0 - shares.curvature}


@dataclass(frozen=True, slots=True)
class SingleModel:
    """``theta = argmin sum_ij (<x_ij, theta> - y_ij)^2`` from noisy ``X^T X`` and ``X^T y``, one round.

    Reference: Sheffet (2017), arXiv:1507.00056 (noisy sufficient statistics); Jain et al. (2021), sec. 6, "single
    model".
    """

    NAME: ClassVar[str] = "single-model"
    settings: SingleModelConfig

    @staticmethod
    def calibrated(settings: SingleModelConfig, *, epsilon: float, delta: float) -> "SingleModel":
        """With the noise that keeps each user within (epsilon, delta), half of mu^2 for each sum."""
        shared = shares_by_release(settings, SingleModelShares())
        multipliers = noise_multipliers(epsilon, delta, shared)
        return SingleModel(replace(settings, noise_multipliers=multipliers))

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        built: Mapping[str, Any] = msgspec.to_builtins(self.settings)
        return built

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """One round; widths are the board's when asked."""
        return (self._requests(1),)

    def first_board(self, catalogue: Catalogue) -> Board:
        """A model of zeros over the features that the catalogue names."""
        arrays = {"model": np.zeros(catalogue.n_items)}
        return Board(version=0, task=self.name, config=self.config, arrays=arrays, catalogue=catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """Both sums, once."""
        return () if board.version else self._requests(board.catalogue.n_items)

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Each user's ``X^T X`` and ``X^T y``, scaled together."""
        padded = examples.padded()
        rows = moment_rows(
            padded,
            np.ones((examples.n_users, 1)),
            curvatures=padded.used.astype(np.float64),
            answers=padded.labels,
            step_bound=self.settings.model_bound,
            clip_norm=self.settings.clip_norm,
        )
        totals = dict(zip((_CURVATURE, _GRADIENT), rows, strict=True))
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=examples.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """Solve the noised normal equations."""
        curvature, _ = self._requests(board.catalogue.n_items)
        model = solved_step(
            released.array(_CURVATURE)[0],
            released.array(_GRADIENT)[0],
            dimension=board.catalogue.n_items,
            noise_stddev=curvature.release.noise_stddev * curvature.release.grid_step,
        )
        return board.successor(model=model[:, 0])

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """Nothing is anybody's own: float64, shape (n_users, 0)."""
        return np.zeros((examples.n_users, 0))

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """The board's one model, float64, shape (n_examples,)."""
        return examples.features.astype(np.float64) @ np.asarray(board.arrays["model"], dtype=np.float64)

    def _requests(self, dimension: int) -> tuple[Request, ...]:
        settings = self.settings
        return (
            unit_total(
                _CURVATURE, packed_width(dimension), settings, covers="second moments of the features"
            ),
            unit_total(
                _GRADIENT,
                dimension,
                settings,
                scale=settings.model_bound,
                covers="correlations of features and labels",
            ),
        )


def _array_rules(board: Board, settings: SingleModelConfig) -> tuple[ArrayRule, ...]:
    shape = (board.catalogue.n_items,)
    return (ArrayRule(name="model", dtype=np.dtype(np.float64), shape=shape),)


ALGORITHM = ExampleAlgorithm(
    name=SingleModel.NAME,
    settings=SingleModelConfig,
    shares=SingleModelShares,
    shares_by_release=shares_by_release,
    task=SingleModel,
    array_rules=_array_rules,
    fixed={},
)
"""A baseline."""
