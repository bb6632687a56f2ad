"""The audit audited: what it says of runs that are broken on purpose, of correct ones, and where no data leave."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fedboard.common.privacy.accounting.exact import epsilon_of
from fedboard.simulations.audit.audit import (
    explained_finding,
    single_finding,
    stream_findings,
    uniform_findings,
)
from fedboard.simulations.audit.course import same_course
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.file_game import file_games
from fedboard.simulations.audit.game import GameResult, canary_game
from fedboard.simulations.audit.noise_check import noise_test
from fedboard.simulations.audit.subject import AuditFinding, Part, Plan, Subject
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.broken.mutants import null_subject
from tests.simulations.audit.conftest import changed
from tests.simulations.audit.fuzz import fuzz_stages

_FEW_USERS = 60
"""Over two servers, whose sessions are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One run, broken or not, and what the audit said about it."""

    failed: tuple[AuditFinding, ...]
    epsilon_lower_bound: float
    """Of the whole board, at the family-wise confidence."""

    @property
    def caught_by(self) -> set[str]:
        """The parts of the audit that flagged it."""
        return {str(finding.part) for finding in self.failed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Examiner:
    """Audits runs by one plan. Every check works at ``FAMILY_ERROR``.

    The nominal 5 % of the reported bound would flag every twentieth correct run, which is right for a bound and
    wrong for a control.
    """

    entrance: Entrance
    plan: Plan
    random_users: int
    """Of the sensitivity fuzz, beside the known traps."""
    pool: WorkerPool

    def all_parts(self, subject: Subject) -> Verdict:
        """All but what the final board alone gives away, and the sensitivity fuzz."""
        plan, entrance, pool = self.plan, self.entrance, self.pool
        cohort = entrance.honest_rows().cohort
        noise = noise_test(subject, cohort, plan, pool=pool)
        files = file_games(subject, entrance, plan, pool=pool)
        fuzz = fuzz_stages(
            subject,
            cohort,
            rating_range=entrance.rating_range,
            seed=plan.seed,
            n_random=self.random_users,
            pool=pool,
        )
        game = canary_game(subject, entrance, plan, seed=plan.seed, pool=pool)
        return _verdict(
            game,
            [
                *files.findings,
                same_course({"nobody": noise.course, "everybody": game.course}),
                *noise.findings,
                *stream_findings(subject, plan.seed),
                *fuzz.findings,
                *_strict(game),
                single_finding([game], noise.small),
                explained_finding([game]),
            ],
        )

    def two_servers(self, subject: Subject) -> Verdict:
        """A run over two servers, among few users: its noise, and canaries that look at what each server holds."""
        few = changed(self.entrance, n_users=_FEW_USERS)
        plan = replace(self.plan, canaries=_FEW_USERS)
        noise = noise_test(subject, few.honest_rows().cohort, plan, pool=self.pool)
        game = canary_game(subject, few, plan, seed=plan.seed, pool=self.pool)
        uniform = uniform_findings([game])
        return _verdict(
            game, [*noise.findings, *_strict(game), single_finding([game], noise.small), *uniform]
        )

    def null(self, subject: Subject) -> Verdict:
        """A run without data in its releases; the noise and sensitivity of the real one do not matter."""
        broken = null_subject(subject)
        game = canary_game(broken, self.entrance, self.plan, seed=self.plan.seed, pool=self.pool)
        shown = [line.name for line in (game.whole, *game.releases) if line.strict > 0.0]
        return _verdict(
            game, (Part.CANARIES.finding(name, False, "shown where there is nothing") for name in shown)
        )


def _strict(game: GameResult) -> Sequence[AuditFinding]:
    """Lines above their claim at the family-wise confidence."""
    return [
        Part.CANARIES.finding(
            f"{line.name} keeps its claim",
            line.strict <= line.mu,
            f"mu of at least {line.strict:.3g} shown, {line.mu:.3g} claimed",
        )
        for line in (game.whole, *game.releases)
    ]


def _verdict(game: GameResult, findings: Iterable[AuditFinding]) -> Verdict:
    return Verdict(
        failed=tuple(finding for finding in findings if not finding.passed),
        epsilon_lower_bound=epsilon_of(game.delta, mu=game.whole.strict),
    )
