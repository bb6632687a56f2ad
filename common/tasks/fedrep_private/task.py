"""The task: gradient steps on a shared representation, every personal model at home."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.fedrep_private.config import USERS, FedRepConfig, gradient_name
from fedboard.common.tasks.fedrep_private.gradients import gradient_rows
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.representation.config import INITIALISATION
from fedboard.common.tasks.representation.on_board import (
    own_vectors,
    predicted,
    representation_of,
    start_request,
    started,
    zeros_over,
)
from fedboard.common.tasks.representation.releases import unit_total
from fedboard.common.tasks.representation.statistics import GRID, initial_rows
from fedboard.common.tasks.representation.update import orthonormal


@dataclass(frozen=True, slots=True)
class FedRepPrivate:
    """Private FedRep for ``y ~ <U^T x, v_j>``: U is on the board, v_j stays with user j.

    Board 0 holds no data; the round after it starts U from pairs of examples and counts the users. Each later round
    asks every user for one clipped gradient of ``dimension x rank`` numbers, takes a step along their noised mean,
    and makes the columns orthonormal again. Nothing of the size of ``(dimension rank)^2`` is released, which is
    where alternating minimisation by noised sufficient statistics loses a factor of about ``dimension rank``.

    Pure: it holds its public configuration alone.

    Guarantee: user-level; see ``gradient_rows`` for the bound of each round. Of the start, a user's part is scaled
    to norm at most 1 as a whole (``initial_rows``), and her part in the number of users is 1.

    Reference: Snedeker, Zhou, Bassily (2025), Private Model Personalization Revisited, arXiv:2506.19220; Collins
    et al. (2021), Exploiting Shared Representations for Personalized Federated Learning, arXiv:2102.07078.
    """

    NAME: ClassVar[str] = "fedrep-private"
    settings: FedRepConfig

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
        """The start, then the gradient steps; widths are the board's when asked."""
        return tuple(self._requests(version, dimension=1) for version in range(self.settings.rounds + 1))

    def first_board(self, catalogue: Catalogue) -> Board:
        """A representation of zeros over the features that the catalogue names.

        Raises:
            InputError: fewer features than the rank.
        """
        arrays = {"representation": zeros_over(catalogue, self.settings), "users": np.ones(1)}
        return Board(version=0, task=self.name, config=self.config, arrays=arrays, catalogue=catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks; nothing after the last step."""
        if board.version > self.settings.rounds:
            return ()
        return self._requests(board.version, dimension=board.catalogue.n_items)

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's examples and the board alone."""
        padded = examples.padded()
        totals: dict[str, IntArray]
        if board.version == 0:
            present = np.full((examples.n_users, 1), GRID, dtype=np.int64)
            totals = {INITIALISATION: initial_rows(padded, self.settings), USERS: present}
        else:
            clip_norm = self.settings.clip_norms[board.version - 1]
            rows = gradient_rows(padded, representation_of(board), self.settings, clip_norm=clip_norm)
            totals = {gradient_name(board.version): rows}
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=examples.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next representation. Pure post-processing of the noised sums."""
        if board.version == 0:
            users = np.maximum(released.array(USERS)[0], 1.0)
            return board.successor(representation=started(board, released, self.settings), users=users)
        shape = board.catalogue.n_items, self.settings.rank
        total = released.array(gradient_name(board.version))[0].reshape(shape)
        step = self.settings.learning_rate / float(board.arrays["users"][0]) * total
        return board.successor(representation=orthonormal(representation_of(board) + step))

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """The users' own vectors, float64, shape (n_users, rank). Private."""
        return own_vectors(examples, board, self.settings)

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        return predicted(local, board, examples, self.settings)

    def _requests(self, version: int, *, dimension: int) -> tuple[Request, ...]:
        settings = self.settings
        if version == 0:
            return (
                start_request(settings, dimension=dimension),
                unit_total(USERS, 1, settings, covers="how many users there are"),
            )
        return (
            unit_total(
                gradient_name(version),
                dimension * settings.rank,
                settings,
                scale=settings.clip_norms[version - 1],
                covers="gradients of the users' mean losses in the representation",
            ),
        )
