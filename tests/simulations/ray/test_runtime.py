"""The engine on a cluster that is none: everybody in the sums, once, of ratings that nobody has changed."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.simulations.engine.merging import SpanRead, SpanSums
from fedboard.simulations.ray import runtime as module
from fedboard.simulations.ray.runtime import OnRay, RayPool, spans_of
from tests.common.algorithms.conftest import a_prepared_board, a_task, population

TASK, COHORT, N_USERS = a_task(), population(n_users=230), 230


class NoCluster:
    """Calls what it is given here, and may change what comes back."""

    def __init__(self, change: Callable[[SpanSums], SpanSums]) -> None:
        self.n_cpus, self.is_local, self.change = 2, True, change

    def put(self, value: Any) -> Any:
        return value

    def get(self, value: Any) -> Any:
        return value

    def done(self, refs: list[int]) -> list[int]:
        return refs[-1:]  # the last first

    def call(self, function: Callable[..., Any], *given: Any, returns: int = 1) -> Any:
        found = function(*given)
        if returns == 1:
            return found
        told, sums = found
        return Named(told), self.change(sums)


class Named(SimpleNamespace):
    """A span that can be a key, as what names an object of a cluster."""

    def __init__(self, told: SpanSums) -> None:
        super().__init__(**{name: getattr(told, name) for name in SpanSums.__slots__}, n_users=told.n_users)

    __hash__ = object.__hash__


@pytest.fixture(autouse=True)
def many_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEWEST_USERS", 7)


def engine(change: Callable[[SpanSums], SpanSums] = lambda sums: sums) -> OnRay:
    return OnRay(TASK, COHORT, protocol=Trusted(), pool=RayPool(NoCluster(change)))  # type: ignore[arg-type]


def test_the_sums_of_a_tree_are_those_of_everybody_at_once() -> None:
    board = a_prepared_board(TASK)
    requests = TASK.requests(board)

    with engine() as clients:
        found = whole_sums(clients.gather(board, requests).sums, requests)

    expected = whole_sums(FactoredSums.of(TASK.contribute(COHORT, board, requests)), requests)
    for name, sums in expected.items():
        np.testing.assert_array_equal(found[name], sums)


def without(sums: SpanSums) -> SpanSums:
    """The first span's is said to be over others."""
    return sums if 0 not in sums.spans else replace(sums, spans={0: replace(sums.spans[0], stop=3)})


def twice(sums: SpanSums) -> SpanSums:
    """The second span's has a user of the first."""
    return sums if 8 not in sums.spans else replace(sums, spans={7: SpanRead(stop=16, digest=b"")})


def other(sums: SpanSums) -> SpanSums:
    """Was computed again from other ratings."""
    read = {first: replace(read, digest=b"other") for first, read in sums.spans.items() if first == 8}
    return replace(sums, spans={**sums.spans, **read})


@pytest.mark.parametrize(
    ("change", "said"),
    [(without, "nothing was released"), (twice, "count twice"), (other, "nothing was released")],
)
def test_sums_over_others_than_the_workers_said_are_not_given_on(
    change: Callable[[SpanSums], SpanSums], said: str
) -> None:
    """Whatever became of the tasks of a round: what came back says whom it is over."""
    board = a_prepared_board(TASK)

    with engine(change) as clients, pytest.raises((PrivacyError, InputError), match=said):
        clients.gather(board, TASK.requests(board))


@pytest.mark.parametrize(
    ("n_users", "n_cpus"), [(1, 1), (2048, 4), (100_000, 1), (100_001, 64), (10**8, 1000)]
)
def test_spans_are_all_users_once(n_users: int, n_cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEWEST_USERS", 2048)
    spans = spans_of(n_users, n_cpus)

    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == n_users
    assert len(spans) <= max(32, 4 * n_cpus)
    assert all(stop - start >= min(2048, n_users) for start, stop in spans[:-1])


def test_spans_stay_below_what_64_bits_hold() -> None:
    assert max(stop - start for start, stop in spans_of(10**9, 1)) == 1 << 22
