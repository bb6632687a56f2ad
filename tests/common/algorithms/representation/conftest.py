"""Small populations of examples with hostile, silent and ordinary users."""

import numpy as np

from fedboard.common.algorithms.representation.algorithm import Representation
from fedboard.common.algorithms.representation.config import RepresentationConfig, calibrated
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue

DIMENSION, RANK, USERS = 6, 2, 12
SETTINGS = calibrated(RepresentationConfig(rank=RANK), epsilon=5.0, delta=1e-6)


def catalogue(dimension: int = DIMENSION) -> Catalogue:
    return Catalogue(item_ids=tuple(f"f{number}" for number in range(dimension)))


def population(seed: int = 0, *, binary: bool = False, users: int = USERS) -> Examples:
    """User 0 has no example, user 1 huge ones, user 2 the same one again and again, user 3 only zeros."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, users)
    counts[0], counts[1], counts[2], counts[3] = 0, 7, 8, 3
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    features = rng.standard_normal((int(indptr[-1]), DIMENSION)).astype(np.float32)
    labels = rng.standard_normal(int(indptr[-1])).astype(np.float32)
    features[indptr[1] : indptr[2]] *= 1e6
    features[indptr[2] : indptr[3]] = features[indptr[2]]
    features[indptr[3] : indptr[4]] = 0.0
    labels[indptr[1] : indptr[2]] *= 1e6
    if binary:
        labels = (labels > 0).astype(np.float32)
    return Examples(indptr=indptr, features=features, labels=labels)


def orthonormal(seed: int = 0, *, dimension: int = DIMENSION, rank: int = RANK) -> FloatArray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dimension, rank)))[0]


def started_board(settings: RepresentationConfig = SETTINGS, *, seed: int = 0) -> Board:
    """Version 1, with a random representation."""
    board = Representation(settings).first_board(catalogue())
    return board.successor(representation=orthonormal(seed, rank=settings.rank))


def alone(examples: Examples, user: int) -> Examples:
    return examples.rows(np.array([user], dtype=np.int32))
