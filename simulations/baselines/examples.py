"""What a private shared representation is held against: own data only, and the same without privacy."""

from collections.abc import Iterator

import numpy as np

from fedboard.common.algorithms.representation.algorithm import leading_directions, orthonormal
from fedboard.common.algorithms.representation.config import LOSSES, RepresentationConfig
from fedboard.common.algorithms.representation.device import fit_vectors, scores_of
from fedboard.common.algorithms.supervised.examples import Examples, PaddedExamples
from fedboard.common.arrays import FloatArray

_USERS_PER_BLOCK = 2048
_SMALLEST_TURN = 1e-6
_MOST_ROUNDS = 50


def own_models(examples: Examples) -> FloatArray:
    """Each user's shortest exact solution ``X^+ y`` of her own examples, float64, shape (n_users, dimension).

    The limit of ridge regression without a ridge: with fewer examples than features there is nothing to average.
    Private.
    """
    return np.concatenate(
        [np.einsum("jdi,ji->jd", np.linalg.pinv(block.features), block.labels) for block in _blocks(examples)]
    )


def fit_all(examples: Examples, representation: FloatArray, settings: RepresentationConfig) -> FloatArray:
    """Every user's own vector, block by block, float64, shape (n_users, rank). Private."""
    blocks = _blocks(examples)
    return np.concatenate([fit_vectors(block, representation, settings) for block in blocks])


def shared_without_privacy(examples: Examples, settings: RepresentationConfig) -> FloatArray:
    """Alternating minimisation without noise or scaling, until U turns by less than 1e-6 (at most 50 rounds).

    Args:
        examples: private.
        settings: rank, loss and ridge; all else is about privacy and ignored.

    Returns:
        U, float64, shape (dimension, rank). Not private.

    Reference: Jain et al. (2021), sec. 6, baseline iii.
    """
    representation = leading_directions(_pair_products(examples, settings), settings.rank)
    for _ in range(_MOST_ROUNDS):
        curvature, gradient = _moments(examples, representation, settings)
        step = np.linalg.solve(curvature, gradient).reshape(representation.shape)
        turn = step - representation @ (representation.T @ step)  # the rest only changes the basis
        representation = orthonormal(representation + step)
        if float(np.linalg.norm(turn)) < _SMALLEST_TURN:
            break
    return representation


def _blocks(examples: Examples) -> Iterator[PaddedExamples]:
    users = np.arange(examples.n_users, dtype=np.int32)
    for start in range(0, examples.n_users, _USERS_PER_BLOCK):
        yield examples.rows(users[start : start + _USERS_PER_BLOCK]).padded()


def _pair_products(examples: Examples, settings: RepresentationConfig) -> FloatArray:
    total = np.zeros((examples.dimension, examples.dimension))
    for block in _blocks(examples):
        labels = LOSSES[settings.loss].centred(block.labels) * block.used
        directed = labels[..., None] * block.features
        whole, flat = directed.sum(axis=1), directed.reshape(-1, examples.dimension)
        total += whole.T @ whole - flat.T @ flat
    return total


def _moments(
    examples: Examples, representation: FloatArray, settings: RepresentationConfig
) -> tuple[FloatArray, FloatArray]:
    """Curvature and gradient of the total loss in vec(U), at everybody's best vectors."""
    loss, (dimension, rank) = LOSSES[settings.loss], representation.shape
    curvature, gradient = np.zeros((dimension * dimension, rank * rank)), np.zeros((dimension, rank))
    for block in _blocks(examples):
        vectors = fit_vectors(block, representation, settings)
        scores = scores_of(block, representation, vectors)
        weighted = block.features * (loss.curvature(scores) * block.used)[..., None]
        gram = weighted.transpose(0, 2, 1) @ block.features
        squares = vectors[:, :, None] * vectors[:, None, :]
        curvature += gram.reshape(len(vectors), -1).T @ squares.reshape(len(vectors), -1)
        answers = loss.residual(scores, block.labels) * block.used
        gradient += np.einsum("jid,ji->jd", block.features, answers).T @ vectors
    by_entry = curvature.reshape(dimension, dimension, rank, rank).transpose(0, 2, 1, 3)
    return by_entry.reshape(dimension * rank, -1), gradient.ravel()
