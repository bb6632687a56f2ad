"""Non-private alternating least squares: the ceiling that private matrix factorisation is compared with.

With coordinates (b_i, u_i) per item and (c_j, v_j) per user, it minimises

  sum over ratings (y_ij - mean - b_i - c_j - <u_i, v_j>)^2 + alpha0 sum over all pairs <u_i, v_j>^2
  + sum_j ridge_j (c_j^2 + |v_j|^2) + sum_i ridge_i (b_i^2 + |u_i|^2)

exactly in one side at a time. Explicit feedback has alpha0 = 0 and, if asked for, the biases b and c; implicit
feedback has mean 0, no biases and alpha0 > 0.

Reference: Y. Hu, Y. Koren, C. Volinsky (2008), Collaborative filtering for implicit feedback datasets;
S. Rendle, W. Krichene, L. Zhang, Y. Koren (2022), Revisiting the performance of iALS (arXiv:2110.14037), for the
regularisation by (count + alpha0 size of the other side)^exponent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_array

from fedboard.common import kernels
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.checks import Fraction, NotNegative, Positive, require, require_ranges, whole
from fedboard.common.cohort import Cohort, row_blocks
from fedboard.common.errors import InputError
from fedboard.common.kernels.packed import packed_size
from fedboard.common.protocols.sums.exact import index_by_item
from fedboard.simulations.baselines.means import require_catalogue
from fedboard.simulations.baselines.sums import Sums, TrainRows


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsConfig:
    """Options of one fit. Every field is public; ``default_als`` knows good values."""

    feedback: Feedback
    rank: Annotated[int, whole()]
    """Length of the embeddings, biases not counted."""
    sweeps: Annotated[int, whole()]
    """Alternations, a user step and an item step each."""
    user_ridge: Positive
    """Strength of the ridge on user vectors. See ``ridge_exponent`` fields."""
    item_ridge: Positive
    """Strength of the ridge on item vectors."""
    user_ridge_exponent: Fraction
    """User j's ridge is user_ridge (n_j + unobserved_weight n_items)^exponent, the bracket at least 1."""
    item_ridge_exponent: Fraction
    """Item i's ridge is item_ridge (n_i + unobserved_weight n_users)^exponent, the bracket at least 1."""
    biases: bool = False
    """Explicit feedback only: fit a bias per user and per item, under the same ridge as the vectors."""
    unobserved_weight: NotNegative = 0.0
    """alpha0: weight of all (user, item) pairs as zeros; > 0 for implicit and 0 for explicit feedback."""
    rating_range: tuple[float, float] | None = None
    """Lowest and highest possible rating, for explicit feedback: predictions are clipped to it."""
    unit: Positive = 1.0
    """Ratings are fitted in this many stars, so that ridges mean the same on every scale."""
    seed: Annotated[int, whole(0)] = 0
    """Seed of the random first item vectors."""
    backend: str = "numpy"
    """Which kernels compute, see ``fedboard.common.kernels``; changes results by rounding only."""
    threads: Annotated[int, whole()] = 1
    """Threads for fitting; never changes a result. Prediction uses one: processes share that work."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require_ranges(self)
        if self.feedback is Feedback.EXPLICIT:
            require(self.unobserved_weight == 0, "unobserved_weight", "0 if explicit", self.unobserved_weight)
            ascends = self.rating_range is not None and self.rating_range[0] < self.rating_range[1]
            require(ascends, "rating_range", "(lowest, highest) if explicit", self.rating_range)
        else:
            require(
                self.unobserved_weight > 0, "unobserved_weight", "> 0 if implicit", self.unobserved_weight
            )
            require(not self.biases, "biases", "False if implicit", self.biases)


def default_als(feedback: Feedback, *, rank: int | None = None, **run: Any) -> AlsConfig:
    """The one place that holds tuned settings, by kind of feedback.

    Args:
        feedback: explicit or implicit.
        rank: None for the tuned one.
        run: ``rating_range``, needed for explicit feedback; ``seed``, ``backend`` and ``threads``.
    """
    if feedback is Feedback.EXPLICIT:
        # Tuned at rank 8 on a validation part of ml-1m-x12 (72 480 users, 3 449 items, 7.0M ratings). Halving or
        # doubling one ridge, or other exponents with the ridges tuned again, cost up to 0.003. Test RMSE 0.855;
        # without biases 0.860, at user_ridge 4 and the rest as here.
        return AlsConfig(
            feedback=feedback,
            rank=8 if rank is None else rank,
            sweeps=16,
            user_ridge=6.0,
            item_ridge=1.0,
            user_ridge_exponent=0.25,
            item_ridge_exponent=0.5,
            biases=True,
            **run,
        )
    # Tuned by Recall@20 on the validation users of ml-1m (4 828 users to learn from, 3 449 items, ratings above
    # 3.5), ranks 8 to 64. unobserved_weight 0.2 to 0.4 and ridges 0.004 to 0.01 lose up to 0.015; rank 32 loses
    # 0.015, rank 16 0.04. Test users: Recall@20 0.36, NDCG@20 0.34 (popularity: 0.18 and 0.16).
    return AlsConfig(
        feedback=feedback,
        rank=64 if rank is None else rank,
        sweeps=8,
        user_ridge=0.006,
        item_ridge=0.006,
        user_ridge_exponent=1.0,
        item_ridge_exponent=1.0,
        unobserved_weight=0.3,
        **run,
    )


_FIRST_NORM = 0.1
"""Typical norm of the first item vectors; results hardly depend on it (0.1 to 1 tried)."""
_GRAM_ROWS = 1 << 16
_ENTRIES_AT_ONCE = 1 << 18
"""Of each thread: their targets stay in cache until they are solved."""
MOST_BYTES = 2 << 30
"""Of one set of sums over a stream; a worker holds one."""
_PRODUCT_BYTES = 1 << 25
_ITEMS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsModel:
    """Item vectors, and what is needed to solve a user's vector from her history. Not private: simulation only."""

    config: AlsConfig
    mean: float
    """Mean of all training ratings, stars; 0 for implicit feedback."""
    item_coordinates: Float32Array
    """float32, shape (n_items, rank), u_i; with biases shape (n_items, 1 + rank), b_i first."""

    @property
    def item_factors(self) -> Float32Array:
        """u_i without the bias, float32, shape (n_items, rank), contiguous."""
        return np.ascontiguousarray(self.item_coordinates[:, int(self.config.biases) :])

    @property
    def item_biases(self) -> Float32Array | None:
        """b_i, float32, shape (n_items,); None without biases."""
        return np.ascontiguousarray(self.item_coordinates[:, 0]) if self.config.biases else None

    def fit_local(self, history: Cohort, *, threads: int = 1) -> Float32Array:
        """Solve each user's coordinates from her own row, exactly.

        Returns:
            float32, shape (n_users, rank), v_j; with biases shape (n_users, 1 + rank), c_j first. Private.
            Zeros for a user without history.
        """
        require_catalogue(history, self.item_coordinates.shape[0])
        return self._fit_rows(history, _labels_of(self, history), threads=threads)

    def _fit_rows(self, history: Cohort, labels: Float32Array, *, threads: int) -> Float32Array:
        config = self.config
        return _solve_side(
            history.indptr,
            history.items,
            labels,
            self.item_coordinates,
            ridge=_ridge_of(
                history.counts, history.n_items, config.user_ridge, config.user_ridge_exponent, config
            ),
            config=config,
            threads=threads,
        )

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predict mean + b_i + c_j + <u_i, v_j>, clipped to the rating range. As in ``Predictor``."""
        local, first = self.fit_local(history), int(self.config.biases)
        score: FloatArray = np.einsum(
            "pd,pd->p", self.item_coordinates[items, first:], local[users, first:], dtype=np.float64
        )
        if self.config.biases:
            score += self.item_coordinates[items, 0]
            score += local[users, 0]
        score = score * self.config.unit + self.mean
        return score if self.config.rating_range is None else np.clip(score, *self.config.rating_range)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by b_i + <u_i, v_j>. As in ``Predictor``."""
        return kernels.top_k(
            self.fit_local(history)[:, int(self.config.biases) :],
            self.item_factors,
            k=k,
            exclude_indptr=history.indptr,
            exclude_items=history.items,
            bias=self.item_biases,
            backend=self.config.backend,
        )


def fit_als(
    train: Cohort, config: AlsConfig, *, on_progress: Callable[[int, AlsModel], None] | None = None
) -> AlsModel:
    """Alternate exact user and item steps from small random item vectors.

    Args:
        train: ratings, or 1.0 for implicit feedback. Private. Users without ratings take no part.
        config: options. Public.
        on_progress: called after each sweep with its number, from 1, and the model so far.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: no ratings.
    """
    counts = TrainRows.of(train).counts
    index = index_by_item(train.indptr, train.items, train.n_items)
    model = _first_model(counts.mean, train.n_items, config)
    labels = _labels_of(model, train)
    by_item = labels[index.entries]
    ridge = _ridge_of(
        np.diff(index.indptr), counts.n_active, config.item_ridge, config.item_ridge_exponent, config
    )
    for sweep in range(1, config.sweeps + 1):
        local = model._fit_rows(train, labels, threads=config.threads)
        solved = _solve_side(
            index.indptr, index.users, by_item, local, ridge=ridge, config=config, threads=config.threads
        )
        model = replace(model, item_coordinates=solved)
        if on_progress is not None:
            on_progress(sweep, model)
    return model


def fit_als_by_sums(train: TrainRows, config: AlsConfig) -> AlsModel:
    """As ``fit_als`` to its rounding, for users who do not fit into memory: a pass for each sweep.

    Users' vectors are made anew in each block, and items are solved from float64 sums over them, so that no user's
    vector has to be kept.

    Raises:
        InputError: no ratings, or a catalogue and rank whose sums a worker cannot hold.
    """
    model = _first_model(train.counts.mean, train.n_items, replace(config, threads=1))
    shapes = _item_sum_shapes(model)
    for spans, own in train.sweeps(config.sweeps):
        sums = train.summed(shapes, partial(_add_item_sums, model), spans)
        ridge = _ridge_of(
            own.item_counts, own.n_active, config.item_ridge, config.item_ridge_exponent, config
        )
        model = replace(model, item_coordinates=_solve_items(sums, ridge, own.item_counts, config))
    return replace(model, config=config)


def _item_sum_shapes(model: AlsModel) -> dict[str, tuple[int, ...]]:
    """Of what ``_add_item_sums`` adds to.

    Raises:
        InputError: a worker cannot hold them.
    """
    n_items, width = model.item_coordinates.shape
    needed = 8 * n_items * (packed_size(width) + width)
    if needed > MOST_BYTES:
        raise InputError(
            f"ALS on a stream keeps a matrix per item, {needed / 2**30:.1f} GiB for {n_items} items at width "
            f"{width}, and {MOST_BYTES / 2**30:.0f} GiB are allowed; fit it at a smaller rank"
        )
    shapes = {"products": (n_items, packed_size(width)), "linear": (n_items, width)}
    return {**shapes, "gram": (width, width)} if model.config.unobserved_weight > 0 else {**shapes}


def _add_item_sums(model: AlsModel, cohort: Cohort, sums: Sums) -> None:
    """Add, over the users x of each item, x x^T (packed upper triangles) and label x; and x x^T over all users.

    Args:
        model: whose items the users' vectors are solved on, here and now.
        cohort: private.
        sums: of ``_item_sum_shapes``, added to in place.
    """
    users = model.fit_local(cohort).astype(np.float64)
    labels = _labels_of(model, cohort).astype(np.float64)
    if "gram" in sums:
        sums["gram"] += users.T @ users
    if model.config.biases:
        labels = labels - users[cohort.user_of_entry(), 0]
        users[:, 0] = 1.0
    shape = (cohort.n_users, cohort.n_items)
    rated = csr_array((np.ones(cohort.items.size), cohort.items, cohort.indptr), shape=shape).T.tocsr()
    sums["linear"] += csr_array((labels, cohort.items, cohort.indptr), shape=shape).T @ users
    rows, columns = np.triu_indices(users.shape[1])
    at_once = max(1, _PRODUCT_BYTES // (8 * max(cohort.n_users, cohort.n_items)))
    for start in range(0, rows.size, at_once):
        some = slice(start, start + at_once)
        sums["products"][:, some] += rated @ (users[:, rows[some]] * users[:, columns[some]])


def _solve_items(sums: Sums, ridge: Float32Array, counts: FloatArray, config: AlsConfig) -> Float32Array:
    """Every item's coordinates, float32, shape (n_items, width); zeros for an item that nobody rated.

    Args:
        sums: over all users.
        ridge: of each item, shape (n_items,).
        counts: ratings of each item, shape (n_items,).
        config: of the fit.
    """
    n_items, width = sums["linear"].shape
    rows, columns = np.triu_indices(width)
    added = config.unobserved_weight * sums["gram"] if "gram" in sums else np.zeros((width, width))
    solved = np.zeros((n_items, width), dtype=np.float32)
    for start in range(0, n_items, _ITEMS_AT_ONCE):
        some = slice(start, min(start + _ITEMS_AT_ONCE, n_items))
        matrices = np.empty((some.stop - start, width, width))
        matrices[:, rows, columns] = matrices[:, columns, rows] = sums["products"][some]
        matrices += added
        matrices[:, range(width), range(width)] += ridge[some, None]
        found = np.linalg.solve(matrices, sums["linear"][some, :, None])[..., 0]
        solved[some] = np.where(counts[some, None] > 0, found, 0.0)
    return solved


def _first_model(mean: float, n_items: int, config: AlsConfig) -> AlsModel:
    """Random item vectors, biases zero; ``mean`` of all ratings, stars."""
    rng = np.random.default_rng(config.seed)
    first = rng.standard_normal((n_items, config.rank), dtype=np.float32)
    first *= np.float32(_FIRST_NORM / np.sqrt(config.rank))
    if config.biases:
        first = np.hstack([np.zeros((n_items, 1), np.float32), first])
    level = mean if config.feedback is Feedback.EXPLICIT else 0.0
    return AlsModel(config=config, mean=level, item_coordinates=first)


def _labels_of(model: AlsModel, rows: Cohort) -> Float32Array:
    """What is fitted: ratings less their mean, in the fit's unit; float32, shape (n_ratings,). Private."""
    labels: Float32Array = (rows.ratings - np.float32(model.mean)) / np.float32(model.config.unit)
    return labels


def _ridge_of(
    counts: IntArray | FloatArray, n_others: int, strength: float, exponent: float, config: AlsConfig
) -> Float32Array:
    """Per row strength (count + alpha0 n_others)^exponent, float32; the bracket is at least 1."""
    seen = np.maximum(counts + config.unobserved_weight * n_others, 1.0)
    ridge: Float32Array = (strength * seen**exponent).astype(np.float32)
    return ridge


def _solve_side(
    indptr: IntArray,
    columns: IndexArray,
    labels: Float32Array,
    others: Float32Array,
    *,
    ridge: Float32Array,
    config: AlsConfig,
    threads: int,
) -> Float32Array:
    """Solve all coordinates of one side, the other side's being fixed.

    The bias of a row is the coefficient of a constant 1 that takes the place of the other side's bias; that
    one goes into the labels. So both sides are the same ridge regression.
    """
    gram = None
    if config.unobserved_weight > 0:
        gram = config.unobserved_weight * _gram(others)
    if not config.biases:
        return kernels.solve_ridge(
            indptr, columns, labels, others, ridge=ridge, gram=gram, backend=config.backend, threads=threads
        )
    regressors, levels = others.copy(), np.ascontiguousarray(others[:, 0])
    regressors[:, 0] = 1.0
    solution = np.empty((ridge.size, others.shape[1]), dtype=np.float32)
    for start, stop in row_blocks(indptr, threads * _ENTRIES_AT_ONCE):
        entries = slice(int(indptr[start]), int(indptr[stop]))
        own = columns[entries]
        kernels.solve_ridge(
            indptr[start : stop + 1] - indptr[start],
            own,
            labels[entries] - levels[own],
            regressors,
            ridge=ridge[start:stop],
            gram=gram,
            backend=config.backend,
            threads=threads,
            out=solution[start:stop],
        )
    return solution


def _gram(vectors: Float32Array) -> FloatArray:
    """Sum of x x^T in float64, in blocks so that no float64 copy of all vectors is made."""
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, vectors.shape[0], _GRAM_ROWS):
        block = vectors[start : start + _GRAM_ROWS].astype(np.float64)
        total += block.T @ block
    return total
