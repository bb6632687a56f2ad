"""Who is in the data? Guessed from the first board, by an attacker who has everybody else's ratings.

In each game a coin says whether the target's lines are in the file of ratings. The pipeline then goes from that
file to the first board: load, split, cohorts, contributions, ledger, noise. The attacker knows the public seed
of the split and every line of the file but for whether the target's are there; so he works out which counts to
expect either way, and guesses by the likelihood ratio of the counts on the board. Whoever guesses against a
release that is mu-GDP is right with probability at most Phi(mu / 2); the claim of the whole run allows more
than its counts alone.

The same games are played with the split that fedboard had before (``one_generator.py``), which is the control: it
has to be found out. Noise is drawn from a fresh secret seed in every game, since secure noise refuses that split.
"""

import argparse
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import stats
from scipy.special import log_ndtr

from fedboard.common.board import Board
from fedboard.common.contribution import SumSource
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.server.training import FinishedRound
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.datasets.splits import RatingSplit
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.problem import Problem, load_data, load_problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.trainer import EngineTrainer, Simulated
from fedboard.simulations.simulate import Silent
from privacy_parts import one_generator

KERNELS = "numpy"
FILES = {"movielens-1m": ("ratings.dat", "movies.dat", "::"), "movielens-100k": ("u.data", "u.item", "\t")}
FALSE_ALARM = 1e-3
"""How often an attacker who is right as often as the claim allows would be called a breach."""


class _EnoughError(Exception):
    """The first board is there."""


@dataclass(frozen=True, slots=True)
class World:
    """One of the two files, and what the attacker expects of it."""

    problem: Problem
    counts: np.ndarray
    """Exact weighted counts, real units, float64, shape (n_items,)."""


def write_files(source: Path, folder: Path, target: str) -> dict[bool, dict[str, Any]]:
    """The file with the target's lines and the file without; by presence, the ``data`` sections that read them."""
    kind = "movielens-1m" if (source / "ratings.dat").exists() else "movielens-100k"
    ratings, titles, separator = FILES[kind]
    lines = (source / ratings).read_text(encoding="latin-1").splitlines()
    others = [line for line in lines if line.split(separator, 1)[0] != target]
    if len(others) == len(lines):
        raise SystemExit(f"{source / ratings} has no user {target}")
    sections = {}
    for present, kept in ((True, lines), (False, others)):
        place = folder / ("with" if present else "without")
        place.mkdir()
        (place / ratings).write_text("\n".join([*kept, ""]), encoding="latin-1")
        (place / titles).write_bytes((source / titles).read_bytes())
        sections[present] = {"source": str(place), "format": kind, "catalogue": "listed"}
    return sections


def configured(options: argparse.Namespace, data: Mapping[str, Any]) -> SimulationConfig:
    return parse_config(
        {
            "data": dict(data),
            "algorithm": options.algorithm,
            "feedback": options.feedback,
            "privacy": {"epsilon": options.epsilon},
            "run": {"kernels": KERNELS},
        }
    )


def task_of(config: SimulationConfig, problem: Problem) -> RatingTask:
    return build_task(config, rating_range=problem.rating_range, backend=KERNELS).task


def count_release(task: RatingTask, problem: Problem) -> GaussianRelease:
    requests = task.requests(task.first_board(problem.catalogue))
    return next(request.release for request in requests if request.source is SumSource.ITEM_COUNT)


def expected_counts(config: SimulationConfig, problem: Problem) -> np.ndarray:
    """What would be on the board without noise: the attacker runs the clients' code on what he knows."""
    task = task_of(config, problem)
    board = task.first_board(problem.catalogue)
    given = task.contribute(problem.train, board, task.requests(board))
    sums = np.bincount(given.items, weights=given.weights, minlength=given.n_items)
    return sums * count_release(task, problem).grid_step


def split_before(config: SimulationConfig) -> Problem:
    problem, ratings = load_problem(config), load_data(config.data)
    explicit = isinstance(problem.split, RatingSplit)
    split = (one_generator.split_ratings if explicit else one_generator.split_users)(
        ratings, seed=config.split.seed
    )
    return replace(problem, split=split, train=split.train)


def first_board(config: SimulationConfig, problem: Problem, folder: Path, pool: WorkerPool) -> Board:
    """The first round of a run as ``fedboard simulate`` makes it."""
    config = msgspec.structs.replace(config, seed=secrets.randbits(62))
    run, found = RunDirectory(folder), list[Board]()
    run.start(config)
    simulated = Simulated(
        config=config,
        run=run,
        problem=problem,
        task=task_of(config, problem),
        backend=KERNELS,
        listener=Silent(),
    )

    def stop(finished: FinishedRound) -> None:
        found.append(finished.board)
        raise _EnoughError

    with ExitStack() as stack:
        trainer = EngineTrainer(simulated, pool=pool, stack=stack)
        with suppress(_EnoughError):
            trainer.run(trainer.start(), stop)
    return found[0]


def likelihood_ratio(counts: np.ndarray, worlds: Mapping[bool, World], stddev: float) -> float:
    """Log of how much likelier these counts are with the target than without; counts are floored at 1."""
    floored = counts <= 1.0

    def likelihood(world: World) -> float:
        z = (counts - world.counts) / stddev
        return float(np.sum(np.where(floored, log_ndtr(z), -0.5 * z * z)))

    return likelihood(worlds[True]) - likelihood(worlds[False])


def play(options: argparse.Namespace, data: Mapping[bool, Any], *, before: bool) -> dict[str, Any]:
    """All games with one split."""
    worlds, right = dict[bool, World](), 0
    for present, section in data.items():
        config = configured(options, section)
        problem = split_before(config) if before else load_problem(config)
        worlds[present] = World(problem, expected_counts(config, problem))
    release = count_release(task_of(config, worlds[True].problem), worlds[True].problem)
    stddev = release.noise_stddev * release.grid_step
    moved = float(np.linalg.norm(worlds[True].counts - worlds[False].counts))
    with WorkerPool(1) as pool, tempfile.TemporaryDirectory() as folder:
        for game in range(options.games):
            present = bool(secrets.randbits(1))
            config = configured(options, data[present])
            board = first_board(config, worlds[present].problem, Path(folder) / str(game), pool)
            counts = np.asarray(board.arrays["item_counts"], dtype=np.float64)
            right += (likelihood_ratio(counts, worlds, stddev) > 0) is present
    booked = release.l2_sensitivity * release.grid_step
    return {
        "right": right,
        "games": options.games,
        "distance_over_booked_sensitivity": moved / booked,
        "expected_share": float(stats.norm.cdf(moved / stddev / 2)),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command line."""
    parser.add_argument("--data", type=Path, required=True, help="folder with MovieLens 1M or 100K")
    parser.add_argument("--user", default="1", help="whose presence is guessed, by id")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--feedback", choices=("explicit", "implicit"), default="explicit")
    parser.add_argument("--algorithm", choices=("adadpals", "residual"), default="adadpals")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Play against both splits; it fails where the claim is broken or the control is missed."""
    allowed = float(stats.norm.cdf(mu_for(given.epsilon, 1e-5) / 2))
    limit = int(stats.binom.isf(FALSE_ALARM, given.games, allowed))
    with tempfile.TemporaryDirectory() as folder:
        data = write_files(given.data, Path(folder), given.user)
        control, played = (play(given, data, before=before) for before in (True, False))
    return {
        "claim": {"epsilon": given.epsilon, "allowed_share": allowed, "most_right_games": limit},
        "data": given.data.name,
        "feedback": given.feedback,
        "algorithm": given.algorithm,
        "split of before": control,
        "split by coins": played,
        "breach": played["right"] > limit,
        "control_found": control["right"] > limit,
        "holds": played["right"] <= limit < control["right"],
    }
