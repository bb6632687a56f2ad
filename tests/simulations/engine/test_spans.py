"""The sums of spans are those of everybody at once, for any blocks and any spans."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import (
    FixedSizeCohort,
    FullParticipation,
    Participation,
    PoissonParticipation,
    ShuffledCohorts,
)
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import Task
from fedboard.server.round import run_round
from fedboard.server.training import plan_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.merging import (
    SpanRead,
    SpanSums,
    merged_spans,
    require_each_once,
    require_everybody,
)
from fedboard.simulations.engine.spans import SpanWork, sums_of_span
from fedboard.simulations.problem import problem_of, splitting_of
from fedboard.simulations.runs.calibrated import build_task

pytestmark = pytest.mark.slow

N_USERS = 230
RUNS = {
    "residual": {"algorithm": "residual", "settings": {"rounds": 2}},
    "adadpals": {"algorithm": "adadpals", "settings": {"rank": 3, "rounds": 1}},
    "residual, implicit": {"algorithm": "residual", "feedback": "implicit", "settings": {"rounds": 2}},
    "topk": {"algorithm": "topk", "feedback": "implicit"},
    "popularity": {"algorithm": "popularity-private", "feedback": "implicit"},
}


def rounds_of(
    task: Task, ratings: Ratings, run: dict[str, object], path: Path
) -> list[tuple[Board, tuple[Request, ...]]]:
    """What each round of a run asked, about which board."""
    problem, found = problem_of(ratings, parse_config(run)), []
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    board = task.first_board(problem.catalogue)
    with (
        Ledger.create(path / "ledger", budget, plan=plan_of(task, FullParticipation())) as ledger,
        WorkerPool(1) as pool,
        Engine(task, problem.train, protocol=Trusted(), pool=pool) as engine,
    ):
        while requests := task.requests(board):
            found.append((board, tuple(requests)))
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(1)).board
    return found


@pytest.mark.parametrize("name", RUNS)
def test_any_blocks_and_spans_have_the_sums_of_everybody_at_once(
    name: str, ratings: Ratings, tmp_path: Path
) -> None:
    config, stream = parse_config(RUNS[name]), HeldStream.of_ratings(ratings)
    task = build_task(config, rating_range=ratings.rating_range, backend="numpy").task

    rounds = rounds_of(task, ratings, RUNS[name], tmp_path)

    assert len(rounds) == len(task.plan())
    for board, requests in rounds:
        given = task.contribute(problem_of(ratings, config).train, board, requests)
        expected = whole_sums(FactoredSums.of(given), requests)
        for cuts, block in (((0, 230), 10**9), ((0, 1, 22, 23, 24, 230), 40), ((0, 229, 230), 700)):
            work = SpanWork(
                task=task,
                stream=stream,
                splitting=splitting_of(config, stream),
                requests=requests,
                backend="numpy",
                block_ratings=block,
            )
            parts = [sums_of_span(pickle.loads(pickle.dumps(work)), board, *span) for span in pairwise(cuts)]
            found = merged_spans(reversed(parts))
            require_everybody(found, N_USERS)
            assert set(found.sums) == set(expected)
            for release in expected:
                assert_array_equal(found.sums[release], expected[release])


@pytest.mark.parametrize("kind", [PoissonParticipation, FixedSizeCohort, ShuffledCohorts])
def test_who_takes_part_is_who_a_sort_of_all_words_says(kind: Callable[[float], Participation]) -> None:
    number = {PoissonParticipation: 0.4, FixedSizeCohort: 50}.get(kind, 3)
    stream = "shuffle 1 of all users" if kind is ShuffledCohorts else "who takes part in round-4"
    for seed in range(5):
        words = SeededNoise(seed).stream(stream).bits(0, 999)
        ranks = np.argsort(np.argsort(words, kind="stable"))
        first, last = {FixedSizeCohort: (0, 50), ShuffledCohorts: (333, 666)}.get(kind, (0, 999))
        drawn = (first <= ranks) & (ranks < last)
        if kind is PoissonParticipation:
            drawn = np.array([word < 0.4 * 2**64 for word in words.tolist()])
        rows = kind(number).rows(999, SeededNoise(seed), "round-4")
        for cuts in ((0, 999), (0, 1, 500, 998, 999)):
            found = [pickle.loads(pickle.dumps(rows)).rows(*span) for span in pairwise(cuts)]
            assert_array_equal(np.concatenate(found), drawn)


def work_of(ratings: Ratings, **settings: object) -> tuple[SpanWork, Board]:
    config, stream = parse_config({"algorithm": "bias-private"}), HeldStream.of_ratings(ratings)
    task = build_task(config, rating_range=ratings.rating_range, backend="numpy").task
    board = task.first_board(problem_of(ratings, config).catalogue)
    work = SpanWork(
        task=task,
        stream=stream,
        splitting=splitting_of(config, stream),
        requests=task.requests(board),
        backend="numpy",
        **settings,
    )
    return work, board


@pytest.mark.parametrize(
    "spans",
    [[], [(0, 10)], [(5, 20)], [(0, 10), (11, 20)], [(0, 10), (9, 20)], [(0, 20), (0, 20)], [(0, 21)]],
)
def test_nobody_is_missing_or_counted_twice(spans: list[tuple[int, int]]) -> None:
    require_each_once([(10, 20), (0, 10)], 20)

    with pytest.raises(PrivacyError, match="not over users 0:20, each counted once"):
        require_each_once(spans, 20)


def test_spans_that_share_a_user_are_never_merged(ratings: Ratings) -> None:
    work, board = work_of(ratings)
    first, within, behind, same = (
        sums_of_span(work, board, *span) for span in ((0, 100), (99, 150), (100, 230), (0, 50))
    )

    for overlapping in ([first, within], [first, first], [first, same], [behind, first, within]):
        with pytest.raises(PrivacyError, match="she would count twice"):
            merged_spans(overlapping)
    require_everybody(merged_spans([behind, first]), N_USERS)
    for missing in ([first], [behind], [same, behind]):
        with pytest.raises(PrivacyError, match="not over users 0:230, each counted once"):
            require_everybody(merged_spans(missing), N_USERS)


def test_the_trace_of_a_span_does_not_depend_on_its_blocks_and_does_on_every_rating(ratings: Ratings) -> None:
    values = ratings.values.copy()
    values[-1] = 1 if values[-1] != 1 else 2
    other = replace(ratings, values=values)

    def trace(of: Ratings, **settings: object) -> dict[int, SpanRead]:
        work, board = work_of(of, **settings)
        return dict(sums_of_span(work, board, 3, 230).spans)

    assert trace(ratings) == trace(ratings, block_ratings=1) == trace(ratings, block_ratings=100)
    assert trace(ratings) != trace(other)


def test_a_span_whose_sums_might_run_over_64_bits_is_refused_before_it_is_read(ratings: Ratings) -> None:
    work, board = work_of(ratings)
    bound = max(request.release.l2_bound for request in work.requests)
    most = (1 << 62) // bound

    with pytest.raises(InputError, match=f"fit 64-bit integers; take spans of at most {most} users"):
        sums_of_span(
            replace(work, stream=replace(HeldStream.of_ratings(ratings), n_users=1 << 60)), board, 0, most + 1
        )


def test_a_stream_that_miscounts_its_ratings_is_refused(ratings: Ratings) -> None:
    class Miscounting(HeldStream):
        def counts(self, start: int, stop: int) -> np.ndarray:
            return super().counts(start, stop) + (np.arange(start, stop) == 7)

    work, board = work_of(ratings)
    with pytest.raises(InputError, match="as many ratings as it says"):
        sums_of_span(replace(work, stream=Miscounting.of_ratings(ratings)), board, 0, 230)


def test_sums_of_other_requests_are_not_merged(ratings: Ratings) -> None:
    work, board = work_of(ratings)
    part = sums_of_span(work, board, 0, 100)
    name = next(iter(part.sums))
    other = SpanSums(
        sums={**part.sums, name: part.sums[name][:, :0]},
        spans={100: SpanRead(stop=230, digest=b"")},
        n_ratings=0,
        n_learnt_from=0,
        sizes={},
        seconds=0.0,
    )

    with pytest.raises(InputError, match="different requests"):
        merged_spans([part, other])
    with pytest.raises(InputError, match="no span at all"):
        merged_spans([])


def test_sums_that_would_leave_64_bits_are_refused_and_no_others(ratings: Ratings) -> None:
    work, board = work_of(ratings)
    part = sums_of_span(work, board, 0, 100)
    near = {name: np.full_like(sums, (1 << 61) - 1) for name, sums in part.sums.items()}
    spans = [{first: SpanRead(stop=first + 1, digest=b"")} for first in range(3)]
    parts = [replace(part, sums=near, spans=spans[0]), replace(part, sums=near, spans=spans[1])]
    down = {name: -sums for name, sums in near.items()}

    both = merged_spans(parts)  # 2^62 - 2
    merged_spans([parts[0], replace(part, sums=down, spans=spans[2]), parts[1]])  # nothing in between
    with pytest.raises(PrivacyError, match="does not fit 64-bit integers"):
        both.merged(replace(parts[0], spans=spans[2]))
