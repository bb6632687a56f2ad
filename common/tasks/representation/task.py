"""The task: learn a representation together, keep every personal model at home."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.representation.config import (
    INITIALISATION,
    AlternationTarget,
    RepresentationConfig,
    curvature_name,
    gradient_name,
)
from fedboard.common.tasks.representation.local import fit_vectors, scores_of
from fedboard.common.tasks.representation.losses import LOSSES
from fedboard.common.tasks.representation.packing import packed_width, unpack
from fedboard.common.tasks.representation.releases import unit_total
from fedboard.common.tasks.representation.statistics import alternation_rows, initial_rows
from fedboard.common.tasks.representation.update import leading_directions, orthonormal, solved_step


@dataclass(frozen=True, slots=True)
class Representation:
    """Private alternating minimisation for ``y ~ <U^T x, v_j>``: U is on the board, v_j stays with user j.

    Board 0 holds no data; the round after it starts U from pairs of examples (Alg. 3), each later one solves for U
    with everybody's vectors fixed (Alg. 1 and 2). Pure: it holds its public configuration alone.

    Reference: Jain, Rush, Smith, Song, Thakurta (2021), Differentially Private Model Personalization.
    """

    NAME: ClassVar[str] = "representation"
    settings: RepresentationConfig

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        built: Mapping[str, Any] = msgspec.to_builtins(self.settings)
        return built

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """The start, then the alternations; widths are the board's when asked."""
        return tuple(self._requests(version, dimension=1) for version in range(self.settings.rounds + 1))

    def first_board(self, catalogue: Catalogue) -> Board:
        """A representation of zeros over the features that the catalogue names.

        Raises:
            InputError: fewer features than the rank.
        """
        dimension, rank = catalogue.n_items, self.settings.rank
        if dimension < rank:
            raise InputError(f"rank {rank} needs at least as many features, got {dimension}")
        arrays = {"representation": np.zeros((dimension, rank))}
        return Board(version=0, task=self.name, config=self.config, arrays=arrays, catalogue=catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks; nothing after the last alternation."""
        if board.version > self.settings.rounds:
            return ()
        return self._requests(board.version, dimension=board.catalogue.n_items)

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's examples and the board alone."""
        padded = examples.padded()
        if board.version == 0:
            totals = {INITIALISATION: initial_rows(padded, self.settings)}
        else:
            t = board.version
            rows = alternation_rows(
                padded,
                representation_of(board),
                self.settings,
                step_bound=self.settings.step_bounds[t - 1],
            )
            totals = dict(zip((curvature_name(t), gradient_name(t)), rows, strict=True))
        return Contribution(
            n_items=board.catalogue.n_items,
            indptr=np.zeros(examples.n_users + 1, dtype=np.int64),
            items=np.empty(0, dtype=np.int32),
            totals=totals,
        )

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next representation. Pure post-processing of the noised sums."""
        dimension, rank = board.catalogue.n_items, self.settings.rank
        if board.version == 0:
            found = leading_directions(unpack(released.array(INITIALISATION)[0], dimension), rank)
            return board.successor(representation=found)
        t = board.version
        curvature, gradient = self._requests(t, dimension=dimension)
        step = solved_step(
            released.array(curvature.name)[0],
            released.array(gradient.name)[0],
            dimension=dimension,
            noise_stddev=curvature.release.noise_stddev * curvature.release.grid_step,
        )
        if self.settings.answer is AlternationTarget.RESIDUAL:
            step = representation_of(board) + step
        return board.successor(representation=orthonormal(step))

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """The users' own vectors, float64, shape (n_users, rank). Private."""
        return fit_vectors(examples.padded(), representation_of(board), self.settings)

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        padded = examples.padded()
        scores = scores_of(padded, representation_of(board), local)
        return LOSSES[self.settings.loss].predict(scores)[padded.used]

    def _requests(self, version: int, *, dimension: int) -> tuple[Request, ...]:
        packed, rank, settings = packed_width(dimension), self.settings.rank, self.settings
        if version == 0:
            covers = "products of pairs of a user's examples"
            return (unit_total(INITIALISATION, packed, settings, covers=covers),)
        return (
            unit_total(
                curvature_name(version),
                packed * packed_width(rank),
                settings,
                covers="curvature of the loss in the representation",
            ),
            unit_total(
                gradient_name(version),
                dimension * rank,
                settings,
                scale=settings.step_bounds[version - 1],
                covers="gradient of the loss in the representation",
            ),
        )


def representation_of(board: Board) -> FloatArray:
    """U of a board, float64, shape (dimension, rank), orthonormal columns from version 1 on."""
    return np.asarray(board.arrays["representation"], dtype=np.float64)
