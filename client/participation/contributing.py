"""What a client gives: made from its rows, and from empty ones where rows cannot be computed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.personal import require_personal_bounds, scale_contribution
from fedboard.common.errors import PrivacyError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.sums.row_bounds import joined, rows_within_bounds
from fedboard.common.task import ClientTask

Scale = float | FloatArray
"""Which part is given: s in (0, 1], or one for each row, float64, shape (n_users,)."""
Made = TypeVar("Made")


class RatingSource(Protocol):
    """Where a client's ratings are: one row on a phone, many at a gateway."""

    @property
    def n_users(self) -> int:
        """Number of rows."""
        ...

    def cohort(self, board: Board) -> Cohort:
        """The ratings in the board's catalogue; what the catalogue does not hold is left out. Private."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """An admitted question; nothing of it is private."""

    task: ClientTask
    board: Board
    requests: tuple[Request, ...]

    def contribution(self, cohort: Cohort, scales: FloatArray) -> Contribution:
        """What some rows give, each its own part."""
        contribution = self.task.contribute(cohort, self.board, self.requests)
        if not np.all(scales == 1.0):
            contribution = scale_contribution(contribution, self.requests, scales)
            require_personal_bounds(contribution, self.requests, scales)
        return contribution

    def checked(self, cohort: Cohort, scales: FloatArray) -> Contribution:
        """The same, within every bound.

        Raises:
            PrivacyError: a row breaks its bound.
        """
        contribution = self.contribution(cohort, scales)
        if not rows_within_bounds(contribution, self.requests).all():
            raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
        return contribution

    def require_sound(self) -> None:
        """Hold the board against an empty row, before any rating is looked at.

        Raises:
            RefusedError: not even that can be computed, which is the board's fault alone and so for everybody.
        """
        try:
            self.checked(self.nothing(1), np.ones(1))
        except Exception:
            raise RefusedError(Refusal.BAD_BOARD) from None

    def nothing(self, n_users: int, first_row: int = 0) -> Cohort:
        """So many empty rows."""
        return Cohort(
            indptr=np.zeros(n_users + 1, dtype=np.int64),
            items=np.zeros(0, dtype=np.int32),
            ratings=np.zeros(0, dtype=np.float32),
            n_items=self.board.catalogue.n_items,
            first_row=first_row,
        )


def made_from_rows(
    work: Work,
    source: RatingSource,
    scale: Scale,
    make: Callable[[Contribution], Made],
    failed: Callable[[Exception], None],
) -> tuple[Cohort, Made]:
    """Make what is sent from the ratings.

    Guarantee: whether something is made depends on ``work`` and ``make`` alone, never on a rating: rows that cannot
    be computed count as empty.

    Args:
        work: what is asked; an empty row can be computed (``require_sound``).
        source: the ratings. Private.
        scale: which part is given.
        make: from contributions within their bounds; it checks them again. What raises leaves no trace.
        failed: is told of what could not be computed; it may raise in its turn.
    """
    try:
        cohort = source.cohort(work.board)
    except Exception as error:
        failed(error)
        cohort = work.nothing(source.n_users)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (cohort.n_users,))
    try:
        contribution = work.contribution(cohort, scales)
    except Exception as error:
        failed(error)
        return cohort, _made_row_by_row(work, cohort, scales, make)
    try:
        return cohort, make(contribution)
    except RefusedError:
        raise  # the peer's message is at fault, which everybody may know
    except Exception as error:
        failed(error)
    return cohort, _made_row_by_row(work, cohort, scales, make)


def _made_row_by_row(
    work: Work, cohort: Cohort, scales: FloatArray, make: Callable[[Contribution], Made]
) -> Made:
    """Each row by itself, so that one that cannot be computed is empty and changes no other."""
    rows: list[Contribution] = []
    for number in range(cohort.n_users):
        own, part = cohort.rows(number, number + 1), scales[number : number + 1]
        try:
            rows.append(work.checked(own, part))
        except Exception:
            rows.append(work.checked(work.nothing(1, own.first_row), part))
    try:
        return make(joined(rows))
    except RefusedError:
        raise
    except Exception:
        return make(work.checked(work.nothing(cohort.n_users, cohort.first_row), scales))
