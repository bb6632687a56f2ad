"""Top-k lists from implicit feedback: four releases of normalised contributions, then regression among items.

With x in {0, 1}^m' a user's items among those that are learnt, k of them, z = x / sqrt(k), lists need
G = sum z z^T off the diagonal. A run asks for

1. counts: sum z, which says which items are learnt and how popular they are;
2. start: G along public columns (what features say, the most popular items), whose eigenvectors are directions U;
3. directions: G U S, shrunk as far as its noise demands, which gives E;
4. energies: how strong G is along E, and along public kernels between items.

A device scores by item-based regression on what that says of the items' second moments. Where counts or start say
that noise would drown all but popularity, the same sums carry counts again, and lists are those of private
popularity. The derivation, with the sensitivity of each release, is docs/guide/topk.md.
"""

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import ClassVar

import numpy as np

from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import ArrayRule, number, prepared, vectors
from fedboard.common.algorithms.shared.preparation import ONE_USER
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.algorithms.topk import device, server
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.task import ReleasedSums

_LEAST_COUNT, _MOST_USERS = 1e-12, 1e12
_MOST_SCALE = 1e12


def array_rules(board: Board, settings: device.TopKConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    n_items = board.catalogue.n_items
    real, single, byte = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.uint8)
    if board.version == 0:
        return (vectors("item_factors", board, 1),)
    after = device.STAGES[min(board.version, len(device.STAGES)) - 1]
    width = {
        device.Stage.COUNTS: device.start_columns(settings, n_items),
        device.Stage.START: settings.width,
    }.get(after, server.model_width(settings, board))
    rules = [
        *(rule for rule in prepared(board) if rule.name != "item_counts"),
        ArrayRule(name="item_counts", dtype=real, shape=(n_items,), low=_LEAST_COUNT, high=_MOST_USERS),
        ArrayRule(name="personal", dtype=byte, shape=(1,), low=0, high=1),
        number("population", 1.0, _MOST_USERS),
        vectors("item_factors", board, width),
    ]
    if board.catalogue.features is not None and after in (device.Stage.DIRECTIONS, device.Stage.ENERGIES):
        shape = (device.KERNELS, settings.kernel_rank, settings.kernel_rank)
        rules.append(ArrayRule(name="kernel_forms", dtype=single, shape=shape))
    if after is device.Stage.ENERGIES:
        rules.append(ArrayRule(name="item_scale", dtype=real, shape=(n_items,), low=0.0, high=_MOST_SCALE))
        rules.append(ArrayRule(name="item_biases", dtype=single, shape=(n_items,)))
    return tuple(rules)


@dataclass(frozen=True, slots=True)
class TopK(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels."""

    NAME: ClassVar[str] = "topk"
    settings: device.TopKConfig

    def first_board(self, catalogue: Catalogue) -> Board:
        """An item model of zeros, and the public catalogue with its features."""
        return self.begun(catalogue, item_factors=np.zeros((catalogue.n_items, 1), dtype=np.float32))

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """The four rounds."""
        return (
            ()
            if version >= len(device.STAGES)
            else device.of_stage(device.STAGES[version], self.settings, n_items=n_items)
        )

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        stage = device.STAGES[board.version]
        if stage is device.Stage.COUNTS:
            present = ONE_USER * (cohort.counts > 0).astype(np.int64)[:, None]
            return replace(device.counted(cohort, self.settings), totals={"users": present})
        if not server.personal(board):
            return server.recounted(cohort, board, stage, self.settings)
        if stage is device.Stage.START:
            return device.started(cohort, board)
        answer = device.directed if stage is device.Stage.DIRECTIONS else device.energies
        return answer(cohort, board, self.settings)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        stage, request = device.STAGES[board.version], self.requests(board)[0]
        if stage is not device.Stage.COUNTS and not server.personal(board):
            return server.after_recount(board, released, request, stage, self.settings)
        after = {
            device.Stage.COUNTS: server.after_counts,
            device.Stage.START: server.after_start,
            device.Stage.DIRECTIONS: server.after_directions,
            device.Stage.ENERGIES: server.after_energies,
        }
        return after[stage](board, released, request, self.settings)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """(1, sum of her items' factors), float32, shape (n_users, 1 + width). Private."""
        factors = np.asarray(board.arrays["item_factors"])
        if "learnt" not in board.arrays:
            return np.ones((cohort.n_users, 1 + factors.shape[1]), dtype=np.float32)
        own = device.learnt_part(cohort, board)
        sums = device.times(own, np.ones(own.n_ratings), factors)
        return np.column_stack([np.ones(own.n_users), sums]).astype(np.float32)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors whose inner products order the items for each user: (1, sum of G) and (bias_i, G_i / P_ii)."""
        return local, _item_vectors(board)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Scores of (user row, item) pairs, float64, shape (n_pairs,)."""
        vectors = _item_vectors(board)
        scores: FloatArray = np.einsum("pd,pd->p", vectors[items], local[users], dtype=np.float64)
        return scores


def _item_vectors(board: Board) -> Float32Array:
    """Until the last round popularity alone orders the items."""
    factors, arrays = np.asarray(board.arrays["item_factors"]), board.arrays
    if "item_scale" in arrays:
        scaled = factors * np.asarray(arrays["item_scale"], dtype=np.float32)[:, None]
        return np.column_stack([np.asarray(arrays["item_biases"]), scaled]).astype(np.float32)
    vectors = np.zeros((factors.shape[0], 1 + factors.shape[1]), dtype=np.float32)
    if "item_counts" in arrays:
        vectors[:, 0] = np.asarray(arrays["item_counts"])
    return vectors


def _regression(settings: device.TopKConfig, own: Cohort, board: Board) -> Regression:
    """Her own items add up: item i gets <G_i, G_l> / P_ii of item l."""
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    return Regression(
        vectors=factors,
        base=np.asarray(board.arrays["item_biases"], dtype=np.float64),
        ridge=1.0,
        gram=0.0,
        scale=np.asarray(board.arrays["item_scale"], dtype=np.float64),
    )


ALGORITHM = Algorithm(
    name=TopK.NAME,
    feedback=frozenset({Feedback.IMPLICIT}),
    settings=device.TopKConfig,
    shares=device.TopKShares,
    shares_by_release=device.shares_by_release,
    task=TopK.made,
    array_rules=array_rules,
    folder=files(__package__),
    regression=_regression,
)
"""Presence alone; features come with the catalogue."""
