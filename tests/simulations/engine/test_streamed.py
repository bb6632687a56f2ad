"""The engine over streams: boards of ratings that are held, and rounds that go on where they were killed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FullParticipation,
    Participation,
    PoissonParticipation,
    round_name,
)
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.round import run_round
from fedboard.server.training import plan_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import Engine, StreamLayout, WorkerPool
from fedboard.simulations.engine.partial_sums import PartialSums
from fedboard.simulations.engine.spans import SpanWork, sums_of_span
from fedboard.simulations.problem import problem_of, splitting_of
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.trainer import scales_by_key
from tests.simulations.engine.conftest import some_ratings

BIAS = {"algorithm": "bias-private"}
SMALL = StreamLayout(block_ratings=40, span_users=33)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return some_ratings()


def engine_of(ratings: Ratings, pool: WorkerPool, run: dict[str, Any], **more: Any) -> Engine:
    config, stream = parse_config(run), more.pop("stream", None) or HeldStream.of_ratings(ratings)
    task = build_task(config, rating_range=ratings.rating_range, backend="numpy").task
    return Engine(
        task,
        stream,
        splitting_of(config, stream),
        protocol=Trusted(),
        pool=pool,
        scales_of=scales_by_key(config.privacy, task, seed=config.seed),
        **more,
    )


def in_memory(ratings: Ratings, pool: WorkerPool, run: dict[str, Any]) -> Engine:
    config, problem = parse_config(run), problem_of(ratings, parse_config(run))
    task = build_task(config, rating_range=ratings.rating_range, backend="numpy").task
    scales_of = scales_by_key(config.privacy, task, seed=config.seed)
    return Engine(task, problem.train, protocol=Trusted(), pool=pool, scales_of=scales_of)


def boards_of(
    engine: Engine,
    ratings: Ratings,
    path: Path,
    *,
    participation: Participation | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> list[Board]:
    """All boards of a run, with what each round cost its clients."""
    task, taking_part = engine._work.task, participation or FullParticipation()
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=adjacency)
    board, found = task.first_board(problem_of(ratings, parse_config({})).catalogue), []
    with Ledger.create(path, budget, plan=plan_of(task, taking_part)) as ledger, engine:
        while task.requests(board):
            noise = SeededNoise(1)
            result = run_round(
                task, board, runtime=engine, ledger=ledger, noise=noise, participation=taking_part
            )
            board = result.board
            found.append((board.digest, result.traffic and result.traffic.up))
    return found


PERSONAL = {**BIAS, "privacy": {"personal": [{"epsilon": 1.0, "share": 0.5}]}}


@pytest.mark.slow
def test_boards_and_traffic_are_those_of_held_ratings_for_any_blocks_and_workers(
    ratings: Ratings, tmp_path: Path
) -> None:
    with WorkerPool(1) as one, WorkerPool(2) as two:
        expected = boards_of(in_memory(ratings, one, BIAS), ratings, tmp_path / "memory")
        for number, (pool, layout) in enumerate(
            [(one, SMALL), (one, StreamLayout()), (two, StreamLayout(block_ratings=1, span_users=100))]
        ):
            engine = engine_of(ratings, pool, BIAS, layout=layout)
            assert boards_of(engine, ratings, tmp_path / str(number)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "participation"),
    [(PERSONAL, FullParticipation()), (BIAS, PoissonParticipation(0.3))],
    ids=["personal levels", "Poisson"],
)
def test_who_gives_how_much_is_the_same_in_a_stream(
    ratings: Ratings, tmp_path: Path, run: dict[str, Any], participation: Participation
) -> None:
    with WorkerPool(1) as pool:
        expected, found = (
            boards_of(engine, ratings, tmp_path / str(number), participation=participation)
            for number, engine in enumerate(
                (in_memory(ratings, pool, run), engine_of(ratings, pool, run, layout=SMALL))
            )
        )

    assert found == expected


def streamed_catalogue(ratings: Ratings) -> Catalogue:
    return Catalogue(item_ids=tuple(ratings.item_ids.tolist()))


class KilledError(Exception):
    """Raised where a process would have been killed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A stream that says which users were read, and may fail at one of them."""

    stream: HeldStream
    read_: list[tuple[int, int]]
    fails_at: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "stream"), name)

    def read(self, start: int, stop: int) -> Any:
        if self.fails_at is not None and start <= self.fails_at < stop:
            raise KilledError
        self.read_.append((start, stop))
        return self.stream.read(start, stop)


SEEDED, EVERYBODY = SeededNoise(7), FullParticipation()
KEPT = StreamLayout(block_ratings=10**6, span_users=23, checkpoint_users=46)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round over a stream, asked once."""

    ratings: Ratings
    path: Path
    noise: NoiseSource = SEEDED
    layout: StreamLayout = KEPT
    participation: Participation = EVERYBODY
    run: Any = None

    def asked(self, *, fails_at: int | None = None) -> tuple[dict[str, np.ndarray], list[tuple[int, int]]]:
        """Its sums, and what was read for them."""
        read: list[tuple[int, int]] = []
        with WorkerPool(1) as pool:
            engine = engine_of(
                self.ratings,
                pool,
                self.run or BIAS,
                layout=self.layout,
                partial_sums=PartialSums(self.path),
                stream=Watched(HeldStream.of_ratings(self.ratings), read, fails_at),
            )
            with engine:
                board = engine._work.task.first_board(streamed_catalogue(self.ratings))
                attendance = Attendance(
                    participation=self.participation, name=round_name(0), noise=self.noise
                )
                requests = attendance.mark(engine._work.task.requests(board))
                return whole_sums(engine.gather(board, requests, attendance).sums, requests), read


@pytest.fixture
def a_round(ratings: Ratings, tmp_path: Path) -> Round:
    return Round(ratings=ratings, path=tmp_path / "partial")


def interrupted(a_round: Round, at: int = 150) -> None:
    with pytest.raises(KilledError):
        a_round.asked(fails_at=at)


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return set(found) == set(expected) and all(np.array_equal(found[n], expected[n]) for n in expected)


def test_a_round_goes_on_where_it_was_interrupted_and_counts_nobody_twice(
    a_round: Round, tmp_path: Path
) -> None:
    expected, _ = replace(a_round, path=tmp_path / "another").asked()
    interrupted(a_round)
    kept_mode = a_round.path.stat().st_mode & 0o777

    found, read = a_round.asked()

    assert same(found, expected)
    assert min(start for start, _ in read) == 138  # six spans were kept
    assert kept_mode == 0o600
    assert b"SECRET" in a_round.path.read_bytes()[:100]


def test_a_round_goes_on_with_other_spans_blocks_and_workers(a_round: Round, tmp_path: Path) -> None:
    expected, _ = replace(a_round, path=tmp_path / "another").asked()
    interrupted(a_round)

    found, read = replace(a_round, layout=StreamLayout(block_ratings=7, span_users=100)).asked()

    assert same(found, expected)
    assert min(start for start, _ in read) == 138


def test_secret_noise_keeps_nothing(a_round: Round) -> None:
    interrupted(replace(a_round, noise=SecureNoise()))

    assert list(a_round.path.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "bit", "longer", "empty", "sum", "title"])
def test_damaged_partial_sums_are_refused_with_what_to_do(a_round: Round, damage: str) -> None:
    interrupted(a_round)
    content = bytearray(a_round.path.read_bytes())
    match damage:
        case "cut":
            del content[-100:]
        case "bit":
            content[len(content) // 2] ^= 1
        case "longer":
            content += b"more"
        case "empty":
            content.clear()
        case "sum":
            content[-40] ^= 1
        case "title":
            content[3] ^= 1
    a_round.path.write_bytes(content)

    with pytest.raises(InputError, match=r"cut short or altered.*delete the file to begin the round anew"):
        a_round.asked()

    a_round.path.unlink()
    a_round.asked()


def other_values(ratings: Ratings) -> Ratings:
    values = ratings.values.copy()
    values[-1] = 1 if values[-1] != 1 else 2
    return replace(ratings, values=values)


CHANGES: dict[str, tuple[Callable[[Round], Round], str]] = {
    "ratings": (lambda r: replace(r, ratings=other_values(r.ratings)), "ratings"),
    "split": (lambda r: replace(r, run={**BIAS, "split": {"seed": 5}}), "split"),
    "noise": (lambda r: replace(r, noise=SeededNoise(8)), "seed"),
    "who takes part": (lambda r: replace(r, participation=PoissonParticipation(0.5)), "questions"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_summed_for_something_else_is_never_added(a_round: Round, change: str) -> None:
    changed, word = CHANGES[change]
    interrupted(a_round)

    with pytest.raises(InputError, match=f"begun with another {word}"):
        changed(a_round).asked()


def test_ratings_that_change_between_rounds_are_refused(ratings: Ratings) -> None:
    values = ratings.values.copy()
    changing = replace(ratings, values=values)
    with WorkerPool(1) as pool, engine_of(changing, pool, BIAS, layout=SMALL) as engine:
        board = engine._work.task.first_board(streamed_catalogue(ratings))
        engine.gather(board, engine._work.task.requests(board))
        values[-1] = 1 if values[-1] != 1 else 2

        with pytest.raises(InputError, match="ratings have changed since an earlier round"):
            engine.gather(board, engine._work.task.requests(board))


@pytest.mark.parametrize(("n_users", "said"), [(1, "one user alone"), (0, "leaves no rating")])
def test_a_seeded_run_spends_nothing_on_one_user_and_a_secure_one_says_nothing_of_it(
    ratings: Ratings, tmp_path: Path, n_users: int, said: str
) -> None:
    kept = ratings.users < n_users + 1  # the first user has no ratings
    lonely = replace(ratings, **{name: getattr(ratings, name)[kept] for name in ("users", "items", "values")})
    a_round = Round(ratings=lonely, path=tmp_path / "partial")

    with pytest.raises(InputError, match=said):
        a_round.asked()
    replace(a_round, noise=SecureNoise()).asked()


def test_users_and_words_beyond_32_bits_are_like_any_others(ratings: Ratings) -> None:
    far = 1 << 33
    with WorkerPool(1) as pool:
        near = engine_of(ratings, pool, BIAS)
        board = near._work.task.first_board(streamed_catalogue(ratings))
        requests = near._work.task.requests(board)
        splitting, task = near._work.splitting, near._work.task
        near.close()
    rows = PoissonParticipation(0.5).rows(far + 230, SEEDED, "round-1")
    work = SpanWork(
        task=task,
        stream=Shifted(HeldStream.of_ratings(ratings), far),
        splitting=splitting,
        requests=requests,
        backend="numpy",
        block_ratings=100,
        present=rows,
    )

    found = sums_of_span(work, board, far, far + 230)

    assert found.n_users == 230
    at_hand = replace(work, stream=HeldStream.of_ratings(ratings), present=AtHand(rows.rows(far, far + 230)))
    assert same(dict(found.sums), dict(sums_of_span(at_hand, board, 0, 230).sums))


@dataclass(frozen=True, slots=True)
class AtHand:
    """Who takes part, as an array."""

    present: np.ndarray

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self.present[start:stop]


@dataclass(frozen=True, slots=True)
class Shifted:
    """A stream whose users have very high numbers."""

    stream: HeldStream
    by: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "stream"), name)

    @property
    def n_users(self) -> int:
        return self.by + self.stream.n_users

    def counts(self, start: int, stop: int) -> np.ndarray:
        return self.stream.counts(start - self.by, stop - self.by)

    def read(self, start: int, stop: int) -> Any:
        return replace(self.stream.read(start - self.by, stop - self.by), first_row=start)


def test_partial_sums_of_another_board_are_deleted(a_round: Round) -> None:
    interrupted(a_round)
    other = replace(a_round, run={**BIAS, "privacy": {"epsilon": 1.0}})

    _, read = other.asked()

    assert min(start for start, _ in read) == 0
