"""AdaDPSGD: noisy gradient steps on the item vectors, the budget shared adaptively among items.

Krichene et al. (2023), Alg. 2 within Alg. 3. One round is one gradient step:

* device:  v_j = argmin_v  sum_i (<u_i, v> - y_ij)^2 + user_ridge n_j^e |v|^2, with u of the last solve
* server:  u_i <- project(u_i + eta_i (g_i - 2 reg_i u_i [- 2 alpha0 omega_i G u_i])),
           g_i = sum_j w_ij clip(-2 (<u_i, v_j> - y_ij) v_j, Gamma_g) + noise

Clipping is per example, as the paper's proof needs it (its line 5 clips the sum, which bounds nobody's part).
The model, the preparation round and the weights are those of AdaDPALS; only the item step differs.

Learning rates are those of noisy gradient descent on weighted tasks, by theorem 3.12 (a). Weights here have squares
that sum to at most 1 for each user, and noise of deviation z Gamma a step, so that T steps have the Gaussian
guarantee mu = sqrt(T) / z. The paper's weights are larger by sqrt(beta), beta = mu^2 / 2.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals, model_rules
from fedboard.common.algorithms.adadpals.config import needs_population
from fedboard.common.algorithms.adadpals.server import psd_matrix, regression
from fedboard.common.algorithms.adadpsgd.config import (
    AdaDpsgdConfig,
    AdaDpsgdShares,
    gradient_step,
    preparation,
    shares_by_release,
)
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import ArrayRule, vectors
from fedboard.common.algorithms.shared.preparation import Passed, answer
from fedboard.common.algorithms.shared.ratings_config import Feedback
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
        factors, labels = board.arrays["item_factors"], self._model.labels(cohort, board)
        norms = np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
        longest = _INSIDE * self.settings.gradient_clip / norms
        rows, found = cohort.user_of_entry(), np.empty(cohort.n_ratings)
        for first in range(0, cohort.n_ratings, _ENTRIES_AT_ONCE):
            part = slice(first, first + _ENTRIES_AT_ONCE)
            own, u = rows[part], factors[cohort.items[part]]
            predicted = np.einsum("pd,pd->p", u, vectors[own], dtype=np.float64)
            found[part] = np.clip(2.0 * (labels[part] - predicted), -longest[own], longest[own])
        return found

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


def lipschitz_rates(
    t: float, *, diameter: float, clip: float, noise_multiplier: float, rank: int, pull: FloatArray
) -> FloatArray:
    """Part (a): ``eta_i = |C| / (Gamma sqrt(c_i^2 + z^2 d) sqrt t)``, c_i = omega_i n_i.

    Args:
        t: number of the step, >= 1.
        diameter: |C| of the domain.
        clip: Gamma, bound on the gradient of one example.
        noise_multiplier: z of a step.
        rank: d.
        pull: c_i, sum of an item's weights, float64, shape (n_items,). Public.
    """
    bound = clip * np.sqrt(pull**2 + noise_multiplier**2 * rank)
    return np.asarray(diameter / (bound * math.sqrt(t)), dtype=np.float64)


def after_preparation(prepared: Board, released: ReleasedSums, settings: AdaDpsgdConfig) -> Board:
    """The board of the preparation round, with what the steps need: c_i, and vectors of the chosen length.

    Args:
        prepared: what AdaDPALS makes of the same releases.
        released: has the number of users.
        settings: public.
    """
    arrays = dict(prepared.arrays)
    factors = arrays["item_factors"] * np.float32(settings.first_norm)
    factors[arrays["learnt"] == 0] = 0.0
    arrays["item_factors"] = factors
    population = None
    if not needs_population(settings.model):  # else it went into the weights, which are on scale then
        population = max(float(released.array("users")[0, 0]), 1.0)
    arrays["item_pull"] = weight_sums(arrays["item_counts"], arrays["item_weights"], population, settings)
    if settings.steps_per_solve > 1:
        arrays["solve_factors"] = factors
    return replace(prepared, arrays=arrays, _digest=[])


def weight_sums(
    counts: FloatArray, omega: FloatArray, population: float | None, settings: AdaDpsgdConfig
) -> FloatArray:
    """Estimate of c_i = sum_j w_ij from released counts, for learning rates.

    As if every user had as many ratings as the average one, on items in proportion to their counts; c_i enters
    rates alone.

    Args:
        counts: released n_i >= 1, float64, shape (n_items,).
        omega: item weights, float64, shape (n_items,).
        population: released number of users, >= 1; None for the clipped weightings, whose omega is w_ij itself.
        settings: public.

    Returns:
        float64, shape (n_items,), > 0.
    """
    if population is None:
        return counts * omega
    if settings.weights.samples:
        usual, taken = float(counts.sum()) / population, float(settings.items_per_user)
        return counts * min(1.0, taken / usual) / math.sqrt(taken)
    return counts * omega * math.sqrt(population / float(np.sum(counts * omega**2)))


def after_step(
    board: Board,
    released: ReleasedSums,
    requests: Mapping[SumSource, Request],
    settings: AdaDpsgdConfig,
) -> Board:
    """One step of every item, projected on the ball of radius C."""
    gradient, start = requests[SumSource.ITEM_LINEAR], board.arrays["item_factors"].astype(np.float64)
    gram = _gram_now(board, released, requests, settings)
    # Beside the ratings an item's objective has reg_i |u|^2 + a_i u^T G u.
    ridge, unobserved = (
        board.arrays["item_ridge"],
        settings.item_unobserved_weight * board.arrays["item_scale"],
    )
    pull, curvature, arrays = 2.0 * ridge[:, None] * start, 2.0 * ridge, dict[str, Any]()
    if gram is not None:
        pull += 2.0 * unobserved[:, None] * (start @ gram)
        curvature = curvature + 2.0 * unobserved * float(np.linalg.eigvalsh(gram)[-1])
        arrays["gram"] = gram
    sums = released.map_items((gradient.name,), Passed(gradient.name), width=settings.rank)
    rates = _rates(board, gradient, curvature, settings)
    factors = _projected(start + rates[:, None] * (sums - pull), settings.radius)
    factors[board.arrays["learnt"] == 0] = 0.0
    arrays["item_factors"] = factors
    if settings.steps_per_solve > 1 and settings.solves(board.version + 1):
        arrays["solve_factors"] = factors
    return board.successor(**arrays)


def _rates(board: Board, gradient: Request, curvature: FloatArray, settings: AdaDpsgdConfig) -> FloatArray:
    """eta_i of this step, float64, shape (n_items,).

    Beyond the theorem, the curvature of what is not in the sums (ridge, unobserved term) makes steps shorter.
    """
    of_theorem = lipschitz_rates(
        board.version,
        diameter=2.0 * settings.radius,
        clip=gradient.release.l2_bound * gradient.release.grid_step,
        noise_multiplier=gradient.release.noise_multiplier,
        rank=settings.rank,
        pull=board.arrays["item_pull"],
    )
    return settings.rate / (1.0 / of_theorem + curvature)


def _gram_now(
    board: Board,
    released: ReleasedSums,
    requests: Mapping[SumSource, Request],
    settings: AdaDpsgdConfig,
) -> FloatArray | None:
    """G, released now or at the last solve; None for explicit feedback, or where that round was lost."""
    if SumSource.QUADRATIC not in requests:
        kept = board.arrays.get("gram")
        return None if kept is None else np.asarray(kept, dtype=np.float64)
    return psd_matrix(released.array(requests[SumSource.QUADRATIC].name), settings.rank)


def _projected(vectors: FloatArray, radius: float) -> Float32Array:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    inside: Float32Array = (vectors * (radius / np.maximum(norms, radius))).astype(np.float32)
    return inside


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
    regression=lambda settings, own, board: regression(settings.model, own, board),
)
"""One task with five weightings."""
