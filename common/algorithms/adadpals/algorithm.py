"""AdaDPALS: alternating least squares by noisy sufficient statistics, the budget shared adaptively among items.

Krichene et al. (2023), Alg. 1 and 3, as corrected in this package: labels are clipped, the regularisation
comes from private counts, symmetric noise is isometric, accounting is exact. One round:

* device:  v_j = argmin_v  sum_i (<u_i, v> - y_ij)^2 + user_ridge n_j^e |v|^2  [+ alpha0 sum_all <u_i, v>^2]
* server:  u_i = (PSD(A_i) + reg_i I [+ alpha0 omega_i G])^-1 b_i,  A_i = sum_j w_ij v_j v_j^T + noise,
           b_i = sum_j w_ij clip(y_ij) v_j + noise,  G = sum_j v_j v_j^T + noise

``uniform`` and ``tail`` weights make it DPALS (Chien et al. 2021).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np

from fedboard.common.algorithms.adadpals import server
from fedboard.common.algorithms.adadpals.config import (
    AdaDpalsConfig,
    BudgetShares,
    alternation,
    needs_population,
    preparation,
    shares_by_release,
    written_config,
)
from fedboard.common.algorithms.shared import array_rules as rules
from fedboard.common.algorithms.shared.adaptive_clipping import clip_norm_of, clip_rows, next_clip_norm
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import vectors
from fedboard.common.algorithms.shared.preparation import (
    ONE_USER,
    answer,
    capped_counts,
    capped_mean,
    head_of,
    moments_of,
    released_level,
    released_mean,
    share_among_learnt,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.regression import fit_vectors, user_ridges
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import AnyArray, Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import clip_responses, clip_vectors, quantise_weights
from fedboard.common.contribution_bounding.weights import WeightScheme, entry_weights, item_weights
from fedboard.common.task import ReleasedSums


def array_rules(board: Board, settings: AdaDpalsConfig) -> tuple[rules.ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    return (*model_rules(board, settings), *_bias_rules(board, settings), rules.moving_clip_norm(settings))


def _bias_rules(board: Board, settings: AdaDpalsConfig) -> tuple[rules.ArrayRule, ...]:
    if not settings.biases or not board.version:
        return ()
    spread = rules.number("spread", 0.0, settings.shared.half_range)
    return (rules.biased_model(board, settings.rank)[1], spread)


def model_rules(board: Board, settings: AdaDpalsConfig) -> tuple[rules.ArrayRule, ...]:
    """Those of the model itself, without what follows the users' norms."""
    return (
        vectors("item_factors", board, settings.rank),
        *(rules.prepared(board) if board.version else ()),
        *(
            rules.mean_rating(settings.shared)
            if board.version and settings.shared.feedback is Feedback.EXPLICIT
            else ()
        ),
    )


@dataclass(frozen=True, slots=True)
class AdaDpals(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "adadpals"
    settings: AdaDpalsConfig

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able; without what is unused as it was written before there was any."""
        return written_config(self.settings)

    def first_board(self, catalogue: Catalogue) -> Board:
        """Random item factors from the public seed; holds no data."""
        rng = np.random.default_rng(self.settings.shared.public_seed)
        factors = rng.standard_normal((catalogue.n_items, self.settings.rank), dtype=np.float32)
        factors /= np.float32(np.sqrt(self.settings.rank) / self.settings.first_norm)
        return self.begun(catalogue.without_features, item_factors=factors)

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """Preparation, the round of item biases if there is one, then the alternations."""
        settings, t = self.settings, self._alternation(version)
        if version == 0:
            return preparation(settings, n_items=n_items)
        if t == 0:
            return server.bias_requests(settings, n_items=n_items)
        if t > settings.rounds:
            return ()
        clip_norm = settings.clip_norm if board is None else clip_norm_of(board, settings)
        return alternation(settings, t, n_items=n_items, clip_norm=clip_norm)

    def _alternation(self, version: int) -> int:
        """Number of the round after a board of this version, from 1; 0 for that of the item biases."""
        return version - int(self.settings.biases)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Solve each user's ridge regression exactly; float32, shape (n_users, rank). Private, unclipped.

        With biases the user's own comes first: shape (n_users, 1 + rank).
        """
        settings = self.settings
        if settings.biases:
            return server.BiasedModel.of(board).fit(cohort, settings, backend=self.backend)
        return fit_vectors(
            cohort,
            self.labels(cohort, board),
            board.arrays["item_factors"],
            ridge=user_ridges(cohort, settings.user_ridge, settings.user_ridge_exponent),
            unobserved_weight=settings.unobserved_weight,
            backend=self.backend,
        )

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        if board.version == 0:
            return self._contribute_preparation(cohort, requests)
        if self._alternation(board.version) == 0:
            return server.contribute_biases(cohort, board, self.settings)
        vectors, clip_norm = self.fit_local(cohort, board), clip_norm_of(board, self.settings)
        labels = self.labels(cohort, board)
        if self.settings.biases:
            labels, vectors = labels - vectors[cohort.user_of_entry(), 0], vectors[:, 1:]

        def norms() -> FloatArray:
            found: FloatArray = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
            return found

        return answer(
            cohort,
            weights=quantise_weights(self.weigh(cohort, board)),
            vectors=clip_vectors(vectors, clip_norm),
            responses=clip_responses(labels, self.settings.label_bound),
            totals=clip_rows(self.settings, self._alternation(board.version), cohort, norms, clip_norm),
        )

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """How each user shares her budget among her items; float64, shape (n_ratings,). Private.

        Squares of a user's weights sum to at most 1; items that are not learnt get nothing.
        """
        return share_among_learnt(cohort, board, lambda own: self._share(own, board))

    def _share(self, cohort: Cohort, board: Board) -> FloatArray:
        return entry_weights(
            self.settings.weights,
            cohort,
            np.asarray(board.arrays["item_weights"]),
            items_per_user=self.settings.items_per_user,
            seed=self.settings.device_seed,
            backend=self.backend,
        )

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        if board.version == 0:
            return self._update_preparation(board, released)
        requests = self.requests(board)
        t = self._alternation(board.version)
        if t == 0:
            return server.after_biases(board, released, requests)
        names = {request.source: request.name for request in requests}
        clip_norm = clip_norm_of(board, self.settings)
        solver = server.ItemSolver(
            quadratic=names[SumSource.ITEM_QUADRATIC],
            linear=names[SumSource.ITEM_LINEAR],
            ridge=board.arrays["item_ridge"] * (clip_norm / self.settings.clip_norm) ** 2,
            scale=board.arrays["item_scale"],
            gram=self._item_gram(names, released),
            backend=self.backend,
        )
        per_item = (solver.quadratic, solver.linear)
        factors = released.map_items(per_item, solver, width=self.settings.rank)
        factors[board.arrays["learnt"] == 0] = 0.0
        arrays = {"item_factors": server.gauged(self.settings, factors, board.arrays["item_counts"])}
        return board.successor(**arrays, **next_clip_norm(board, released, self.settings, t))

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """The users' and the items' factors as they are; with biases (1, v_j) and (b_i, u_i)."""
        if self.settings.biases:
            model, users = server.BiasedModel.of(board), local.copy()
            users[:, 0] = 1.0
            biases = board.arrays["item_biases"] / np.float32(model.spread)
            return users, np.column_stack([biases, model.factors])
        return local, np.ascontiguousarray(board.arrays["item_factors"])

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range, or scores for implicit feedback; float64, shape (n_pairs,)."""
        factors, shared = board.arrays["item_factors"], self.settings.shared
        if self.settings.biases:
            model, own = server.BiasedModel.of(board), local[users]
            found = own[:, 0] + np.einsum("pd,pd->p", factors[items], own[:, 1:], dtype=np.float64)
            found = model.base[items] + model.spread * found
            biased: FloatArray = np.clip(found, shared.rating_low, shared.rating_high)
            return biased
        scores: FloatArray = np.einsum("pd,pd->p", factors[items], local[users], dtype=np.float64)
        if self.settings.shared.feedback is Feedback.IMPLICIT:
            return scores
        mean = float(board.arrays["mean"][0])
        ratings: FloatArray = np.clip(scores + mean, shared.rating_low, shared.rating_high)
        return ratings

    def labels(self, cohort: Cohort, board: Board) -> Float32Array:
        """What vectors are fitted to; float32, shape (n_ratings,). Private."""
        if self.settings.shared.feedback is Feedback.IMPLICIT:
            return cohort.ratings
        if self.settings.biases:
            return server.BiasedModel.of(board).labels(cohort)
        return cohort.ratings - np.float32(board.arrays["mean"][0])

    def _contribute_preparation(self, cohort: Cohort, requests: tuple[Request, ...]) -> Contribution:
        totals = {"users": np.full((cohort.n_users, 1), ONE_USER, dtype=np.int64)}
        if self.settings.biases:
            totals["moments"] = moments_of(cohort, self.settings.shared)
        elif self.settings.shared.feedback is Feedback.EXPLICIT:
            totals |= capped_mean(cohort, self.settings.shared)
        return answer(
            cohort,
            weights=quantise_weights(capped_counts(cohort, self.settings.shared.count_cap)),
            totals={request.name: totals[request.name] for request in requests if request.name in totals},
        )

    def _update_preparation(self, board: Board, released: ReleasedSums) -> Board:
        settings, shared = self.settings, self.settings.shared
        mean, levels = 0.0, dict[str, AnyArray]()
        if settings.biases:
            level = released_level(released, self.requests(board)[0], shared)
            mean = level.mean
            levels["spread"], levels["population"] = np.array([level.spread]), np.array([level.users])
            levels["item_biases"] = np.zeros(board.catalogue.n_items, dtype=np.float32)
        elif shared.feedback is Feedback.EXPLICIT:
            mean = released_mean(released, shared)
        counts = np.maximum(released.array("counts")[:, 0], 1.0)
        omega = item_weights(
            settings.weights,
            counts,
            exponent=settings.weight_exponent,
            population=self._population(released),
            mean_budget=settings.mean_budget,
            accuracy=shared.noise_multipliers["counts"] * shared.count_cap**0.5 * released.noise_ratio,
        )
        return board.successor(
            mean=np.array([mean]),
            item_counts=counts,
            item_weights=omega,
            item_scale=server.unobserved_scale(settings, omega, counts),
            learnt=head_of(counts, settings.head_fraction),
            item_ridge=server.item_ridge_of(counts, settings),
            item_factors=server.gauged(settings, board.arrays["item_factors"], counts),
            **levels,
        )

    def _population(self, released: ReleasedSums) -> float | None:
        """The private number of users, which the clipped weightings alone need."""
        if not needs_population(self.settings):
            return None
        return max(float(released.array("users")[0, 0]), 1.0)

    def _item_gram(self, names: Mapping[SumSource, str], released: ReleasedSums) -> FloatArray | None:
        if SumSource.QUADRATIC not in names:
            return None
        packed, weight = released.array(names[SumSource.QUADRATIC]), self.settings.item_unobserved_weight
        return server.psd_matrix(packed, self.settings.rank, weight=weight)


ALGORITHM = Algorithm(
    name=AdaDpals.NAME,
    variants={
        "adadpals": {"weights": WeightScheme.ADAPTIVE},
        "adadpals-clipped": {"weights": WeightScheme.ADAPTIVE_CLIPPED},
        "adadpals-overcount": {"weights": WeightScheme.ADAPTIVE_OVERCOUNT},
        "dpals-tail": {"weights": WeightScheme.TAIL},
        "dpals-uniform": {"weights": WeightScheme.UNIFORM},
    },
    feedback=frozenset(Feedback),
    settings=AdaDpalsConfig,
    shares=BudgetShares,
    shares_by_release=shares_by_release,
    task=AdaDpals.made,
    array_rules=array_rules,
    folder=files(__package__),
    regression=server.regression,
    not_called=frozenset({"left_out"}),
)
"""One task with five weightings."""
