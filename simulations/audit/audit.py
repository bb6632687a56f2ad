"""All parts of the audit in one go, and what to make of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scipy.special import bdtrc

from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.simulations.audit.board_games import BoardGame, board_games
from fedboard.simulations.audit.course import course_test, same_course
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.file_game import FileGame, file_games
from fedboard.simulations.audit.game import Devices, GameResult, canary_game
from fedboard.simulations.audit.noise_check import (
    NoiseResult,
    fork_test,
    lattice_test,
    noise_test,
    stream_test,
)
from fedboard.simulations.audit.statistics import CONFIDENCE, FAMILY_ERROR, Line
from fedboard.simulations.audit.subject import AuditFinding, Part, Plan, Subject
from fedboard.simulations.engine import WorkerPool

OnStep: TypeAlias = Callable[[str, int, int], None]
"""(phase, steps done, steps in all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Everything that an audit found."""

    noise: NoiseResult
    file: FileGame
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
    cohort = entrance.honest_rows().cohort
    tell("noise", 0, 1)
    noise = noise_test(subject, cohort, plan, pool=pool)
    tell("file", 0, 1)
    files = file_games(subject, entrance, plan, pool=pool)
    games = []
    for number in range(plan.repeat):
        tell("canaries", number, plan.repeat)
        games.append(canary_game(subject, entrance, plan, seed=plan.seed + number, pool=pool))
    ratings = canary_game(subject, entrance, plan, seed=plan.seed, pool=pool, devices=Devices.OWN)
    tell("board", 0, 1)
    board = board_games(subject, entrance, pool=pool, seed=plan.seed)
    tell("board", 1, 1)
    findings = (
        *files.findings,
        same_course({"nobody": noise.course, "everybody": ratings.course}),
        course_test(subject, cohort, seed=plan.seed, pool=pool),
        *noise.findings,
        *stream_findings(subject, plan.seed),
        *game_findings(games, ratings, noise.small),
        *(game.finding for game in board),
    )
    return AuditResult(
        noise=noise,
        file=files,
        games=tuple(games),
        ratings=ratings,
        board=board,
        findings=findings,
    )


def stream_findings(subject: Subject, seed: int) -> tuple[AuditFinding, ...]:
    """Whether the streams of the run's source repeat anything, and shares of the noise have their size.

    Where the source is seeded, forks are of the secure one.
    """
    source = coins_of(subject.noise(seed))
    found = stream_test(source), fork_test(source if source.private else SecureNoise())
    if subject.sessions is None or (shares := subject.sessions.left.shares) is None:
        return found
    return *found, lattice_test(shares, subject.task.plan()[0][0].release, source)


def game_findings(
    games: Sequence[GameResult], ratings: GameResult, small: Sequence[Line]
) -> tuple[AuditFinding, ...]:
    """What the canary games say: the whole board at its confidence, single releases family-wise.

    A correct run is flagged with probability ``1 - CONFIDENCE`` in each game, so of many games more must be
    violated than chance would explain.

    Args:
        games: of canaries at the bound, with a seed each.
        ratings: one of canaries whose own devices answer.
        small: what canaries showed on releases of few numbers.
    """
    first = games[0]
    violated = sum(game.violated for game in games)
    allowed = 0 if len(games) == 1 else _by_chance(len(games))
    lower, claimed = first.epsilon_lower_bound, first.claimed
    told = f"epsilon at least {lower:.4g} shown, {claimed:.4g} claimed"
    if len(games) > 1:
        told += f"; {violated} of {len(games)} games above the claim, up to {allowed} by chance"
    dropped = sum(game.rejected for game in games)
    own = ratings.whole
    return (
        Part.CANARIES.finding("the whole board keeps its claim", violated <= allowed, told),
        Part.CANARIES.finding(
            "the whole board keeps its claim to users in the file",
            own.strict <= own.mu,
            f"epsilon at least {ratings.epsilon_lower_bound:.4g} shown by ratings alone, {claimed:.4g} claimed",
        ),
        single_finding([*games, ratings], small),
        Part.CANARIES.finding(
            "canaries at the bound are accepted",
            dropped == 0,
            f"{dropped} of {len(games) * first.n_canaries} dropped by the aggregator",
        ),
        explained_finding([*games, ratings]),
        *uniform_findings([*games, ratings]),
    )


def single_finding(games: Sequence[GameResult], small: Sequence[Line]) -> AuditFinding:
    """Single releases, and what parties of a protocol hold, against their own claims."""
    above = {line.name for game in games for line in game.violated_releases}
    above |= {line.name for line in small if line.strict > line.mu}
    first = games[0]
    told = f"{len(first.releases)} releases, {len(small)} small ones over many runs"
    if first.parties:
        told += f", {', '.join(line.name for line in first.parties)}"
    if above:
        told = f"broken by {', '.join(sorted(above))}"
    return Part.CANARIES.finding("each release keeps its claim", not above, told)


def explained_finding(games: Sequence[GameResult]) -> AuditFinding:
    """Whether everybody's sums are what they are by themselves, however many canaries are in the file."""
    changed = {name: most for game in games for name, most in game.unexplained.items()}
    told = "the same sums of others to the last bit"
    if changed:
        told = (
            f"sums of others change by up to {max(changed.values())} grid units: {', '.join(sorted(changed))}"
        )
    return Part.CANARIES.finding("canaries in the file change their own rows alone", not changed, told)


def uniform_findings(games: Sequence[GameResult]) -> tuple[AuditFinding, ...]:
    """Whether masked numbers and single shares look like nothing at all; nothing is said where there are none."""
    found = [p for game in games for p in game.uniform]
    if not found:
        return ()
    told = f"{len(found)} vectors, smallest p {min(found):.1e}"
    return (
        Part.CANARIES.finding(
            "masked numbers and single shares are uniform", min(found) * len(found) >= FAMILY_ERROR, told
        ),
    )


def _by_chance(n_games: int) -> int:
    """The number of violations that chance exceeds with a probability of at most ``FAMILY_ERROR``."""
    return next(n for n in range(n_games + 1) if bdtrc(n, n_games, 1.0 - CONFIDENCE) <= FAMILY_ERROR)
