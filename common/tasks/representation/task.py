"""The task: learn a representation together, keep every personal model at home."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.representation.config import (
    INITIALISATION,
    AlternationTarget,
    RepresentationConfig,
    curvature_name,
    gradient_name,
)
from fedboard.common.tasks.representation.on_board import (
    own_vectors,
    predicted,
    representation_of,
    start_request,
    started,
    zeros_over,
)
from fedboard.common.tasks.representation.packing import packed_width
from fedboard.common.tasks.representation.releases import unit_total
from fedboard.common.tasks.representation.statistics import alternation_rows, initial_rows
from fedboard.common.tasks.representation.update import orthonormal, solved_step


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
        arrays = {"representation": zeros_over(catalogue, self.settings)}
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
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=examples.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next representation. Pure post-processing of the noised sums."""
        if board.version == 0:
            return board.successor(representation=started(board, released, self.settings))
        dimension = board.catalogue.n_items
        curvature, gradient = self._requests(board.version, dimension=dimension)
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
        return own_vectors(examples, board, self.settings)

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        return predicted(local, board, examples, self.settings)

    def _requests(self, version: int, *, dimension: int) -> tuple[Request, ...]:
        packed, rank, settings = packed_width(dimension), self.settings.rank, self.settings
        if version == 0:
            return (start_request(settings, dimension=dimension),)
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
