"""Boards whose arrays are not what their task reads: refused to everybody alike, before anything is computed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import array_rules, has_sound_arrays
from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.algorithms.residual.config import Curvature, Start
from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import AnyArray, Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.server.runtime import NoisedSums
from tests.client.certified_boards import Device, Ratings, with_certificate
from tests.common.algorithms.adadpsgd import test_task as test_adadpsgd
from tests.common.algorithms.conftest import PRESENCE, a_residual_task, a_task, population, presence
from tests.common.algorithms.langevin.test_task import langevin_task

pytestmark = pytest.mark.slow

BUDGET = Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
POLICY = Policy(epsilon=8.0, delta=1e-5, smallest_catalogue=5)
TASKS: dict[str, RatingTask] = {
    "adadpals": a_task(),
    "adadpals, its bound moves": a_task(clip_quantile=0.8, rounds=3),
    "adadpals, overcounting": a_task(weights=WeightScheme.ADAPTIVE_OVERCOUNT, head_fraction=0.5),
    "adadpals, tail": a_task(weights=WeightScheme.TAIL, count_cap=100),
    "adadpals, implicit": a_task(feedback=Feedback.IMPLICIT),
    "adadpsgd": test_adadpsgd.a_task(),
    "adadpsgd, solving every other step": test_adadpsgd.a_task(steps_per_solve=2),
    "adadpsgd, implicit": test_adadpsgd.a_task(**test_adadpsgd.FEEDBACKS[Feedback.IMPLICIT]),
    "langevin": langevin_task(),
    "langevin, averaged": langevin_task(averaged_steps=2),
    "residual": a_residual_task(),
    "residual, its bound moves": a_residual_task(clip_quantile=0.8, curvature=Curvature.RELEASED),
    "residual, spectral": a_residual_task(start=Start.SPECTRAL, rounds=1),
    "residual, implicit": a_residual_task(**PRESENCE),
}


def real_boards(task: RatingTask, folder: Path) -> list[Board]:
    """Every board of a run, made by the task itself from noised sums."""
    rated = population() if task.settings.shared.feedback is Feedback.EXPLICIT else presence(population())
    noise = SeededNoise(0)
    found = [task.first_board(Catalogue(item_ids=tuple(map(str, range(rated.n_items)))))]
    with Ledger.create(folder / "run.sqlite", BUDGET) as ledger:
        while requests := task.requests(found[-1]):
            sums = FactoredSums.of(task.contribute(rated, found[-1], requests))
            booked = {r.name: r.release.book(ledger, noise) for r in requests}
            noised = NoisedSums(sums=sums, requests=requests, booked=booked)
            found.append(task.update(found[-1], noised))
    return found


def certified(board: Board, before: Sequence[Board], folder: Path) -> Board:
    """With the certificate of exactly this content."""
    board = replace(board, certificate=None, _digest=[])
    if board.version == 0:
        return board
    task = rebuild_task(before[0])
    with Ledger.create(folder / "server.sqlite", BUDGET) as ledger:
        for earlier in before:
            for request in task.requests(earlier):
                ledger.book({**request.release.event(), "noise": SecureNoise.label, "private": True})
        return with_certificate(board, ledger)


def without(board: Board, name: str) -> Board:
    return replace(board, arrays={k: v for k, v in board.arrays.items() if k != name}, _digest=[])


def having(board: Board, name: str, array: AnyArray) -> Board:
    return replace(board, arrays={**board.arrays, name: array}, _digest=[])


def with_last(array: AnyArray, value: float) -> AnyArray:
    changed = array.copy()
    changed.flat[-1] = value
    return changed


def broken(board: Board, rule: ArrayRule) -> Iterator[tuple[str, Board]]:
    """A board that breaks one rule alone, in every way."""
    array = np.asarray(board.arrays[rule.name]).astype(rule.dtype)
    yield "cut short", having(board, rule.name, array[:-1])
    yield "of another shape", having(board, rule.name, array[None])
    yield "of another dtype", having(board, rule.name, array.astype(np.int32))
    above = np.nextafter(rule.high, np.inf) if rule.dtype == np.float64 else rule.high * 1.01 + 1
    yield "too large", having(board, rule.name, with_last(array, above))
    if rule.low != 0 or rule.dtype != np.uint8:
        yield "too small", having(board, rule.name, with_last(array, rule.low - abs(rule.low) / 100 - 1e-30))
    if rule.dtype != np.uint8:
        for value in (np.nan, np.inf, -np.inf):
            yield str(value), having(board, rule.name, with_last(array, value))
    if rule.needed:
        yield "missing", without(board, rule.name)


@pytest.mark.parametrize("name", TASKS)
def test_every_board_of_a_real_run_passes_and_one_that_breaks_a_rule_does_not(
    name: str, tmp_path: Path
) -> None:
    boards = real_boards(TASKS[name], tmp_path)
    assert len(boards) == len(TASKS[name].plan()) + 1
    for board in boards:
        task = rebuild_task(board)
        assert has_sound_arrays(board, task), board.version
        there = [rule for rule in array_rules(board, task) if rule.name in board.arrays]
        assert {"item_factors"} <= {rule.name for rule in there}
        for rule in there:
            for how, other in broken(board, rule):
                assert not has_sound_arrays(other, task), (board.version, rule.name, how)


@pytest.mark.parametrize("name", TASKS)
def test_a_device_reads_no_array_that_has_no_rule(name: str, tmp_path: Path) -> None:
    """With those alone that have one, it contributes the same."""
    task = TASKS[name]
    rated = population() if task.settings.shared.feedback is Feedback.EXPLICIT else presence(population())
    for board in real_boards(task, tmp_path)[:-1]:
        known = {rule.name for rule in array_rules(board, task)}
        bare = replace(board, arrays={k: v for k, v in board.arrays.items() if k in known}, _digest=[])
        requests = task.requests(board)
        assert task.requests(bare) == requests
        ours, theirs = (task.contribute(rated, b, requests) for b in (board, bare))
        for part in ("weights", "vectors", "responses"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))


@pytest.mark.parametrize("name", ["adadpals", "adadpsgd", "langevin", "residual"])
def test_a_broken_board_with_a_sound_certificate_is_refused_and_nothing_is_booked(
    name: str, tmp_path: Path
) -> None:
    boards = real_boards(TASKS[name], tmp_path)
    for version in (0, 1, 2):
        for how, spoil in SPOILT.items():
            device = Device(tmp_path / f"{version}, {how}", POLICY)
            board = certified(spoil(boards[version]), boards[:version], device.folder)
            assert device.code(board) is Refusal.BAD_BOARD, (version, how)
            assert device.booked() == []
        device = Device(tmp_path / f"{version}", POLICY)
        assert device.code(certified(boards[version], boards[:version], device.folder)) is None


SPOILT: dict[str, Callable[[Board], Board]] = {
    "huge": lambda b: having(b, "item_factors", with_last(np.asarray(b.arrays["item_factors"]), 1e25)),
    "cut": lambda b: having(b, "item_factors", np.asarray(b.arrays["item_factors"])[:-1]),
    "gone": lambda b: without(b, "item_factors"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_whether_a_broken_board_is_refused_does_not_depend_on_who_rated_the_item(
    how: str, tmp_path: Path
) -> None:
    boards = real_boards(TASKS["adadpals"], tmp_path)
    last = boards[0].catalogue.n_items - 1
    everybody = population()
    raters = {u for u in range(everybody.n_users) if last in everybody.rows(u, u + 1).items}
    assert 0 < len(raters) < everybody.n_users
    codes = set()
    for user in (min(raters), min(set(range(everybody.n_users)) - raters)):
        device = Device(tmp_path / f"user {user}", POLICY)
        device.ratings = Ratings(one(everybody, user))
        board = certified(SPOILT[how](boards[1]), boards[:1], device.folder)
        codes.add(device.code(board))
        assert device.booked() == []
        assert device.refusals() == {Refusal.BAD_BOARD: 1}
    assert codes == {Refusal.BAD_BOARD}


def one(cohort: Cohort, user: int) -> Cohort:
    return cohort.rows(user, user + 1)
