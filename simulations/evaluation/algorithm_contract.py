"""What every algorithm keeps, as checks that its author runs on it; each says in a sentence what is broken.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_the_contract(check):
        check(ALGORITHM)

They play a tiny run on made-up users, some of them with ratings that nobody could give. Not checked is what the
algorithm is for. Bounds and noise do not rest on these checks: they are enforced where contributions are summed and
released, whatever an algorithm does.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from fedboard.common.algorithms.shared.algorithm import Algorithm, RatingTask, Variant
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.algorithms.shared.tuned import search_tables
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.calibrating import CalibratedTask, Training, calibrated_task
from fedboard.server.round import run_round
from fedboard.server.run_spec import Promise
from fedboard.simulations.engine import Engine, WorkerPool

USERS, ITEMS, RANGE, DELTA = 24, 12, (1.0, 5.0), 1e-6
_LARGEST_EPSILON = 20.0
_OUT_OF_RANGE = 1e6


class ContractError(AssertionError):
    """An algorithm that does not keep the contract; says what is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """One round of a played run."""

    board: Board
    requests: tuple[Request, ...]
    after: Board


def need(holds: object, sentence: str) -> None:
    """Say what is broken.

    Raises:
        ContractError: it does not hold.
    """
    if not holds:
        raise ContractError(sentence)


def population(feedback: Feedback) -> Cohort:
    """Made-up users: one without a rating, one who rated everything lowest, one highest. The same every time."""
    rng = np.random.default_rng(7)
    rated = rng.random((USERS, ITEMS)) < rng.uniform(0.2, 0.9, (USERS, 1))
    ratings = rng.integers(1, 6, (USERS, ITEMS)).astype(np.float32)
    rated[0], rated[1], rated[2] = False, True, True
    ratings[1], ratings[2] = RANGE
    if feedback is Feedback.IMPLICIT:
        ratings[:] = 1.0
    users, items = np.nonzero(rated)
    return cohort_from_triples(
        users.astype(np.int32), items.astype(np.int32), ratings[rated], n_users=USERS, n_items=ITEMS
    )


def impossible(users: Cohort) -> Cohort:
    """The same users with ratings that nobody could give."""
    signs = np.where(np.arange(users.n_ratings) % 3 == 0, -1.0, 1.0).astype(np.float32)
    return replace(users, ratings=signs * np.float32(_OUT_OF_RANGE))


def ways(algorithm: Algorithm) -> Iterator[tuple[Variant, Feedback]]:
    """Every name with all that it learns from."""
    for name in algorithm.names:
        for feedback in sorted(algorithm.feedback):
            yield algorithm.variant(name), feedback


def made(
    variant: Variant,
    feedback: Feedback,
    *,
    epsilon: float = _LARGEST_EPSILON,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> CalibratedTask:
    """Its task at a budget, with tuned defaults."""
    promise = Promise(epsilon=epsilon, delta=DELTA, adjacency=adjacency, seed=1)
    training = Training(algorithm=variant, feedback=feedback, promise=promise)
    return calibrated_task(training, rating_range=RANGE, backend="numpy")


def played(task: RatingTask, users: Cohort) -> list[PlayedRound]:
    """A run from the first board to the last, through bounds, ledger and noise."""
    board = task.first_board(Catalogue(item_ids=tuple(f"item {i}" for i in range(ITEMS))))
    plan = {request.name: request.release.noise_multiplier for asked in task.plan() for request in asked}
    budget = Budget(epsilon=_LARGEST_EPSILON, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    rounds: list[PlayedRound] = []
    with (
        tempfile.TemporaryDirectory(prefix="fedboard-contract-") as folder,
        Ledger.create(Path(folder) / "ledger", budget, plan=plan) as ledger,
        WorkerPool(1) as pool,
        Engine(task, users, protocol=Trusted(), pool=pool) as engine,
    ):
        while requests := task.requests(board):
            done = run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(3))
            need(
                done.rejected_rows == 0,
                f"{done.rejected_rows} rows break their bounds after board {board.version}",
            )
            need(done.board.version == board.version + 1, "update must return the board's successor")
            rounds.append(PlayedRound(board=board, requests=requests, after=done.board))
            board = done.board
            need(len(rounds) <= len(plan), "the run does not end")
    return rounds


_READ_OF_EVERY_BOARD = ("item_counts", "item_weights", "learnt")


def budget_is_spent(algorithm: Algorithm) -> None:
    """Every name, at any epsilon, under both adjacencies: all of the budget, no more, on what is planned."""
    for variant, feedback in ways(algorithm):
        search_tables(variant, feedback)  # says itself what is wrong
        for epsilon in (0.1, 1.0, 5.0, 50.0):
            for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE):
                where = f"{variant.name}, {feedback} feedback, epsilon {epsilon:g}, {adjacency}"
                _require_spent(
                    made(variant, feedback, epsilon=epsilon, adjacency=adjacency), epsilon, adjacency, where
                )


def task_is_its_name_and_configuration(algorithm: Algorithm) -> None:
    """What a device rebuilds from a board, through JSON, asks what the server's asks."""
    for variant, feedback in ways(algorithm):
        task = made(variant, feedback).task
        need(
            task.name == algorithm.name, f"the task is called {task.name!r}, its algorithm {algorithm.name!r}"
        )
        stated = msgspec.json.decode(msgspec.json.encode(dict(task.config)))
        again = algorithm.task(from_written(stated, algorithm.settings), backend="numpy", features=None)
        need(
            dict(again.config) == dict(task.config), f"{variant.name}: the configuration changes through JSON"
        )
        need(again.plan() == task.plan(), f"{variant.name}: rebuilt from its board the task plans otherwise")


def runs_as_it_plans(algorithm: Algorithm) -> None:
    """Round by round what was planned, nobody's row rejected, boards that keep the algorithm's own rules."""
    for feedback in sorted(algorithm.feedback):
        task = made(algorithm.variant(), feedback).task
        rounds = played(task, population(feedback))
        plan = [[request.name for request in asked] for asked in task.plan()]
        asked = [[request.name for request in one.requests] for one in rounds]
        need(asked == plan, f"{feedback} feedback: the rounds ask {asked}, planned were {plan}")
        for one in rounds:
            _require_sound(algorithm, task, one.after)
        _require_sound(algorithm, task, rounds[0].board)
        missing = [name for name in _READ_OF_EVERY_BOARD if name not in rounds[-1].after.arrays]
        need(not missing, f"the last board lacks {', '.join(missing)}, which recommending and reports read")


def contributions_keep_their_bounds(algorithm: Algorithm) -> None:
    """Of every user, whatever she rates: integers within bound and sign, repeatable, of her own row alone."""
    for feedback in sorted(algorithm.feedback):
        task, users = made(algorithm.variant(), feedback).task, population(feedback)
        for one in played(task, users):
            _require_bounds(task, one, users)
            _require_bounds(task, one, impossible(users))


def predictions_and_rankings_agree(algorithm: Algorithm) -> None:
    """Ratings within their range, finite scores, and ``ranking_factors`` orders items as ``predict`` does."""
    for feedback in sorted(algorithm.feedback):
        task, users = made(algorithm.variant(), feedback).task, population(feedback)
        board = played(task, users)[-1].after
        local = task.fit_local(users, board)
        who, what = np.divmod(np.arange(USERS * ITEMS, dtype=np.int32), np.int32(ITEMS))
        scores = task.predict(local, board, who, what).reshape(USERS, ITEMS)
        need(np.isfinite(scores).all(), "a prediction is not finite")
        if feedback is Feedback.EXPLICIT:
            low, high = RANGE
            need(((scores >= low) & (scores <= high)).all(), f"a prediction is outside [{low:g}, {high:g}]")
        own, items = task.ranking_factors(local, board)
        products = own.astype(np.float64) @ items.astype(np.float64).T
        by_product = np.take_along_axis(scores, np.argsort(products, axis=1, kind="stable"), axis=1)
        need(
            (np.diff(by_product, axis=1) > -1e-4).all(), "ranking_factors and predict order items differently"
        )


def explanations_sum_to_the_prediction(algorithm: Algorithm) -> None:
    """Where ``regression`` is given: a person's own model is that ridge regression."""
    if algorithm.regression is None:
        return
    for feedback in sorted(algorithm.feedback):
        task, users = made(algorithm.variant(), feedback).task, population(feedback)
        board, items = played(task, users)[-1].after, np.arange(ITEMS, dtype=np.int32)
        for user in range(USERS):
            own = users.rows(user, user + 1)
            model = algorithm.regression(task.settings, own, board)
            scores = model.base + model.pulls(own.items, items) @ (own.ratings - model.base[own.items])
            if feedback is Feedback.EXPLICIT:
                scores = np.clip(scores, *RANGE)
            local = task.fit_local(own, board)
            predicted = task.predict(local, board, np.zeros(ITEMS, dtype=np.int32), items)
            learnt = np.asarray(board.arrays["learnt"]) != 0
            need(
                np.allclose(predicted[learnt], scores[learnt], atol=1e-3),
                f"{feedback} feedback: regression does not give what predict gives",
            )


CHECKS: tuple[Callable[[Algorithm], None], ...] = (
    budget_is_spent,
    task_is_its_name_and_configuration,
    runs_as_it_plans,
    contributions_keep_their_bounds,
    predictions_and_rankings_agree,
    explanations_sum_to_the_prediction,
)
"""All of them; each raises ``ContractError``, or the error of what refused the algorithm."""


def _require_spent(of_run: CalibratedTask, epsilon: float, adjacency: Adjacency, where: str) -> None:
    total = sum(of_run.shares.values())
    need(math.isclose(total, 1.0, rel_tol=1e-9), f"{where}: shares_by_release sums to {total}, not to 1")
    planned = [request.release for asked in of_run.task.plan() for request in asked]
    names = [release.name for release in planned]
    need(names != [] and set(names) == set(of_run.shares), f"{where}: shares are not those of the plan")
    need(len(set(names)) == len(names), f"{where}: a release is planned twice")
    need(
        {release.adjacency for release in planned} == {adjacency},
        f"{where}: releases are stated under another adjacency",
    )
    spent = epsilon_of(DELTA, mu=compose([release.noise_multiplier for release in planned]))
    need(0.999 * epsilon < spent <= epsilon, f"{where}: the plan spends epsilon {spent:g}")


def _require_sound(algorithm: Algorithm, task: RatingTask, board: Board) -> None:
    rules = algorithm.array_rules(board, task.settings)
    need(rules, f"array_rules has none for board {board.version}")
    for rule in rules:
        need(
            rule.holds(board.arrays.get(rule.name)), f"board {board.version} breaks the rule of {rule.name!r}"
        )


def _require_bounds(task: RatingTask, one: PlayedRound, users: Cohort) -> None:
    about = f"after board {one.board.version}"
    whole = _sums(task.contribute(users, one.board, one.requests), one.requests)
    again = _sums(task.contribute(users, one.board, one.requests), one.requests)
    alone = [
        _sums(task.contribute(users.rows(user, user + 1), one.board, one.requests), one.requests)
        for user in range(users.n_users)
    ]
    for request in one.requests:
        name, release = request.name, request.release
        need((whole[name] == again[name]).all(), f"{name} {about} is another when asked again")
        need(
            (np.sum([parts[name] for parts in alone], axis=0) == whole[name]).all(),
            f"{name} {about}: a user's part depends on who is asked with her",
        )
        unit = (
            release.noise_stddev / release.column_stddev()
        )  # off-diagonals of a symmetric matrix count twice
        parts = np.stack([(own[name] * unit).ravel() for own in alone])
        need(
            (np.linalg.norm(parts, axis=1) <= release.l2_bound * (1 + 1e-9)).all(),
            f"{name} {about}: a user's part is longer than its bound",
        )
        need(
            not release.same_sign or bool((parts @ parts.T >= 0).all()),
            f"{name} {about}: two users' parts have a negative inner product, stated is same_sign",
        )


def _sums(contribution: Contribution, requests: Sequence[Request]) -> dict[str, FloatArray]:
    exact = whole_sums(FactoredSums.of(contribution), requests)
    return {name: values.astype(np.float64) for name, values in exact.items()}
