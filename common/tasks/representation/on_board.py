"""What tasks with a representation on the board have in common: how it starts, and what a device makes of it."""

from typing import Protocol

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.representation.config import INITIALISATION
from fedboard.common.tasks.representation.local import VectorSettings, fit_vectors, scores_of
from fedboard.common.tasks.representation.losses import LOSSES
from fedboard.common.tasks.representation.packing import packed_width, unpack
from fedboard.common.tasks.representation.releases import Noised, unit_total
from fedboard.common.tasks.representation.update import leading_directions


class Ranked(Protocol):
    """Settings that say how many columns the representation has."""

    @property
    def rank(self) -> int:
        """Length of the personal vectors."""
        ...


def zeros_over(catalogue: Catalogue, settings: Ranked) -> FloatArray:
    """The representation of board 0, which holds no data: float64, shape (dimension, rank).

    Raises:
        InputError: the catalogue names fewer features than the rank.
    """
    dimension, rank = catalogue.n_items, settings.rank
    if dimension < rank:
        raise InputError(f"rank {rank} needs at least as many features, got {dimension}")
    return np.zeros((dimension, rank))


def representation_of(board: Board) -> FloatArray:
    """U of a board, float64, shape (dimension, rank), orthonormal columns from version 1 on."""
    return np.asarray(board.arrays["representation"], dtype=np.float64)


def start_request(settings: Noised, *, dimension: int) -> Request:
    """Ask for the sum that a representation starts from.

    Raises:
        PrivacyError: the settings hold no noise for it.
    """
    covers = "products of pairs of a user's examples"
    return unit_total(INITIALISATION, packed_width(dimension), settings, covers=covers)


def started(board: Board, released: ReleasedSums, settings: Ranked) -> FloatArray:
    """U as the noised sum of the start has it, float64, shape (dimension, rank)."""
    return leading_directions(
        unpack(released.array(INITIALISATION)[0], board.catalogue.n_items), settings.rank
    )


def own_vectors(examples: Examples, board: Board, settings: VectorSettings) -> FloatArray:
    """The users' own vectors, float64, shape (n_users, rank). Private."""
    return fit_vectors(examples.padded(), representation_of(board), settings)


def predicted(local: FloatArray, board: Board, examples: Examples, settings: VectorSettings) -> FloatArray:
    """Expected label of each example of each user, float64, shape (n_examples,). Private."""
    padded = examples.padded()
    scores = scores_of(padded, representation_of(board), local)
    return LOSSES[settings.loss].predict(scores)[padded.used]
