"""Questions as they stand on boards: their noise is that of their epsilon, no user moves a sum beyond her bound."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.sums.row_bounds import rows_within_bounds
from fedboard.common.questions.collection import ROW_BOUND, Subject
from fedboard.common.questions.names import of_question
from fedboard.common.questions.quantile import Bisection, Bracket, QuantileQuestion, Target
from fedboard.common.questions.statement import BRACKET, QuestionStatement, StatedQuestion, rebuilt_question
from fedboard.common.questions.wording import Wording
from fedboard.common.tasks.registry import ALGORITHMS, algorithm_of, rebuild_task

CATALOGUE = Catalogue(item_ids=tuple(f"i{number}" for number in range(30)))
COUNTS = tuple(float(number) for number in range(1, 31))


def stated(kind: Any = "mean", subject: str = "ratings", **changes: Any) -> StatedQuestion:
    told = {name: changes.pop(name) for name in ("epsilon", "adjacency") if name in changes}
    wording = Wording(kind=kind, subject=Subject(subject), **changes)
    usual: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE}
    return StatedQuestion(wording.statement((1.0, 5.0), release="question-3", **{**usual, **told}))


EVERY = [
    stated(),
    stated(subject="counts", adjacency=Adjacency.REPLACE),
    stated(subject="norms"),
    stated("quantile", bound=4.0),
    stated("quantile", "counts", candidates=COUNTS, bisected=True),
    stated("quantile", "ratings", share=0.9, bisected=True, adjacency=Adjacency.REPLACE),
]


def people(seed: int, n_users: int = 40) -> Cohort:
    """Of no ratings up to all items."""
    random = np.random.default_rng(seed)
    rated = [
        random.choice(30, count, replace=False) for count in [0, 30, *random.integers(1, 31, n_users - 2)]
    ]
    users = np.repeat(np.arange(n_users), [len(items) for items in rated])
    ratings = random.integers(1, 6, users.size).astype(np.float32)
    return cohort_from_triples(users, np.concatenate(rated), ratings, n_users=n_users, n_items=30)


def board_of(task: StatedQuestion) -> Board:
    return task.first_board(CATALOGUE)


@pytest.mark.parametrize("task", EVERY, ids=lambda task: task.statement.sentence)
def test_a_board_says_all_of_it_and_its_rounds_cost_what_it_says(task: StatedQuestion) -> None:
    board = Board.from_bytes(np.frombuffer(board_of(task).to_bytes(), dtype=np.uint8))

    again = rebuilt_question(board)

    assert again == task
    assert again.requests(board) == task.plan()[0]
    events = [request.release.event() for (request,) in again.plan()]
    assert epsilon_of_events(events, 1e-5) == pytest.approx(0.5, rel=1e-9)
    assert all(of_question(event["name"]) for event in events)
    assert not any(
        of_question(name) for name in ("mean", "counts", "question", "question-1/2/3", "x/question-1")
    )
    with pytest.raises(InputError, match="about a question"):
        rebuild_task(board)


@pytest.mark.parametrize("task", EVERY, ids=lambda task: task.statement.sentence)
def test_one_person_more_or_less_moves_a_sum_by_her_bound_and_takes_no_item_along(
    task: StatedQuestion,
) -> None:
    """Whatever she has; removed before anything is computed, so that what others give cannot depend on her."""
    everybody, board = people(7), board_of(task)
    requests = task.requests(board)
    given = task.contribute(everybody, board, requests)
    (rows,) = given.totals.values()

    for number in range(everybody.n_users):
        kept = np.arange(everybody.n_users) != number
        without = everybody.where(kept[everybody.user_of_entry()])
        (others,) = task.contribute(without, board, requests).totals.values()
        np.testing.assert_array_equal(others[kept], rows[kept])
        moved = (rows.sum(axis=0) - others.sum(axis=0)).astype(np.float64)
        assert np.linalg.norm(moved) <= ROW_BOUND
    assert rows_within_bounds(given, requests).all()
    assert (given.items.size, given.weights, given.responses, given.vectors) == (0, None, None, None)
    assert not given.indptr.any()
    assert rows.sum(axis=1).max() > 0.9 * ROW_BOUND, "the bound is reached, so that a smaller one would show"


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.1},
        {"delta": 1e-9},
        {"noise_multipliers": {"question-3": 0.1}},
        {"noise_multipliers": {"question-3": 7.0, "question-4": 7.0}},
        {"noise_multipliers": {"counts": 7.03182667559017}},
        {"release": "counts"},
        {"release": "question-3/1"},
        {"adjacency": "replace-values"},
        {"adjacency": "sometimes"},
        {"bound": 0.0},
        {"bound": float("inf")},
        {"rating_range": None},
        {"rating_range": (5.0, 1.0)},
        {"rating_range": (1.0, float("nan"))},
        {"kind": "sum"},
        {"subject": "names"},
        {"bisected": True},
        {"epsilon": float("nan")},
        {"epsilon": 1e9},
        {"candidates": [[1]]},
    ],
    ids=str,
)
def test_a_board_that_says_one_thing_and_does_another_states_no_question(change: dict[str, Any]) -> None:
    task = stated()
    board = replace(board_of(task), config={**task.config, **change}, _digest=[])

    with pytest.raises(InputError):
        rebuilt_question(board)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n_candidates", [2, 3, 8, 29, 201])
def test_a_bisection_finds_the_candidate_with_the_quantile_in_all_its_rounds(
    share: float, n_candidates: int
) -> None:
    everybody = people(3, 200)
    candidates = tuple(np.linspace(1, 30, n_candidates).tolist())
    question = QuantileQuestion(subject=Subject.COUNTS, target=Target(share), candidates=candidates)
    bisection, histogram = Bisection(question), question.rows(everybody).sum(axis=0)

    bracket, rounds = bisection.start, 0
    while not bracket.settled:
        bracket = bisection.narrowed(bracket, bisection.rows(everybody, bracket).sum(axis=0).astype(float))
        rounds += 1

    below = np.cumsum(histogram) / histogram.sum()
    assert rounds <= bisection.n_rounds
    assert bracket.first == int(np.argmax(below >= share - 1e-9))


def test_a_bisection_misses_by_its_rank_error_and_a_histogram_by_ten_times_as_much() -> None:
    """Of 300 draws less than a tenth miss by more than what 95 of a hundred keep."""
    everybody, random = people(5, 400), np.random.default_rng(11)
    question = QuantileQuestion(
        subject=Subject.COUNTS, target=Target(0.5), candidates=tuple(np.linspace(1, 30, 201).tolist())
    )
    bisection, deviation = Bisection(question), 6.0
    weights = question.rows(everybody).sum(axis=0) / ROW_BOUND
    below = np.cumsum(weights)
    missed = []
    for _ in range(300):
        bracket = bisection.start
        while not bracket.settled:
            exact = np.array([below[bracket.middle], below[-1] - below[bracket.middle]])
            bracket = bisection.narrowed(bracket, exact + random.normal(0.0, deviation, 2))
        wanted, after = 0.5 * below[-1], below[bracket.first]
        missed.append(max(after - weights[bracket.first] - wanted, wanted - after, 0.0))
    error = bisection.read(Bracket(9, 9), deviation=deviation).rank_error
    by_histogram = question.read(np.zeros(201), deviation=deviation).rank_error

    assert error is not None
    assert by_histogram is not None
    assert np.mean(np.array(missed) > error) < 0.1
    assert np.mean(np.array(missed) > 0.2 * error) > 0.05, "an error that is far too large would show"
    for_as_much = error * np.sqrt(bisection.n_rounds)  # each round has its part of epsilon alone
    assert 9 < by_histogram / for_as_much < 11


def test_where_rounds_were_lost_the_interval_is_what_is_left() -> None:
    task = stated("quantile", "counts", candidates=COUNTS, bisected=True)
    board = board_of(task)
    for _ in task.plan():
        assert task.requests(board)
        board = board.successor(noise_ratio=np.ones(1))

    answer = task.answer(board)

    assert task.requests(board) == ()
    assert answer.interval == (1.0, 30.0)
    assert list(board.arrays[BRACKET]) == [0, 29]


def test_no_training_has_releases_that_are_called_as_questions_are() -> None:
    """Devices tell by the name of a release what counts as a question's."""
    for folder in ALGORITHMS:
        assert algorithm_of(folder.replace("_", "-")).name != StatedQuestion.NAME


def test_a_question_about_the_number_of_ratings_needs_no_scale() -> None:
    wording = Wording(kind="mean", subject=Subject.COUNTS)
    told: dict[str, Any] = {"release": "question-1", "epsilon": 0.5, "delta": 1e-5}

    statement = wording.statement((1, 5), scaled=False, adjacency=Adjacency.ADD_REMOVE, **told)

    assert statement.rating_range is None
    assert isinstance(statement, QuestionStatement)
    with pytest.raises(InputError, match="needs the public range"):
        Wording(kind="mean").statement((1, 5), scaled=False, adjacency=Adjacency.ADD_REMOVE, **told)


@pytest.mark.parametrize(
    ("task", "arrays"), [(EVERY[0], {"sums": np.array([8000.0, 9000.0])}), (EVERY[4], {})]
)
def test_an_error_counts_the_noise_that_is_there_and_not_only_what_was_booked(
    task: StatedQuestion, arrays: dict[str, Any]
) -> None:
    """Clients who add the noise add more than is counted on."""

    def length(ratio: float) -> float:
        board = board_of(task)
        for _ in task.plan():
            board = board.successor(noise_ratio=np.array([ratio]), **arrays)
        answer = task.answer(board)
        low, high = answer.interval or (0.0, 0.0)
        return answer.rank_error or high - low

    assert length(1.1) == pytest.approx(1.1 * length(1.0), rel=0.05)
    assert length(1.2) > 1.1 * length(1.0)
