"""The audit audited: known bugs must be caught, correct runs must pass, and where no data leave none must show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedboard.common.cohort import Cohort
from fedboard.simulations.audit.attacks.game import GameResult
from fedboard.simulations.audit.attacks.noise_check import noise_test
from fedboard.simulations.audit.audit import OnStep, Plan, fuzz_stages, play_game
from fedboard.simulations.audit.broken.mutants import Mutant, mutants, null_subject
from fedboard.simulations.audit.findings import AuditFinding, Part
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine, WorkerPool


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
    cohort: Cohort,
    plan: Plan,
    *,
    rating_range: tuple[float, float],
    pool: WorkerPool,
    on_step: OnStep | None = None,
) -> ControlsResult:
    """Audit each mutant once, the correct run and the null run ``plan.repeat`` times.

    Every check works at ``plan.family_error``; the nominal 5 % of the reported bound would flag every twentieth
    correct run, which is right for a bound and wrong for a control.

    Args:
        subject: the correct run.
        cohort: honest users. Private.
        plan: how much.
        rating_range: public.
        pool: where jobs run.
        on_step: told as runs are done.
    """
    seeds = range(plan.seed, plan.seed + plan.repeat)
    known = mutants()
    total, done = len(known) + 2 * len(seeds), 0
    found: dict[str, list[Control]] = {"mutants": [], "correct": [], "null": []}

    def finished(kind: str, control: Control) -> None:
        nonlocal done
        done += 1
        found[kind].append(control)
        if on_step is not None:
            on_step("controls", done, total)

    if on_step is not None:
        on_step("controls", 0, total)
    examine = _Examiner(cohort=cohort, plan=plan, rating_range=rating_range, pool=pool)
    for mutant in known:
        finished("mutants", examine.mutant(subject, mutant))
    for seed in seeds:
        finished("correct", examine.all_parts(subject, "correct", "nothing", broken=False, seed=seed))
        finished("null", examine.null(subject, seed))
    return ControlsResult(**{kind: tuple(controls) for kind, controls in found.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examiner:
    cohort: Cohort
    plan: Plan
    rating_range: tuple[float, float]
    pool: WorkerPool

    def mutant(self, subject: Subject, mutant: Mutant) -> Control:
        """A broken run."""
        broken = mutant.break_it(subject)
        return self.all_parts(broken, mutant.name, mutant.what, broken=True, seed=self.plan.seed)

    def all_parts(self, subject: Subject, name: str, what: str, *, broken: bool, seed: int) -> Control:
        """Noise, sensitivity and canaries."""
        plan = replace(self.plan, seed=seed)
        fuzz = fuzz_stages(subject, self.cohort, plan, rating_range=self.rating_range, pool=self.pool)
        with Engine(subject.task, self.cohort, protocol=subject.protocol, pool=self.pool) as engine:
            noise = noise_test(subject, engine, seed=seed, family_error=plan.family_error)
            game = play_game(subject, engine, plan, seed=seed)
        findings = [*noise.findings, *fuzz.findings, *_strict(game)]
        return _control(name, what, broken, seed, findings, game)

    def null(self, subject: Subject, seed: int) -> Control:
        """A run without data in its releases; the noise and sensitivity of the real one do not matter."""
        empty = null_subject(subject)
        with Engine(empty.task, self.cohort, protocol=empty.protocol, pool=self.pool) as engine:
            game = play_game(empty, engine, self.plan, seed=seed)
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


__all__ = ["Control", "ControlsResult", "run_controls"]
