"""DPMF in finitely many steps: Langevin dynamics on the item vectors whose noise is the released Gaussian noise.

The density of Liu, Wang and Smola (2015), proportional to ``exp(-s F - (precision / 2) |items|^2)`` with F the
trimmed and weighted squared error, is what the steps aim at. How near they come is not known, so the guarantee does
not rest on it: each user's gradient is clipped as a whole, summed, noised and booked like any release. One step:

* device:  c_j, v_j = ridge regression of her ratings on the board (eq. 5)
           r_ij = y_ij - mean - b_i - c_j - <u_i, v_j>
* server:  B_i <- B_i + h s a_i g_i - (h / 2) a_i^2 precision B_i,   g_i = sum_j f_j a_i w_j r_ij x_j + noise,
           x_j = (bias_scale, v_j), B_i = (b_i / bias_scale, u_i), over at most tau of her ratings

f_j clips the whole contribution; a_i from private counts is the root of a preconditioner. With deviation sigma of
the noise, ``h = temperature / (s sigma)^2`` makes its variance in the step what Langevin dynamics asks for at that
length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.per_user.clipping import quantise_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.langevin import releases as langevin_requests
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.langevin.update import after_preparation, after_step, kept_ratings, user_weights
from fedboard.common.tasks.residual.local import ItemModel, Unclipped, fit_users, residuals
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.array_rules import (
    ROUNDING,
    ArrayRule,
    biased_model,
    mean_rating,
    number,
    prepared,
)
from fedboard.common.tasks.shared.preparation import capped_counts, capped_mean
from fedboard.common.tasks.shared.written import as_written


def array_rules(board: Board, settings: LangevinConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = biased_model(board, settings.rank)
    if board.version == 0:
        return model
    largest = settings.vector_bound * settings.model.residual_bound
    clip_norm = number("clip_norm", largest * ROUNDING, largest)
    return (*model, *prepared(board), *mean_rating(settings.shared), clip_norm)


@dataclass(frozen=True, slots=True)
class Langevin:
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "langevin"
    settings: LangevinConfig
    backend: str = "numpy"
    """Which kernels compute; never changes what is computed."""

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        return as_written(self.settings)

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """Preparation, then the steps; what only a board can say is filled in when a round is asked."""
        steps = range(1, self.settings.steps + 1)
        return (
            langevin_requests.preparation(self.settings, n_items=1),
            *(langevin_requests.step(self.settings, t, n_items=1, clip_norm=None) for t in steps),
        )

    def first_board(self, catalogue: Catalogue) -> Board:
        """A draw of the prior from the public seed; holds no data."""
        rng = np.random.default_rng(self.settings.shared.public_seed)
        drawn = rng.standard_normal((catalogue.n_items, self.settings.rank)) / self.settings.precision**0.5
        return Board(
            version=0,
            task=self.name,
            config=self.config,
            arrays={
                "item_factors": drawn.astype(np.float32),
                "item_biases": np.zeros(catalogue.n_items, dtype=np.float32),
            },
            catalogue=catalogue.without_features,
        )

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks."""
        n_items = board.catalogue.n_items
        if board.version == 0:
            return langevin_requests.preparation(self.settings, n_items=n_items)
        if board.version > self.settings.steps:
            return ()
        clip_norm = float(board.arrays["clip_norm"][0])
        return langevin_requests.step(self.settings, board.version, n_items=n_items, clip_norm=clip_norm)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Each user's bias and embedding from all her ratings, float32, shape (n_users, 1 + rank). Private."""
        return self._shared.fit_local(cohort, board)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        if board.version == 0:
            return Contribution(
                n_items=cohort.n_items,
                indptr=cohort.indptr,
                items=cohort.items,
                weights=quantise_weights(capped_counts(cohort, self.settings.shared.count_cap)),
                totals=capped_mean(cohort, self.settings.shared),
            )
        part = self._measure(cohort, board)
        return part.clipped(part.norms(), float(board.arrays["clip_norm"][0]))

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """w_j a_i of each rating that is kept, 0 of the others; float64, shape (n_ratings,). Private."""
        most, largest = self.settings.most_ratings, self.settings.largest_weight
        own = user_weights(np.minimum(cohort.counts, most), most=most, largest=largest)
        weights: FloatArray = np.repeat(own, cohort.counts) * board.arrays["item_weights"][cohort.items]
        weights[~kept_ratings(cohort, most=most, seed=self.settings.device_seed)] = 0.0
        return weights

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        if board.version == 0:
            return after_preparation(board, released, self.settings)
        (request,) = self.requests(board)
        return after_step(board, released, request, self.settings)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range, float64, shape (n_pairs,)."""
        return self._shared.predict(local, board, users, items)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors whose inner products order the items for each user: (1, v_j) and (b_i, u_i)."""
        return self._shared.ranking_factors(local, board)

    @property
    def _shared(self) -> Residual:
        """The task whose model of ratings this one's is."""
        return Residual(self.settings.model, backend=self.backend)

    def _measure(self, cohort: Cohort, board: Board) -> Unclipped:
        """Each user's gradient on the ratings that she keeps, before it is clipped; her vector is from all."""
        settings, shared = self.settings, self.settings.model
        model = ItemModel(
            mean=float(board.arrays["mean"][0]),
            biases=board.arrays["item_biases"],
            factors=np.asarray(board.arrays["item_factors"]),
        )
        local = fit_users(cohort, model, shared, backend=self.backend, user_ridge=shared.user_ridge)
        constant = np.full((cohort.n_users, 1), settings.bias_scale)
        return Unclipped.of(
            cohort,
            self.weigh(cohort, board),
            residuals(cohort, local, model),
            np.hstack([constant, local[:, 1:]]),
            residual_bound=shared.residual_bound,
            vector_bound=settings.vector_bound,
        )
