"""What some users give to a round: computed, and checked against every bound before anybody sees it."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.per_user.personal import require_personal_bounds, scale_contribution
from fedboard.common.protocols.sums.exact import kept_rows
from fedboard.common.task import ClientTask

ScalesOf: TypeAlias = Callable[[BitArray], FloatArray]
"""Keys of users -> their personal levels, see ``fedboard.common.per_user.personal``; picklable."""


def given_by(
    task: ClientTask,
    cohort: Cohort,
    board: Board,
    requests: tuple[Request, ...],
    *,
    present: BoolArray | None = None,
    scales: FloatArray | None = None,
) -> Contribution:
    """The contribution of a cohort in which those who take no part have empty rows.

    Guarantee: each row depends on that user's row, the board, her coin and her level alone.
    Not guaranteed: the requests' bounds; whoever sums the rows checks them (``rows_within_bounds``).

    Args:
        task: what is learnt.
        cohort: the users' ratings. Private.
        board: public.
        requests: of this round.
        present: bool, shape (n_users,): who takes part; None for everybody.
        scales: personal levels, float64, shape (n_users,); None where the run's guarantee is everybody's.

    Raises:
        PrivacyError: a row breaks the bound of its user's own level.
    """
    if present is not None:
        cohort = cohort.where(np.repeat(present, cohort.counts))
    contribution = task.contribute(cohort, board, requests)
    if present is not None:  # totals and the like, which an empty row may have too
        contribution = kept_rows(contribution, present)
    if scales is not None:
        contribution = scale_contribution(contribution, requests, scales)
        require_personal_bounds(contribution, requests, scales)
    return contribution
