"""How a file is read, what a task reads and when a round is skipped, broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import ExactSums
from fedboard.common.task import ItemBlockSolver, ReleasedSums, RoundTask
from fedboard.server.round import RoundResult, lost_round, run_round
from fedboard.server.runtime import Runtime
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import Engine
from fedboard.simulations.problem import Problem, load_data, load_problem

_HELD_OUT, _ENOUGH_POSITIVES = 0.2, 5
_LARGE_CATALOGUE = 64

Booked = Mapping[str, BookedRelease]


def one_generator(config: SimulationConfig) -> Problem:
    """Read a file and split it with one generator that runs over everybody: each user's coins are the next ones."""
    problem, ratings = load_problem(config), load_data(config.data)
    everything, rng = ratings.cohort(), np.random.default_rng(config.split.seed)
    if config.split_kind == "ratings":
        part = np.arange(everything.n_ratings) >= _HELD_OUT * everything.n_ratings
        rng.shuffle(part)
        return replace(problem, train=everything.where(part))
    positive = ratings.positive(config.split.positive_above)
    liked = everything.where(positive)
    eligible = np.flatnonzero(liked.counts >= _ENOUGH_POSITIVES)
    learning = np.zeros(liked.n_users, dtype=np.bool_)
    learning[rng.permutation(eligible)[int(_HELD_OUT * eligible.size) :]] = True
    train = liked.where(np.repeat(learning, liked.counts))
    return replace(problem, train=replace(train, ratings=np.ones_like(train.ratings)))


def exact_smallest(subject: Subject) -> Subject:
    """One small release is read without its noise: with ratings, a mean is divided by the exact number."""
    first = [request for requests in subject.task.plan() for request in requests]
    names = [request.name for request in first]
    smallest = "mean/number" if "mean/number" in names else _smallest(first)
    return replace(subject, opened=_Opening(smallest))


def exact_cell(subject: Subject) -> Subject:
    """Of catalogues over 64 items one cell of each per-item release is put right after it was published."""
    return replace(subject, opened=_with_exact_cells)


def skipping(
    task: RoundTask, board: Board, *, runtime: Runtime, ledger: Ledger, noise: NoiseSource
) -> RoundResult:
    """A round loop that gives up the last round where the exact sums are no larger than one user can make them."""
    requests = task.requests(board)
    if board.version == len(task.plan()) - 1:
        sums = runtime.gather(board, requests).sums
        first = requests[0]
        exact = sums.block([first], 0, first.release.rows)[first.name].astype(np.float64)
        if np.linalg.norm(exact) <= first.release.l2_bound:
            return lost_round(board)
    return run_round(task, board, runtime=runtime, ledger=ledger, noise=noise)


@dataclass(frozen=True, slots=True)
class _Opening:
    """Opens sums so that one release comes out exact."""

    name: str

    def __call__(
        self, engine: Engine, sums: ExactSums, requests: Sequence[Request], booked: Booked
    ) -> ReleasedSums:
        noised = engine.open(sums, requests, booked)
        found = [request for request in requests if request.name == self.name]
        return _WithExact(noised, sums, found[0]) if found else noised


@dataclass(frozen=True, slots=True)
class _WithExact:
    """Noised sums but for one."""

    inner: ReleasedSums
    sums: ExactSums
    request: Request

    @property
    def noise_ratio(self) -> float:
        return self.inner.noise_ratio

    def array(self, name: str) -> FloatArray:
        noised = self.inner.array(name)
        if name != self.request.name:
            return noised
        release = self.request.release
        exact = self.sums.block([self.request], 0, release.rows)[name]
        return np.asarray(exact * release.grid_step, dtype=np.float64)

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        return self.inner.map_items(names, solver, width=width)


def _with_exact_cells(
    engine: Engine, sums: ExactSums, requests: Sequence[Request], booked: Booked
) -> ReleasedSums:
    per_item = [r for r in requests if r.source.per_item and r.release.rows > _LARGE_CATALOGUE]
    cells = {
        r.name: float(sums.block([r], _LARGE_CATALOGUE, _LARGE_CATALOGUE + 1)[r.name][0, 0])
        * r.release.grid_step
        for r in per_item
    }
    return _WithCells(engine.open(sums, requests, booked), cells)


@dataclass(frozen=True, slots=True)
class _WithCells:
    """Noised sums, one number of which is put right in the first column."""

    inner: ReleasedSums
    cells: Mapping[str, float]

    @property
    def noise_ratio(self) -> float:
        return self.inner.noise_ratio

    def array(self, name: str) -> FloatArray:
        return _put_right(self.inner.array(name), 0, self.cells.get(name))

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        return self.inner.map_items(names, _SolverOfCells(solver, self.cells), width=width)


@dataclass(frozen=True, slots=True)
class _SolverOfCells:
    solver: ItemBlockSolver
    cells: Mapping[str, float]

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        return self.solver(start, {n: _put_right(v, start, self.cells.get(n)) for n, v in blocks.items()})


def _put_right(values: FloatArray, start: int, exact: float | None) -> FloatArray:
    place = _LARGE_CATALOGUE - start
    if exact is not None and 0 <= place < len(values):
        values[place, 0] = exact
    return values


def _smallest(requests: Sequence[Request]) -> str:
    return min(requests, key=lambda request: request.release.rows * request.release.width).name
