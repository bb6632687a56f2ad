"""AdaDPSGD: noisy gradient steps on the item vectors, the budget shared adaptively among items.

Krichene et al. (2023), Alg. 2 within Alg. 3. One round is one gradient step:

* device:  v_j = argmin_v  sum_i (<u_i, v> - y_ij)^2 + user_ridge n_j^e |v|^2, with u of the last solve
* server:  u_i <- project(u_i + eta_i (g_i - 2 reg_i u_i [- 2 alpha0 omega_i G u_i])),
           g_i = sum_j w_ij clip(-2 (<u_i, v_j> - y_ij) v_j, Gamma_g) + noise

Clipping is per example, as the paper's proof needs it (its line 5 clips the sum, which bounds nobody's part).
The model, the preparation round and the weights are those of AdaDPALS; only the item step differs.
"""

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import ClassVar

import numpy as np

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals, model_rules
from fedboard.common.algorithms.adadpals.update import regression
from fedboard.common.algorithms.adadpsgd.config import (
    AdaDpsgdConfig,
    AdaDpsgdShares,
    gradient_step,
    preparation,
    shares_by_release,
)
from fedboard.common.algorithms.adadpsgd.update import after_preparation, after_step
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import ArrayRule, vectors
from fedboard.common.algorithms.shared.preparation import answer
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    VECTOR_BOUND,
    clip_responses,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.task import ReleasedSums


def array_rules(board: Board, settings: AdaDpsgdConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    kept = board.version > 0 and settings.steps_per_solve > 1
    solved = vectors("solve_factors", board, settings.rank, needed=kept)
    # Its bounds are fixed, so a moving one is none of its arrays; what is there under that name is not read.
    return (*model_rules(board, settings.model), solved)


_INSIDE = 1.0 - 1e-6  # keeps a clipped gradient inside its bound whatever floating point does
_ENTRIES_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class AdaDpsgd(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "adadpsgd"
    settings: AdaDpsgdConfig

    @property
    def _model(self) -> AdaDpals:
        return AdaDpals(self.settings.model, backend=self.backend)

    def first_board(self, catalogue: Catalogue) -> Board:
        """Random item factors from the public seed; holds no data."""
        return replace(self._model.first_board(catalogue), task=self.name, config=self.config)

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """Preparation, then one gradient step a round."""
        if version == 0:
            return preparation(self.settings, n_items=n_items)
        if version > self.settings.steps:
            return ()
        return gradient_step(self.settings, version, n_items=n_items)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Solve each user's ridge regression exactly; float32, shape (n_users, rank). Private, unclipped."""
        return self._model.fit_local(cohort, board)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        if requests[0].source is not SumSource.ITEM_LINEAR:
            return self._model.contribute(cohort, board, requests)
        settings = self.settings
        vectors = clip_vectors(self.fit_local(cohort, _at_last_solve(board)), settings.vector_bound)
        return answer(
            cohort,
            weights=quantise_weights(self.weigh(cohort, board)),
            vectors=vectors,
            responses=clip_responses(
                self._responses(
                    cohort, board, vectors.astype(np.float64) * (settings.vector_bound / VECTOR_BOUND)
                ),
                settings.response_bound,
            ),
        )

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """How each user shares her budget among her items; float64, shape (n_ratings,). Private.

        Squares of a user's weights sum to at most 1; items that are not learnt get nothing.
        """
        return self._model.weigh(cohort, board)

    def _responses(self, cohort: Cohort, board: Board, vectors: FloatArray) -> FloatArray:
        """-2 (<u_i, v_j> - y_ij), scaled so that its product with v_j is no longer than Gamma_g.

        Along v_j lies the whole gradient of an example, so clipping it is a scale on this number.
        """
        factors, labels = board.arrays["item_factors"], self._labels(cohort, board)
        norms = np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
        longest = _INSIDE * self.settings.gradient_clip / norms
        rows, found = cohort.user_of_entry(), np.empty(cohort.n_ratings)
        for first in range(0, cohort.n_ratings, _ENTRIES_AT_ONCE):
            part = slice(first, first + _ENTRIES_AT_ONCE)
            own, u = rows[part], factors[cohort.items[part]]
            predicted = np.einsum("pd,pd->p", u, vectors[own], dtype=np.float64)
            found[part] = np.clip(2.0 * (labels[part] - predicted), -longest[own], longest[own])
        return found

    def _labels(self, cohort: Cohort, board: Board) -> Float32Array:
        if self.settings.shared.feedback is Feedback.IMPLICIT:
            return cohort.ratings
        return cohort.ratings - np.float32(board.arrays["mean"][0])

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        if board.version == 0:
            prepared = self._model.update(board, released)
            return after_preparation(prepared, released, self.settings)
        requests = {request.source: request for request in self.requests(board)}
        return after_step(board, released, requests, self.settings)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """The users' and the items' factors as they are."""
        return self._model.ranking_factors(local, board)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range, or scores for implicit feedback; float64, shape (n_pairs,)."""
        return self._model.predict(local, board, users, items)


def _at_last_solve(board: Board) -> Board:
    """The board with the item factors on which users last solved their vectors."""
    solved = board.arrays.get("solve_factors")
    if solved is None:
        return board
    return replace(board, arrays={**board.arrays, "item_factors": solved})


def _regression(settings: AdaDpsgdConfig, own: Cohort, board: Board) -> Regression:
    return regression(settings.model, own, board)


ALGORITHM = Algorithm(
    name=AdaDpsgd.NAME,
    variants={
        "adadpsgd": {"weights": WeightScheme.ADAPTIVE},
        "adadpsgd-clipped": {"weights": WeightScheme.ADAPTIVE_CLIPPED},
        "adadpsgd-overcount": {"weights": WeightScheme.ADAPTIVE_OVERCOUNT},
        "dpsgd-tail": {"weights": WeightScheme.TAIL},
        "dpsgd-uniform": {"weights": WeightScheme.UNIFORM},
    },
    feedback=frozenset(Feedback),
    settings=AdaDpsgdConfig,
    shares=AdaDpsgdShares,
    shares_by_release=shares_by_release,
    task=AdaDpsgd.made,
    array_rules=array_rules,
    folder=files(__package__),
    regression=_regression,
)
"""One task with five weightings."""
