"""Devices that send too much, or what depends on others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    LINEAR_BOUND,
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
)

_AT_BOUND = 0.99
_LONGER = 8
_LARGEST = int(np.iinfo(np.int16).max)


def labels_unclipped(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Where a label was clipped, or a row by its joint bound, it becomes eight times as large."""
    if sent.responses is None:
        return sent
    clipped = np.abs(sent.responses) >= RESPONSE_BOUND
    joint = min(
        (r.release.l2_bound for r in requests if r.source is SumSource.ITEM_LINEAR), default=LINEAR_BOUND
    )
    if joint < LINEAR_BOUND:
        clipped |= np.repeat(_linear_norms(sent) >= _AT_BOUND * joint, np.diff(sent.indptr))
    longer = np.where(clipped, _LONGER * sent.responses.astype(np.int64), sent.responses)
    return replace(sent, responses=np.clip(longer, -_LARGEST, _LARGEST).astype(np.int16))


def vectors_unclipped(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Where a vector was clipped, only its largest number is: its norm is then up to sqrt(rank) bounds.

    More would not get through: the kernels refuse larger numbers.
    """
    if sent.vectors is None:
        return sent
    vectors = sent.vectors.astype(np.float64)
    clipped = np.linalg.norm(vectors, axis=1) >= _AT_BOUND * VECTOR_BOUND
    largest = np.abs(vectors).max(axis=1, initial=1.0)
    longer = np.where(clipped, VECTOR_BOUND / largest, 1.0)[:, None]
    return replace(sent, vectors=np.trunc(vectors * longer).astype(np.int16))


def weights_whole(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Every item that has any weight gets all that a user has."""
    if sent.weights is None:
        return sent
    return replace(sent, weights=np.where(sent.weights > 0, WEIGHT_ONE, 0).astype(np.int16))


def scaled_by_all(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Scale by the mean norm of all rows. Every row keeps its bounds, so no check of rows can notice."""
    if sent.vectors is not None:
        mean = float(np.mean(np.linalg.norm(sent.vectors.astype(np.float64), axis=1))) / VECTOR_BOUND
        return replace(sent, vectors=np.trunc(sent.vectors * mean).astype(np.int16))
    if sent.weights is None:
        return sent
    mean = float(np.linalg.norm(sent.weights.astype(np.float64))) / WEIGHT_ONE / np.sqrt(sent.n_users)
    return replace(sent, weights=np.trunc(sent.weights * min(1.0, mean)).astype(np.int16))


def _linear_norms(sent: Contribution) -> FloatArray:
    assert sent.weights is not None
    assert sent.responses is not None
    assert sent.vectors is not None
    parts = np.square(sent.weights.astype(np.float64) * sent.responses)
    running = np.concatenate([np.zeros(1), np.cumsum(parts)])
    rows = running[sent.indptr[1:]] - running[sent.indptr[:-1]]
    return np.asarray(np.sqrt(rows) * np.linalg.norm(sent.vectors.astype(np.float64), axis=1))
