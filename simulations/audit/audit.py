"""All parts of the audit in one go, and what to make of them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import SumSource
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.simulations.audit.attacks.board_games import BoardGame, board_games
from fedboard.simulations.audit.attacks.canaries import enough_canaries
from fedboard.simulations.audit.attacks.course import course_test, same_course
from fedboard.simulations.audit.attacks.file_game import LARGEST_BLOCK, FileGame, file_games
from fedboard.simulations.audit.attacks.forks import fork_test, stream_test
from fedboard.simulations.audit.attacks.fuzz import FuzzResult, sensitivity_fuzz
from fedboard.simulations.audit.attacks.game import Devices, GameResult, canary_game
from fedboard.simulations.audit.attacks.noise_check import NoiseResult, lattice_test, noise_test
from fedboard.simulations.audit.attacks.small_releases import ENOUGH, SmallReleases, small_releases
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.findings import AuditFinding
from fedboard.simulations.audit.measures.bounds import Line
from fedboard.simulations.audit.pipeline import play
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.audit.verdicts import game_findings
from fedboard.simulations.engine import Engine, WorkerPool

CONFIDENCE = 0.95
FAMILY_ERROR = 1e-3
_STAGE_USERS, _OWN_CANARIES = 500, 1_000
_CARRIED = 100
"""Numbers of small releases where each run takes sessions of another protocol."""

OnStep: TypeAlias = Callable[[str, int, int], None]
"""(phase, steps done, steps in all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to audit."""

    seed: int = 0
    canaries: int | None = None
    """None: enough to see noise that is 20 % too small."""
    repeat: int = 1
    """Canary games, with a seed each."""
    random_users: int = 20
    small_numbers: int = ENOUGH
    """Numbers of each small release to look at, over as many runs as it takes."""
    file_games: int = 100
    """Games of one user more or less in a file."""
    block: int = LARGEST_BLOCK
    """Ratings of the largest file at least."""
    confidence: float = CONFIDENCE
    family_error: float = FAMILY_ERROR

    def canaries_for(self, subject: Subject) -> int:
        """How many take part in a game."""
        budget, n_items = subject.budget, subject.catalogue.n_items
        return self.canaries or enough_canaries(
            budget.epsilon, budget.delta, n_items=n_items, confidence=self.confidence
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Everything that an audit found."""

    noise: NoiseResult
    file: FileGame
    fuzz: FuzzResult
    games: tuple[GameResult, ...]
    """One for each seed; the first is what the audit reports."""
    ratings: GameResult
    """One whose canaries send what their devices make of their ratings."""
    board: tuple[BoardGame, ...]
    findings: tuple[AuditFinding, ...]

    @property
    def game(self) -> GameResult:
        """The first canary game."""
        return self.games[0]

    @property
    def releases(self) -> tuple[Line, ...]:
        """All releases: those that take many runs, then those of the first game."""
        in_one_run = {line.name for line in self.game.releases}
        return (*(line for line in self.noise.small if line.name not in in_one_run), *self.game.releases)

    @property
    def violated(self) -> bool:
        """Whether any check failed."""
        return any(not finding.passed for finding in self.findings)


def audit(
    subject: Subject,
    entrance: Entrance,
    plan: Plan,
    *,
    pool: WorkerPool,
    on_step: OnStep | None = None,
) -> AuditResult:
    """Every part on one subject, each from a file of ratings on.

    Args:
        subject: the parts of the run.
        entrance: makes rows of files; its honest users are the run's.
        plan: how much.
        pool: where jobs run; with two workers or more the noise test sees several processes.
        on_step: told as steps are done.
    """
    tell = on_step or (lambda phase, done, total: None)
    cohort = entrance.honest_rows(subject.read).cohort
    tell("noise", 0, 1)
    noise = noise_part(subject, cohort, plan, pool=pool)
    tell("file", 0, 1)
    files = file_part(subject, entrance, plan, pool=pool)
    tell("sensitivity", 0, 1)
    fuzz = fuzz_stages(subject, cohort, plan, rating_range=entrance.rating_range, pool=pool)
    games, one_of_many = [], replace(plan, family_error=plan.family_error / plan.repeat)
    for number in range(plan.repeat):
        tell("canaries", number, plan.repeat)
        games.append(play_game(subject, entrance, one_of_many, seed=plan.seed + number, pool=pool))
    ratings = play_game(subject, entrance, plan, seed=plan.seed, pool=pool, devices=Devices.OWN)
    tell("board", 0, 1)
    board = board_games(subject, entrance, pool=pool, seed=plan.seed, family_error=plan.family_error)
    tell("board", 1, 1)
    findings = (
        *files.findings,
        same_course({"nobody": noise.course, "everybody": ratings.course}),
        course_test(subject, cohort, seed=plan.seed, pool=pool),
        *noise.findings,
        *stream_findings(subject, plan),
        *fuzz.findings,
        *game_findings(
            games, ratings, noise.small, confidence=plan.confidence, family_error=plan.family_error
        ),
        *(game.finding for game in board),
    )
    return AuditResult(
        noise=noise,
        file=files,
        fuzz=fuzz,
        games=tuple(games),
        ratings=ratings,
        board=board,
        findings=findings,
    )


def file_part(subject: Subject, entrance: Entrance, plan: Plan, *, pool: WorkerPool) -> FileGame:
    """The games of one user more or less in a file by this plan."""
    sizes = {"n_games": plan.file_games, "seed": plan.seed, "block": plan.block}
    return file_games(subject, entrance, **sizes, pool=pool, family_error=plan.family_error)


def noise_part(subject: Subject, cohort: Cohort, plan: Plan, *, pool: WorkerPool) -> NoiseResult:
    """The noise test by this plan, small releases over many runs."""

    def small(names: Collection[str]) -> SmallReleases:
        return small_releases(
            subject,
            cohort,
            names,
            seed=plan.seed,
            pool=pool,
            enough=plan.small_numbers if subject.sessions is None else min(plan.small_numbers, _CARRIED),
            confidence=plan.confidence,
            family_error=plan.family_error,
        )

    with Engine(subject.task, cohort, protocol=subject.protocol, pool=pool) as engine:
        return noise_test(subject, engine, small, seed=plan.seed, family_error=plan.family_error)


def stream_findings(subject: Subject, plan: Plan) -> tuple[AuditFinding, ...]:
    """Whether the streams of the run's source repeat anything, and shares of the noise have their size.

    Where the source is seeded, forks are of the secure one.
    """
    source = coins_of(subject.noise(plan.seed))
    found = stream_test(source), fork_test(source if source.private else SecureNoise())
    if subject.sessions is None or (shares := subject.sessions.left.shares) is None:
        return found
    return *found, lattice_test(shares, subject.task.plan()[0][0].release, source, plan.family_error)


def play_game(
    subject: Subject,
    entrance: Entrance,
    plan: Plan,
    *,
    seed: int,
    pool: WorkerPool,
    devices: Devices = Devices.HOSTILE,
) -> GameResult:
    """One canary game by this plan; canaries whose own devices answer are a thousand at most."""
    wanted = plan.canaries_for(subject)
    return canary_game(
        subject,
        entrance,
        seed=seed,
        n_canaries=wanted if devices is Devices.HOSTILE else min(wanted, _OWN_CANARIES),
        pool=pool,
        devices=devices,
        confidence=plan.confidence,
        family_error=plan.family_error,
    )


def fuzz_stages(
    subject: Subject, cohort: Cohort, plan: Plan, *, rating_range: tuple[float, float], pool: WorkerPool
) -> FuzzResult:
    """The sensitivity fuzz in a run on a few hundred honest users: at the first board of each kind, and the last.

    Boards are of one kind if they ask for the same sources.
    """
    few = cohort.rows(0, min(_STAGE_USERS, cohort.n_users))
    with Engine(subject.task, few, protocol=subject.protocol, pool=pool) as engine:
        first: dict[tuple[SumSource, ...], Board] = {}
        for played in play(subject, engine, seed=plan.seed):
            last = played.before
            first.setdefault(tuple(request.source for request in played.requests), last)
    stages = {board.version: board for board in (*first.values(), last)}
    return sensitivity_fuzz(
        subject,
        few,
        list(stages.values()),
        rating_range=rating_range,
        seed=plan.seed,
        n_random=plan.random_users,
    )
