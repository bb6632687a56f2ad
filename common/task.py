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
        """Solve something for every item, from sums that are read once and in blocks.

        Args:
            names: of the releases that the solver reads; each has a row per item.
            solver: see ``ItemBlockSolver``.
            width: numbers that it gives for each item.

        Returns:
            float32, shape (n_items, width).
        """
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
        """The next board. Pure post-processing: what is released is all it sees of the data.

        Args:
            board: public, the one that the round began with.
            released: the noised sums of the round's requests.

        Returns:
            ``board.successor(...)``.
        """
        ...


class ClientTask(RoundTask, Protocol):
    """What rounds need where they are answered: of ratings or of examples."""

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """The answer of a cohort: each row depends on that user's row and the board alone.

        Args:
            cohort: the users' ratings, or examples. Private.
            board: public.
            requests: of this round, as ``requests(board)`` gave them on the server.

        Returns:
            Integers on the grid, every row within every declared bound. Private.
        """
        ...


class Task(ClientTask, Protocol):
    """One algorithm in the billboard model whose clients hold ratings."""

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """The users' own models, each from her own row and the board alone.

        Args:
            cohort: their ratings. Private.
            board: public.

        Returns:
            float32, shape (n_users, rank), or another width of the task's own. Private.
        """
        ...

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors of users and of items, float32, whose inner products order the items for each user.

        ``fedboard.common.kernels.top_k`` ranks by them; an item's vector is what it is recommended by.

        Args:
            local: own models, as ``fit_local`` gives them. Private.
            board: public.

        Returns:
            Of users, shape (n_users, width), private; of items, shape (n_items, width), public.
        """
        ...

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Scores of pairs of a user and an item; ratings on the public range for explicit feedback.

        Args:
            local: own models, as ``fit_local`` gives them. Private.
            board: public.
            users: rows of ``local``, shape (n_pairs,).
            items: item numbers, shape (n_pairs,).

        Returns:
            float64, shape (n_pairs,). Private.
        """
        ...
