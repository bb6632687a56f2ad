"""Residual alternating minimisation: release only what the board does not explain yet.

With the board's own prediction subtracted, what has to be released is small, so a user's whole contribution
can be clipped to a small norm; and the item step needs no private matrix per item. One round:

* device:  c_j, v_j = ridge regression of her ratings on the board;  r_ij = y_ij - mean - b_i - c_j - <u_i, v_j>
* server:  B_i <- shrink(B_i + (c_i M / n)^-1 g_i),  g_i = sum_j w_ij f_j r_ij x_j + noise,
           M = sum_j f_j x_j x_j^T + noise,  x_j = (s, v_j),  B_i = (b_i / s, u_i)

f_j = min(1, C / (|w_j * r_j| |x_j|)) clips the whole contribution; c_i = sum_j w_ij is released once. The
derivation, with the sensitivity of each release, is docs/guide/residual.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np

from fedboard.common.algorithms.residual import device, releases, server
from fedboard.common.algorithms.residual.config import (
    OF_RATINGS,
    ResidualConfig,
    ResidualShares,
    Stage,
    StageKind,
    complete,
    releases_ridges,
    shares_by_release,
    stage_of,
)
from fedboard.common.algorithms.shared import array_rules as rules
from fedboard.common.algorithms.shared import preparation
from fedboard.common.algorithms.shared.adaptive_clipping import clip_norm_of, clip_rows
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import vectors
from fedboard.common.algorithms.shared.levels import even_weights
from fedboard.common.algorithms.shared.ratings_config import Feedback, as_written
from fedboard.common.algorithms.shared.regression import content_of
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import quantise_weights
from fedboard.common.contribution_bounding.weights import WeightScheme, entry_weights
from fedboard.common.task import ReleasedSums


def array_rules(board: Board, settings: ResidualConfig) -> tuple[rules.ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = (
        *rules.biased_model(board, settings.rank),
        vectors("sketch_factors", board, settings.rank, needed=False),
        rules.moving_clip_norm(settings),
    )
    if board.version == 0:
        return model
    if not settings.has_biases:
        return (*model, *rules.prepared(board), rules.number("mean", 0.0, 0.0))
    widest = settings.shared.half_range
    level = (
        *rules.mean_rating(settings.shared),
        rules.number("spread", preparation.LEAST_SPREAD * widest, widest),
    )
    ridge = rules.number("user_ridge", *_ridge_limits(settings), needed=False)
    explores = rules.number("explores", 0.0, 1.0, needed=False)
    return (*model, *rules.prepared(board, least_count=server.LEAST_COUNT), *level, ridge, explores)


def _ridge_limits(settings: ResidualConfig) -> tuple[float, float]:
    """Candidates and the configured ridge, for every spread."""
    widest, strengths = settings.shared.half_range, (*releases.RIDGES, settings.user_ridge)
    low, high = min(strengths) * (preparation.LEAST_SPREAD * widest) ** 2, max(strengths) * widest**2
    return low * (1 - rules.ROUNDING), high * (1 + rules.ROUNDING)


@dataclass(frozen=True, slots=True)
class Residual(TaskOfSettings):
    """The task. Pure: it holds its public configuration, public item features and the choice of kernels."""

    NAME: ClassVar[str] = "residual"
    settings: ResidualConfig
    features: FloatArray | None = None
    """Public features of the items, float64, shape (n_items, n_features), standardised; for the server alone."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able; of presence without what concerns ratings alone."""
        written = as_written(self.settings)
        return (
            written if self.settings.has_biases else {k: v for k, v in written.items() if k not in OF_RATINGS}
        )

    def first_board(self, catalogue: Catalogue) -> Board:
        """An item model of zeros.

        Raises:
            InputError: the catalogue is too large for the start that is configured.
        """
        releases.require_catalogue(self.settings, n_items=catalogue.n_items)
        return self.begun(
            catalogue,
            item_factors=np.zeros((catalogue.n_items, self.settings.rank), dtype=np.float32),
            item_biases=np.zeros(catalogue.n_items, dtype=np.float32),
        )

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """Preparation, biases, pairs if any, then alternations."""
        clip_norm = None if board is None else clip_norm_of(board, self.settings)
        stage = stage_of(version, self.settings)
        return releases.of_stage(stage, self.settings, n_items=n_items, clip_norm=clip_norm)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Each user's bias and embedding, and her part of the content behind them. Private, unclipped.

        float32, shape (n_users, 1 + rank), and wider where the catalogue has features and ratings are explicit.
        """
        model = self._own_model(board)
        ridge = device.user_ridge(board, self.settings)
        return device.fit_users(cohort, model, self.settings, backend=self.backend, user_ridge=ridge)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        stage, settings = stage_of(board.version, self.settings), self.settings
        if stage.kind is StageKind.PREPARATION:
            return self._contribute_preparation(cohort)
        if stage.kind is StageKind.BIASES and not settings.has_biases:
            weights = quantise_weights(self.weigh(cohort, board))
            return preparation.answer(cohort, weights=weights)
        left = model_of(board).left_of(cohort)
        part = self._measure(cohort, board, stage, left)
        if stage.kind is StageKind.PAIRS:
            return part.normalised()
        norms = part.norms(backend=self.backend)
        clip_norm = clip_norm_of(board, settings) if stage.alternation else settings.bias_clip_norm
        totals = clip_rows(settings, stage.alternation, cohort, lambda: norms, clip_norm)
        return replace(
            part.clipped(norms, clip_norm), totals={**totals, **self._ridge_rows(cohort, board, stage, left)}
        )

    def _ridge_rows(
        self, cohort: Cohort, board: Board, stage: Stage, left: Float32Array
    ) -> dict[str, IntArray]:
        """What each candidate ridge does for each user, in the rounds that release it."""
        settings, model = self.settings, model_of(board)
        if not releases_ridges(settings, stage.alternation):
            return {}
        rows = device.evidence_rows(
            cohort,
            left,
            model.factors,
            spread=device.unit_of(board, settings),
            exponent=settings.user_ridge_exponent,
            bias_ridge=settings.user_bias_ridge,
            backend=self.backend,
        )
        return {releases.release_name(stage.alternation): rows}

    def _measure(self, cohort: Cohort, board: Board, stage: Stage, left: Float32Array) -> device.Unclipped:
        """What the board leaves unexplained of each user's ratings, along (s) or (s, v_j); ``left`` by biases."""
        settings, model = self.settings, model_of(board)
        ridge = device.user_ridge(board, settings)
        local = device.fit_users(
            cohort, model, settings, backend=self.backend, user_ridge=ridge, targets=left
        )
        vectors = np.full((cohort.n_users, int(settings.has_biases)), settings.bias_scale)
        if stage.alternation:
            vectors[:] = releases.bias_column(board, settings, stage.alternation)
            own, sketched = local[:, 1:], releases.sketch_factors(board, settings, stage.alternation)
            if sketched is not None:
                sketch = replace(model, factors=sketched.factors)
                units = device.unit_vectors(
                    cohort, sketch, settings, backend=self.backend, user_ridge=ridge, targets=left
                )
                own = own.copy()
                own[:, sketched.columns] = sketched.length * units
            vectors = np.hstack([vectors, own])
        return device.Unclipped.of(
            cohort,
            self.weigh(cohort, board),
            device.residuals(cohort, local, model, backend=self.backend, targets=left)
            / device.unit_of(board, settings),
            vectors,
            residual_bound=settings.residual_bound,
            vector_bound=settings.vector_bound if stage.alternation else settings.bias_scale,
        )

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """How each user shares her budget among her items; float64, shape (n_ratings,). Private.

        Items that are not learnt get nothing.
        """
        omega = np.asarray(board.arrays["item_weights"])
        return preparation.share_among_learnt(
            cohort,
            board,
            lambda own: entry_weights(WeightScheme.ADAPTIVE, own, omega, backend=self.backend),
        )

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        stage = stage_of(board.version, self.settings)
        if stage.kind is StageKind.PREPARATION:
            return server.after_preparation(board, released, self.requests(board), self.settings)
        if stage.kind is StageKind.PAIRS:
            return server.after_pairs(board, released, self.settings)
        requests = {request.source: request for request in self.requests(board)}
        if stage.kind is StageKind.BIASES:
            return server.after_biases(board, released, requests, self.settings, features=self.features)
        return server.after_alternation(board, released, requests, self.settings, features=self.features)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range, or scores for implicit feedback; float64, shape (n_pairs,)."""
        model = self._own_model(board)
        own = local[users]
        scores: FloatArray = np.einsum("pd,pd->p", model.vectors[items], own[:, 1:], dtype=np.float64)
        if not self.settings.has_biases:
            return scores
        scores += model.mean + model.biases[items] + own[:, 0]
        return np.clip(scores, self.settings.shared.rating_low, self.settings.shared.rating_high)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors whose inner products order the items for each user: (1, v_j, h_j) and (b_i, u_i, phi_i)."""
        model = self._own_model(board)
        users = local.copy()
        users[:, 0] = 1.0
        return users, np.column_stack([model.biases, model.vectors])

    def _own_model(self, board: Board) -> device.ItemModel:
        """What a person predicts by for herself: the board's model and, for ratings, content."""
        return replace(model_of(board), content=content_of(board) if self.settings.has_biases else None)

    def _contribute_preparation(self, cohort: Cohort) -> Contribution:
        shared = self.settings.shared
        if self.settings.has_biases:
            weights, totals = even_weights(cohort), {"moments": preparation.moments_of(cohort, shared)}
        else:
            weights = preparation.capped_counts(cohort, shared.count_cap)
            totals = {"users": preparation.ONE_USER * (cohort.counts > 0).astype(np.int64)[:, None]}
        return preparation.answer(
            cohort,
            weights=quantise_weights(weights),
            totals=totals,
        )


def model_of(board: Board) -> device.ItemModel:
    """What a device reads off the board."""
    mean = float(board.arrays["mean"][0]) if "mean" in board.arrays else 0.0
    return device.ItemModel(
        mean=mean,
        biases=np.asarray(board.arrays["item_biases"]),
        factors=np.asarray(board.arrays["item_factors"]),
    )


ALGORITHM = Algorithm(
    name=Residual.NAME,
    feedback=frozenset(Feedback),
    settings=ResidualConfig,
    shares=ResidualShares,
    shares_by_release=shares_by_release,
    task=Residual,
    array_rules=array_rules,
    folder=files(__package__),
    regression=device.regression,
    complete=complete,
    not_called=frozenset({"psd"}),
)
