"""The personal model on the device: a board's representation and one's own vector, which never leaves."""

from dataclasses import dataclass

import msgspec
import numpy as np

from fedboard.common.algorithms.representation.algorithm import Representation, representation_of
from fedboard.common.algorithms.representation.config import LOSSES, Loss, RepresentationConfig
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonalModel:
    """One person's predictor ``<U^T x, v>``. Private: v tells about her examples."""

    representation: FloatArray
    """U of the board, float64, shape (dimension, rank). Public."""
    vector: FloatArray
    """v, float64, shape (rank,). Private."""
    loss: Loss

    @staticmethod
    def fit(own: Examples, board: Board) -> "PersonalModel":
        """Solve one's own vector from one's own examples. Pure: reads its arguments, sends nothing.

        Args:
            own: the examples of one person. Private.
            board: of a ``representation`` run, after its first round. Public.

        Raises:
            InputError: not exactly one person, other features than the board's, or no such board.

        Reference: Jain et al. (2021), Theorem 4.2 (what a user does with the published U).
        """
        settings = settings_of(board)
        if own.n_users != 1 or own.dimension != board.catalogue.n_items:
            raise InputError(
                f"a personal model is for one person with the board's {board.catalogue.n_items} features, got "
                f"{own.n_users} with {own.dimension}"
            )
        vector = Representation(settings).fit_local(own, board)[0]
        return PersonalModel(
            representation=representation_of(board), vector=vector, loss=LOSSES[settings.loss]
        )

    def predict(self, features: Float32Array | FloatArray) -> FloatArray:
        """Expected labels.

        Args:
            features: shape (n, dimension).

        Returns:
            float64, shape (n,); for the logistic loss the probability of label 1. Private.
        """
        scores = np.asarray(features, dtype=np.float64) @ (self.representation @ self.vector)
        return self.loss.predict(scores)


def settings_of(board: Board) -> RepresentationConfig:
    """The public configuration of a board's run.

    Raises:
        InputError: the board is of another task, of another version of fedboard, or has learnt nothing yet.
    """
    if board.task != Representation.NAME:
        raise InputError(f"this board was made by the task {board.task!r}, not {Representation.NAME!r}")
    if board.version == 0:
        raise InputError("board 0 holds no representation yet; take a later one")
    try:
        return msgspec.convert(dict(board.config), RepresentationConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"the board's configuration is not known to this version: {error}") from error
