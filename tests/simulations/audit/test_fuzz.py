"""The sensitivity fuzz: correct code passes whoever comes. That it notices skipped checks: ``test_controls.py``."""

from functools import cache

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.protocols.trusted import rows_within_bounds
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import N_ITEMS, audited, rounds_of
from tests.simulations.audit.fuzz import FuzzResult, isometric_square, sensitivity_fuzz
from tests.simulations.audit.hostile import hostile_messages, hostile_users


@cache
def boards(kind: str, pool: WorkerPool) -> list[Board]:
    """The first board of each kind of question."""
    subject, entrance = audited(kind)
    found: dict[object, Board] = {}
    for played in rounds_of(subject, entrance, pool):
        found.setdefault(tuple(request.source for request in played.requests), played.before)
    return list(found.values())


def fuzzed(pool: WorkerPool, kind: str) -> FuzzResult:
    subject, entrance = audited(kind)
    return sensitivity_fuzz(
        subject,
        entrance.honest_rows().cohort,
        boards(kind, pool),
        rating_range=entrance.rating_range,
        seed=0,
        n_random=3,
    )


def failed(result: FuzzResult) -> dict[str, str]:
    return {finding.check: finding.detail for finding in result.findings if not finding.passed}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["explicit", "implicit", "replace", "uniform", "residual", "spectral"])
def test_nobody_moves_a_correct_sum_by_more_than_its_bound(kind: str, pool: WorkerPool) -> None:
    result = fuzzed(pool, kind)

    assert not failed(result)
    assert result.n_refused > 20
    assert all(0.99 < line.share <= 1 for line in result.lines), "the bound is reached, so the test can fail"


def test_every_hostile_message_is_refused_but_those_that_keep_all_bounds() -> None:
    subject, _ = audited()
    requests = subject.task.requests(subject.task.first_board(subject.catalogue))
    kept = {
        who
        for who, row in hostile_messages(requests, N_ITEMS, np.random.default_rng(0))
        if _accepted(row, requests)
    }

    assert kept == {"at every bound", f"mean/sum of {-requests[0].release.l2_bound}"}


def _accepted(row: object, requests: tuple[Request, ...]) -> bool:
    from fedboard.common.errors import InputError

    try:
        return bool(rows_within_bounds(row, requests).all())
    except InputError:
        return False


def test_hostile_users_hold_every_trap_once_and_the_random_ones_repeat() -> None:
    users = hostile_users(N_ITEMS, (1.0, 5.0), n_random=4, rng=np.random.default_rng(0))
    again = hostile_users(N_ITEMS, (1.0, 5.0), n_random=4, rng=np.random.default_rng(0))

    assert len({user.name for user in users}) == len(users)
    assert all(np.array_equal(a.items, b.items) for a, b in zip(users, again, strict=True))
    assert any(np.isnan(user.ratings).any() for user in users)


def test_norms_of_changes_are_exact_and_isometric() -> None:
    subject, _ = audited("implicit")
    board = subject.task.first_board(subject.catalogue)
    counts = subject.task.requests(board)[0]
    huge = np.zeros((N_ITEMS, 1), dtype=np.int64)
    huge[:2, 0] = 2**40, 1

    assert isometric_square(counts, huge) == 2**80 + 1


@pytest.mark.slow
def test_off_diagonals_of_symmetric_changes_count_twice(pool: WorkerPool) -> None:
    subject, entrance = audited("implicit")
    last = list(rounds_of(subject, entrance, pool))[-1]
    gram = next(request for request in last.requests if request.name.endswith("gram"))
    matrix = np.arange(9).reshape(3, 3) + np.arange(9).reshape(3, 3).T

    packed = matrix[np.triu_indices(3)][None, :]

    assert isometric_square(gram, packed) == np.sum(matrix**2)
