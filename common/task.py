"""What a task is: the seam behind which every algorithm lives.

A task says what is asked of clients next, how a client answers from its own rows and the board, and how the
noised sums make the next board. It never sees who answers, how the sums travel or where the noise is drawn.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request

ItemBlockSolver = Callable[[int, Mapping[str, FloatArray]], Float32Array]
"""(first item, {release name: float64 (block, width)}) -> float32 (block, rank). Picklable: a runtime may run
it in other processes, block by block, so that the per-item matrices never exist all at once."""


class ReleasedSums(Protocol):
    """The noised sums of one round, in real units. Reading them costs no privacy: they are already booked."""

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise in them over the booked one, >= 1: some protocols add more than is counted."""
        ...

    def array(self, name: str) -> FloatArray:
        """One release as a whole, float64, shape (rows, width)."""
        ...

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Run ``solver`` over blocks of items; float32, shape (n_items, width). Each release can be read once."""
        ...


class RoundTask(Protocol):
    """What the round loop needs of an algorithm, whatever its clients hold: what to ask, what follows from it.

    Guarantee: everything that depends on data and reaches ``update`` has passed a request's release, so the
    board is exactly as private as the composition of the requests.
    """

    @property
    def name(self) -> str:
        """Registered name, part of every board."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """Public configuration, JSON-able; together with ``name`` it rebuilds the task."""
        ...

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """All requests of a complete run, round by round; known before any data is touched."""
        ...

    def first_board(self, catalogue: Catalogue) -> Board:
        """Version 0: holds no data."""
        ...

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What to ask next, given the board; empty when the run is complete."""
        ...

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board from this one and the noised sums. Pure post-processing."""
        ...


class Task(RoundTask, Protocol):
    """One algorithm in the billboard model whose clients hold ratings."""

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """The users' own models from their rows and the board, float32, shape (n_users, rank). Private."""
        ...

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """The answer of a cohort to the requests, on the integer grid, within every declared bound."""
        ...

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors of users and of items, float32, whose inner products order the items for each user.

        ``fedboard.common.kernels.top_k`` ranks by them; an item's vector is what it is recommended by.
        """
        ...

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Scores of (user row, item) pairs, float64, shape (n_pairs,); ratings for explicit feedback."""
        ...
