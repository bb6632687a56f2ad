"""Removing a user from a file of ratings, and what everybody else then gives: the pieces of the removal tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data import Ratings
from fedboard.simulations.problem import Problem, load_data, load_problem
from fedboard.simulations.problem import problem_of as split_problem
from fedboard.simulations.runs.calibrated import backend_of, build_task
from fedboard.simulations.simulate import simulate
from tests.simulations.audit.broken.paths import one_generator

Row = tuple[str, str, float]
"""User id, item id, rating."""
Parts = Mapping[str, bytes]
"""What a user gives to each release, by her id."""


def when(user: str, item: str) -> int:
    """When a rating was given, by what it is of: one of few days, so that some of a user's are of the same."""
    return 86_400 * (crc32(f"{user}/{item}".encode()) % 6)


def write_rows(folder: Path, rows: Sequence[Row], items: Sequence[str], kind: str) -> dict[str, Any]:
    """Write ratings and the public list of items; the ``data`` section that reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "csv":
        lines = [f"{user},{item},{value:g},{when(user, item)}" for user, item, value in rows]
        (folder / "plays.csv").write_text("\n".join(["user,item,rating,when", *lines, ""]))
        (folder / "items.csv").write_text("\n".join(["item,title", *(f"{i},title {i}" for i in items), ""]))
        return {
            "source": str(folder / "plays.csv"),
            "rating_range": [1, 5],
            "columns": {"time": "when"},
            "titles": str(folder / "items.csv"),
            "catalogue": "listed",
        }
    lines = [f"{user}::{item}::{value:g}::{when(user, item)}" for user, item, value in rows]
    (folder / "ratings.dat").write_text("\n".join([*lines, ""]))
    (folder / "movies.dat").write_text("\n".join([*(f"{i}::title {i}::Drama" for i in items), ""]))
    return {"source": str(folder), "format": "movielens-1m", "catalogue": "listed"}


def configured(data: Mapping[str, Any], feedback: str, algorithm: str, **changes: Any) -> SimulationConfig:
    """A small run over these data."""
    raw: dict[str, Any] = {
        "data": dict(data),
        "feedback": feedback,
        "algorithm": algorithm,
        "settings": {"rank": 3},
        "run": {"kernels": "numpy", "baselines": False, "evaluate_rounds": False},
    }
    return parse_config(raw | changes)


def problem_of(config: SimulationConfig) -> tuple[Problem, list[str]]:
    """From the file to the split, and the ids of the rows."""
    problem, ratings = _read(config)
    return problem, [str(user) for user in ratings.user_ids.tolist()]


def _read(config: SimulationConfig) -> tuple[Problem, Ratings]:
    """As ``load_problem`` reads, and what it split."""
    ratings = load_data(config.data, times=config.split.by_time)
    return split_problem(ratings, config), ratings


def problem_of_control(config: SimulationConfig) -> tuple[Problem, list[str]]:
    """The same with the split of before."""
    problem, ids = one_generator(config), load_data(config.data).user_ids.tolist()
    return replace(problem, split=replace(problem.split, rule=None)), list(map(str, ids))


def boards_of(config: SimulationConfig, folder: Path) -> tuple[RatingTask, list[Board]]:
    """The first boards of a real run on these data: what everybody is asked about."""
    problem = load_problem(config)
    calibrated = build_task(config, rating_range=problem.rating_range, backend=backend_of(config, problem))
    simulate(config, folder, report=False)
    stored = sorted((folder / "boards").iterdir())
    return calibrated.task, [Board.load(path) for path in stored]


def parts_of(task: RatingTask, boards: Sequence[Board], train: Cohort, ids: Sequence[str]) -> Parts:
    """What each user of a cohort gives to all releases of the rounds that follow these boards."""
    given: dict[str, list[bytes]] = {user: [] for user in ids}
    for board in boards:
        requests = task.requests(board)
        if requests:
            contribution = task.contribute(train, board, requests)
            for row, user in enumerate(ids):
                given[user].append(part_of(contribution, row))
    return {user: b"|".join(parts) for user, parts in given.items()}


def part_of(contribution: Contribution, row: int) -> bytes:
    """Everything that one row gives."""
    entries = slice(int(contribution.indptr[row]), int(contribution.indptr[row + 1]))
    pieces: list[np.ndarray] = [contribution.items[entries]]
    pieces += [x[entries] for x in (contribution.weights, contribution.responses) if x is not None]
    pieces += [] if contribution.vectors is None else [contribution.vectors[row]]
    pieces += [contribution.totals[name][row] for name in sorted(contribution.totals)]
    return b";".join(piece.tobytes() for piece in pieces)


def changed(before: Parts, after: Parts) -> list[str]:
    """The users of ``after`` who give something else than in ``before``."""
    return [user for user, part in after.items() if before[user] != part]


ProblemOf = Callable[[SimulationConfig], tuple[Problem, list[str]]]
