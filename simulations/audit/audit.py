"""All parts of the audit in one go, and what to make of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import SumSource
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.simulations.audit.attacks.board_games import BoardGame, board_games
from fedboard.simulations.audit.attacks.forks import fork_test
from fedboard.simulations.audit.attacks.fuzz import FuzzResult, sensitivity_fuzz
from fedboard.simulations.audit.attacks.game import GameResult, canary_game, enough_canaries
from fedboard.simulations.audit.attacks.noise_check import NoiseResult, noise_test
from fedboard.simulations.audit.findings import AuditFinding, Part
from fedboard.simulations.audit.pipeline import play
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine, WorkerPool

CONFIDENCE = 0.95
FAMILY_ERROR = 1e-3
_STAGE_USERS = 500

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
    fuzz: FuzzResult
    games: tuple[GameResult, ...]
    """One for each seed; the first is what the audit reports."""
    board: tuple[BoardGame, ...]
    findings: tuple[AuditFinding, ...]

    @property
    def game(self) -> GameResult:
        """The first canary game."""
        return self.games[0]

    @property
    def violated(self) -> bool:
        """Whether any check failed."""
        return any(not finding.passed for finding in self.findings)


def audit(
    subject: Subject,
    cohort: Cohort,
    plan: Plan,
    *,
    rating_range: tuple[float, float],
    pool: WorkerPool,
    on_step: OnStep | None = None,
) -> AuditResult:
    """Noise test, sensitivity fuzz, canary games and board-only games on one subject.

    Args:
        subject: the parts of the run.
        cohort: honest users. Private.
        plan: how much.
        rating_range: public.
        pool: where jobs run; with two workers or more the noise test sees several processes.
        on_step: told as steps are done.
    """
    tell = on_step or (lambda phase, done, total: None)
    with Engine(subject.task, cohort, protocol=subject.protocol, pool=pool) as engine:
        tell("noise", 0, 1)
        noise = noise_test(subject, engine, seed=plan.seed, family_error=plan.family_error)
        tell("sensitivity", 0, 1)
        fuzz = fuzz_stages(subject, cohort, plan, rating_range=rating_range, pool=pool)
        games = []
        for number in range(plan.repeat):
            tell("canaries", number, plan.repeat)
            games.append(play_game(subject, engine, plan, seed=plan.seed + number))
        tell("board", 0, 1)
    board = board_games(subject, cohort, pool=pool, seed=plan.seed, family_error=plan.family_error)
    tell("board", 1, 1)
    secure = coins_of(subject.noise(plan.seed))
    forks = fork_test(secure if secure.private else SecureNoise())
    findings = (
        *noise.findings,
        forks,
        *fuzz.findings,
        *game_findings(games, plan),
        *(game.finding for game in board),
    )
    return AuditResult(noise=noise, fuzz=fuzz, games=tuple(games), board=board, findings=findings)


def play_game(subject: Subject, engine: Engine, plan: Plan, *, seed: int) -> GameResult:
    """One canary game by this plan."""
    return canary_game(
        subject,
        engine,
        seed=seed,
        n_canaries=plan.canaries_for(subject),
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


def game_findings(games: list[GameResult], plan: Plan) -> tuple[AuditFinding, ...]:
    """What the canary games say: the whole board at the plan's confidence, single releases family-wise.

    A correct run is flagged with probability ``1 - confidence`` in each game, so of many games more must be
    violated than chance would explain.
    """
    first = games[0]
    violated = sum(game.violated for game in games)
    allowed = 0 if len(games) == 1 else _by_chance(len(games), 1.0 - plan.confidence, plan.family_error)
    lower, claimed = first.epsilon_lower_bound, first.claimed
    told = f"epsilon at least {lower:.4g} shown, {claimed:.4g} claimed"
    if len(games) > 1:
        told += f"; {violated} of {len(games)} games above the claim, up to {allowed} by chance"
    single = sorted({line.name for game in games for line in game.violated_releases})
    dropped = sum(game.rejected for game in games)
    return (
        AuditFinding(
            part=Part.CANARIES,
            check="the whole board keeps its claim",
            passed=violated <= allowed,
            detail=told,
        ),
        AuditFinding(
            part=Part.CANARIES,
            check="each release keeps its claim",
            passed=not single,
            detail=f"broken by {', '.join(single)}" if single else f"{len(first.releases)} releases",
        ),
        AuditFinding(
            part=Part.CANARIES,
            check="canaries at the bound are accepted",
            passed=dropped == 0,
            detail=f"{dropped} of {len(games) * first.n_canaries} dropped by the aggregator",
        ),
    )


def _by_chance(n_games: int, probability: float, error: float) -> int:
    """The number of violations that chance exceeds with at most this probability."""
    from scipy.special import bdtrc

    return next(number for number in range(n_games + 1) if bdtrc(number, n_games, probability) <= error)


__all__ = [
    "CONFIDENCE",
    "FAMILY_ERROR",
    "AuditResult",
    "Plan",
    "audit",
    "fuzz_stages",
    "game_findings",
    "play_game",
]
