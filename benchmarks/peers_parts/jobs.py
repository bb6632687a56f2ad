"""The jobs: one folder each, the same arrays for everybody; what is held out stays with the judge."""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, BudgetShares, shares_by_release
from fedboard.common.algorithms.shared.ratings_config import with_noise
from fedboard.common.arrays import BoolArray, Float32Array, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.kernels import choose_backend
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.round import run_round
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import SyntheticConfig, Triples, synthetic_ratings
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.problem import load_problem, problem_of

WARM_USERS = 300
LIKED_ABOVE = 3.5
EXPLICIT_RIDGE = 0.06
CONFIDENCE, IMPLICIT_RIDGE = 5.0, 30.0
"""Chosen once by what our own rows reach on MovieLens 1M, so that the jobs are sensible; the same for everybody."""
EPSILON, DELTA, ROUNDS = 5.0, 1e-5, 3
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Data:
    """Ratings to learn from and held-out ones, as every job of a data set uses them. Not private: a benchmark."""

    name: str
    train: Cohort
    test: Triples
    rating_range: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class JobFolder:
    """One job as it lies on disk, and what only the judge has."""

    name: str
    folder: Path
    spec: dict[str, Any]
    train: Cohort
    test: Triples


def load_data(source: str) -> Data:
    """Ratings in a file or folder that fedboard reads, or ``synthetic``, ``synthetic-small``: made up.

    Split as ``fedboard simulate`` splits them; training and validation ratings are both learnt from.
    """
    if source.startswith("synthetic"):
        small = source == "synthetic-small"
        people = SyntheticConfig(n_users=400 if small else 20_000, n_items=120 if small else 3_000)
        config = parse_config({"algorithm": "residual", "split": {"seed": SEED}})
        problem = problem_of(synthetic_ratings(people), config)
    else:
        problem = load_problem(parse_config({"algorithm": "residual", "data": {"source": source}}))
    if not isinstance(problem.split, RatingSplit):
        raise SystemExit(f"{source}: has no ratings to hold out; take a set of ratings with stars")
    split, name = problem.split, Path(source).name.removesuffix(".npz")
    return Data(
        name=name, train=split.train_and_validation, test=split.test, rating_range=problem.rating_range
    )


def make_job(kind: str, data: Data, *, rank: int, epochs: int, place: Path) -> JobFolder:
    """Write the folder of one job.

    Args:
        kind: ``explicit``, ``implicit`` or ``round``.
        data: ratings.
        rank: length of the vectors.
        epochs: sweeps over both sides, or private rounds.
        place: gets a folder with the job's name.
    """
    name = f"{kind}.{data.name}.d{rank}"
    folder = place / name
    (folder / "warm").mkdir(parents=True)
    train, test = (
        (data.train, data.test) if kind != "implicit" else (_liked(data.train), _liked_pairs(data.test))
    )
    spec: dict[str, Any] = {
        "kind": kind,
        "rank": rank,
        "epochs": epochs,
        "seed": SEED,
        "rating_range": list(data.rating_range),
        "mean": float(np.mean(train.ratings, dtype=np.float64)),
        "n_ratings": train.n_ratings,
    }
    board: Board | None = None
    if kind == "explicit":
        spec["ridge"] = EXPLICIT_RIDGE
    elif kind == "implicit":
        spec |= {"ridge": IMPLICIT_RIDGE, "confidence": CONFIDENCE}
    else:
        board, private = _board_before(train, rank=rank, rounds=epochs, rating_range=data.rating_range)
        spec |= private
    for where, cohort in ((folder, train), (folder / "warm", train.rows(0, min(WARM_USERS, train.n_users)))):
        _write(where, spec, cohort, board)
    return JobFolder(name=name, folder=folder, spec=spec, train=train, test=test)


def _liked(train: Cohort) -> Cohort:
    """What was rated above the bound, as presence."""
    kept: BoolArray = train.ratings > LIKED_ABOVE
    found = train.where(kept)
    return Cohort(
        indptr=found.indptr,
        items=found.items,
        ratings=np.ones(found.items.size, np.float32),
        n_items=found.n_items,
    )


def _liked_pairs(test: Triples) -> Triples:
    kept = test.values > LIKED_ABOVE
    return Triples(
        users=test.users[kept], items=test.items[kept], values=np.ones(int(kept.sum()), np.float32)
    )


def _write(folder: Path, spec: dict[str, Any], cohort: Cohort, board: Board | None) -> None:
    arrays: dict[str, Any] = {
        "user": cohort.user_of_entry(),
        "item": cohort.items,
        "rating": cohort.ratings,
        "n_users": cohort.n_users,
        "n_items": cohort.n_items,
    }
    if board is not None:
        arrays |= {f"board_{name}": np.asarray(values) for name, values in board.arrays.items()}
        board.save(folder / "board.bin")
    np.savez(folder / "train.npz", **arrays)
    (folder / "spec.json").write_text(json.dumps(spec))


def _board_before(
    train: Cohort, *, rank: int, rounds: int, rating_range: tuple[float, float]
) -> tuple[Board, dict[str, Any]]:
    """The public board from which all rows start: AdaDPALS after its private preparation round."""
    low, high = rating_range
    settings = AdaDpalsConfig(
        rank=rank,
        rounds=rounds,
        clip_norm=0.6,
        label_bound=1.6,
        user_ridge=1.8,
        user_ridge_exponent=0.1,
        item_ridge=72.0,
        item_ridge_exponent=0.5,
        weight_exponent=1 / 3,
    )
    shares = shares_by_release(settings, BudgetShares(quadratic=0.3))
    plan = noise_multipliers(EPSILON, DELTA, shares)
    backend = choose_backend(rank, train.n_ratings * rounds)
    task = AdaDpals(with_noise(settings, plan), backend)
    budget = Budget(epsilon=EPSILON, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ledger = stack.enter_context(Ledger.create(folder / "ledger", budget, plan=plan))
        pool = stack.enter_context(WorkerPool(1))
        engine = stack.enter_context(Engine(task, train, protocol=Trusted(backend=backend), pool=pool))
        first = task.first_board(Catalogue(item_ids=tuple(map(str, range(train.n_items)))))
        noise = SeededNoise(SEED)
        board = run_round(task, first, runtime=engine, ledger=ledger, noise=noise).board
    numbers = range(1, rounds + 1)
    return board, {
        "epsilon": EPSILON,
        "delta": DELTA,
        "clip_norm": settings.clip_norm,
        "label_bound": settings.label_bound,
        "user_ridge": settings.user_ridge,
        "user_ridge_exponent": settings.user_ridge_exponent,
        "rating_range": [low, high],
        "mean": float(board.arrays["mean"][0]),
        "noise": [[plan[f"round-{t}/quadratic"], plan[f"round-{t}/linear"]] for t in numbers],
    }


def cohort_of(
    users: IndexArray, items: IndexArray, values: Float32Array, *, n_users: int, n_items: int
) -> Cohort:
    """Rows of triples that are sorted by user."""
    bounds = np.searchsorted(users, np.arange(n_users + 1)).astype(np.int64)
    return Cohort(indptr=bounds, items=items, ratings=values, n_items=n_items)
