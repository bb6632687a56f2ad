"""The audit audited: known bugs must be caught, correct runs must pass, and where no data leave none must show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedboard.simulations.audit.attacks.course import same_course
from fedboard.simulations.audit.attacks.game import GameResult
from fedboard.simulations.audit.audit import (
    OnStep,
    Plan,
    file_part,
    fuzz_stages,
    noise_part,
    play_game,
    stream_findings,
)
from fedboard.simulations.audit.broken.helpers import honest_helper, silent_helper
from fedboard.simulations.audit.broken.mutants import Mutant, mutants, null_subject
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.findings import AuditFinding, Part
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.audit.verdicts import explained_finding, single_finding, uniform_findings
from fedboard.simulations.engine import WorkerPool

_FILE_GAMES, _FEW_USERS, _SMALL_NUMBERS = 16, 60, 100
"""Of each run: what is broken here needs no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One run, broken or not, and what the audit said about it."""

    name: str
    what: str
    broken: bool
    seed: int
    caught: tuple[AuditFinding, ...]
    """The checks that failed."""
    epsilon_lower_bound: float
    """Of the whole board, at the family-wise confidence."""

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The parts of the audit that flagged it."""
        return tuple(dict.fromkeys(str(finding.part) for finding in self.caught))

    @property
    def right(self) -> bool:
        """Whether the audit judged it rightly."""
        return bool(self.caught) == self.broken


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlsResult:
    """How good the audit is at telling broken from correct."""

    mutants: tuple[Control, ...]
    correct: tuple[Control, ...]
    """The same correct run under several seeds."""
    null: tuple[Control, ...]
    """Runs that release noise without data; right if they audit to epsilon 0."""

    @property
    def missed(self) -> int:
        """Broken runs that passed."""
        return sum(not control.right for control in self.mutants)

    @property
    def false_alarms(self) -> int:
        """Correct runs that were flagged, and null runs of which anything was claimed to be shown."""
        return sum(not control.right for control in (*self.correct, *self.null))


def run_controls(
    subject: Subject,
    entrance: Entrance,
    plan: Plan,
    *,
    pool: WorkerPool,
    on_step: OnStep | None = None,
) -> ControlsResult:
    """Audit each mutant once, the correct run and the null run ``plan.repeat`` times.

    Every check works at ``plan.family_error``; the nominal 5 % of the reported bound would flag every twentieth
    correct run, which is right for a bound and wrong for a control.

    Args:
        subject: the correct run.
        entrance: makes rows of files; its honest users are every run's.
        plan: how much.
        pool: where jobs run.
        on_step: told as runs are done.
    """
    seeds = range(plan.seed, plan.seed + plan.repeat)
    known = mutants()
    total, done = len(known) + 2 + 2 * len(seeds), 0
    found: dict[str, list[Control]] = {"mutants": [], "correct": [], "null": []}

    def finished(kind: str, control: Control) -> None:
        nonlocal done
        done += 1
        found[kind].append(control)
        if on_step is not None:
            on_step("controls", done, total)

    if on_step is not None:
        on_step("controls", 0, total)
    few = min(plan.small_numbers, _SMALL_NUMBERS)
    quick = replace(plan, file_games=_FILE_GAMES, small_numbers=few, block=0)
    examine = _Examiner(entrance=entrance, plan=quick, pool=pool)
    for mutant in known:
        finished("mutants", examine.mutant(subject, mutant))
    finished("mutants", examine.two_servers(silent_helper(subject), broken=True))
    finished("correct", examine.two_servers(honest_helper(subject), broken=False))
    for seed in seeds:
        finished("correct", examine.all_parts(subject, "correct", "nothing", broken=False, seed=seed))
        finished("null", examine.null(subject, seed))
    return ControlsResult(**{kind: tuple(controls) for kind, controls in found.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examiner:
    entrance: Entrance
    plan: Plan
    pool: WorkerPool

    def mutant(self, subject: Subject, mutant: Mutant) -> Control:
        """A broken run."""
        broken = mutant.break_it(subject)
        return self.all_parts(broken, mutant.name, mutant.what, broken=True, seed=self.plan.seed)

    def all_parts(self, subject: Subject, name: str, what: str, *, broken: bool, seed: int) -> Control:
        """All but what the final board alone gives away."""
        plan, entrance = replace(self.plan, seed=seed), self.entrance
        cohort = entrance.honest_rows(subject.read).cohort
        noise = noise_part(subject, cohort, plan, pool=self.pool)
        files = file_part(subject, entrance, plan, pool=self.pool)
        fuzz = fuzz_stages(subject, cohort, plan, rating_range=entrance.rating_range, pool=self.pool)
        game = play_game(subject, entrance, plan, seed=seed, pool=self.pool)
        findings = [
            *files.findings,
            same_course({"nobody": noise.course, "everybody": game.course}),
            *noise.findings,
            *stream_findings(subject, plan),
            *fuzz.findings,
            *_strict(game),
            single_finding([game], noise.small),
            explained_finding([game]),
        ]
        return _control(name, what, broken, seed, findings, game)

    def two_servers(self, subject: Subject, *, broken: bool) -> Control:
        """A run over two servers, among few users: its noise, and canaries that look at what each server holds."""
        few = self.entrance.of_first(_FEW_USERS)
        plan = replace(self.plan, canaries=_FEW_USERS)
        noise = noise_part(subject, few.honest_rows(subject.read).cohort, plan, pool=self.pool)
        game = play_game(subject, few, plan, seed=plan.seed, pool=self.pool)
        uniform = uniform_findings([game], plan.family_error)
        findings = [*noise.findings, *_strict(game), single_finding([game], noise.small), *uniform]
        what = "the second server adds no noise to its total" if broken else "nothing"
        name = "second server without noise" if broken else "correct, two servers"
        return _control(name, what, broken, plan.seed, findings, game)

    def null(self, subject: Subject, seed: int) -> Control:
        """A run without data in its releases; the noise and sensitivity of the real one do not matter."""
        empty = null_subject(subject)
        game = play_game(empty, self.entrance, self.plan, seed=seed, pool=self.pool)
        shown = [line for line in (game.whole, *game.releases) if line.strict > 0.0]
        findings = [
            AuditFinding(
                part=Part.CANARIES, check=line.name, passed=False, detail="shown where there is nothing"
            )
            for line in shown
        ]
        return _control("null", "releases hold noise and no data", False, seed, findings, game)


def _strict(game: GameResult) -> list[AuditFinding]:
    """Lines above their claim at the family-wise confidence."""
    return [
        AuditFinding(
            part=Part.CANARIES,
            check=f"{line.name} keeps its claim",
            passed=line.strict <= line.mu,
            detail=f"mu of at least {line.strict:.3g} shown, {line.mu:.3g} claimed",
        )
        for line in (game.whole, *game.releases)
    ]


def _control(
    name: str, what: str, broken: bool, seed: int, findings: Sequence[AuditFinding], game: GameResult
) -> Control:
    return Control(
        name=name,
        what=what,
        broken=broken,
        seed=seed,
        caught=tuple(finding for finding in findings if not finding.passed),
        epsilon_lower_bound=game.strict_epsilon,
    )
