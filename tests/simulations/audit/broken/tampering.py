"""Where a run can be broken on purpose: what its devices send, and what its aggregator checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums, FactoredSums
from fedboard.common.protocols.trusted import (
    Trusted,
    rows_within_bounds,
)
from fedboard.common.task import ReleasedSums, Task

Tamper: TypeAlias = Callable[[Contribution, Sequence[Request]], Contribution]
"""What broken devices send instead of their contribution. A module-level function, so that workers know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TamperedTask:
    """A task whose devices send something else; all the rest is the real one's."""

    inner: Task
    tamper: Tamper
    """Replaces what devices send."""

    @property
    def name(self) -> str:
        """The real one's."""
        return self.inner.name

    @property
    def config(self) -> Mapping[str, Any]:
        """The real one's."""
        return self.inner.config

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """The real one's."""
        return self.inner.plan()

    def first_board(self, catalogue: Catalogue) -> Board:
        """The real one's."""
        return self.inner.first_board(catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """The real one's."""
        return self.inner.requests(board)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """The real one's."""
        return self.inner.fit_local(cohort, board)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """The real one's, broken."""
        return self.tamper(self.inner.contribute(cohort, board, requests), requests)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The real one's."""
        return self.inner.update(board, released)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """The real one's."""
        return self.inner.predict(local, board, users, items)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """The real one's."""
        return self.inner.ranking_factors(local, board)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenient(Trusted):
    """The trusted protocol whose check of bounds does not look at one array, on the device and on the server."""

    overlooks: str
    """``vectors``, ``weights`` or ``responses``."""

    def encode(self, contribution: Contribution, requests: Sequence[Request]) -> Contribution:
        """Check all but one array, pack all of them."""
        if not bool(np.all(self._within_bounds(contribution, requests))):
            raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
        return contribution

    def combine(self, messages: Iterable[Contribution], requests: Sequence[Request]) -> ExactSums:
        """Drop rows that break a bound that is looked at."""
        members = [self._kept(message, requests) for message in messages]
        return DenseSums.total_of(members, requests)

    def _kept(self, contribution: Contribution, requests: Sequence[Request]) -> ExactSums:
        try:
            keep = self._within_bounds(contribution, requests)
        except InputError:  # as the real one does
            return replace(DenseSums.total((), requests), rejected_rows=contribution.n_users)
        return FactoredSums.of(contribution, keep=keep, backend=self.backend)

    def _within_bounds(self, contribution: Contribution, requests: Sequence[Request]) -> BoolArray:
        array = getattr(contribution, self.overlooks)
        blank = None if array is None else np.zeros_like(array)
        unseen: dict[str, Any] = {self.overlooks: blank}
        return rows_within_bounds(replace(contribution, **unseen), requests)
