"""The noise of every release on an empty fleet, against the noise that the ledger booked, in both directions."""

import itertools
import math
import multiprocessing
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import FedboardError, PrivacyError
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import LEAST_DEVIATION, NoiseShares
from fedboard.simulations.audit.canaries import booked_deviations, unit_noise
from fedboard.simulations.audit.course import CourseStep, step_of
from fedboard.simulations.audit.pipeline import PlayedRound, play, remade
from fedboard.simulations.audit.sessions import under_noise
from fedboard.simulations.audit.small_releases import small_releases
from fedboard.simulations.audit.statistics import (
    FAMILY_ERROR,
    Line,
    cells_p,
    distant_p,
    relation_p,
    shape_p,
    spread_p,
)
from fedboard.simulations.audit.subject import ENOUGH, AuditFinding, Part, Plan, Subject
from fedboard.simulations.engine import WorkerPool

TWINS = (0.9, 1.1)
"""The same numbers held against a claim that is off by this factor must be noticed."""
_RUNS = 3
"""On an empty fleet: a single cell without noise shows when it has none in each of them."""
_MANY = 1 << 13
_WORDS, _CHILDREN = 512, 3
_SEAM = 1 << 16
_LONG = 4 * _SEAM + 5
_CERTAIN = 9.0
"""Deviations by which a twin of few numbers must be off: what a test at any level used here notices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLine:
    """One release: how large its noise is in units of what was booked, and how surprising that would be."""

    name: str
    n_numbers: int
    ratio: float
    """Root mean square of the noise over the booked deviation; 1 where all is well."""
    shape_p: float
    spread_p: float
    twins_noticed: bool
    """Whether the same tests refuse these numbers for ``twins_of(n_numbers)`` times the deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseResult:
    """Outcome of the noise test."""

    lines: tuple[NoiseLine, ...]
    n_tests: int
    least_p: float
    findings: tuple[AuditFinding, ...]
    course: tuple[CourseStep, ...]
    """Of the first run."""
    small: tuple[Line, ...]
    """What canaries showed on releases of few numbers, over many runs."""


def twins_of(n_numbers: int) -> tuple[float, float]:
    """The claims that so many numbers tell from the right one with certainty: ``TWINS``, or further off for few."""
    if n_numbers >= _MANY:
        return TWINS
    lower = math.sqrt(max(1.0 - _CERTAIN * math.sqrt(2.0 / n_numbers), 0.01))
    return lower, 1.0 / lower


def noise_test(subject: Subject, cohort: Cohort, plan: Plan, *, pool: WorkerPool) -> NoiseResult:
    """Run the whole pipeline without users, three times, and look at what comes out.

    Shape and spread of each release, and of what a party holds under another's noise; that every cell has noise;
    that neighbouring numbers, columns and rows, parts at any distance, blocks from different worker processes,
    different releases and other runs have nothing to do with each other; that each row left once and was booked,
    and the next board was made of what left. Releases of less than ``ENOUGH`` numbers are looked at over many runs
    of their own. All p-values share ``FAMILY_ERROR`` (Bonferroni).

    Args:
        subject: the parts.
        cohort: honest users; some of them take part in those many runs. Private.
        plan: how much; its seed is of the noise, where it is seeded.
        pool: where jobs run, whose processes publish.
    """
    runs = [_Seen(subject) for _ in range(_RUNS)]
    try:
        for number, seen in enumerate(runs):
            for played in play(subject, cohort.rows(0, 0), pool=pool, seed=plan.seed + number):
                seen.add(played)
    except PrivacyError as error:
        broken = Part.NOISE.finding(check="every row leaves once", passed=False, detail=str(error))
        return NoiseResult(lines=(), n_tests=1, least_p=0.0, findings=(broken,), course=(), small=())
    first = runs[0]
    pooled = {name: np.concatenate([run.noise[name] for run in runs]) for name in first.noise}
    few = [name for name, unit in pooled.items() if unit.size < ENOUGH]
    many = small_releases(subject, cohort, few, plan, pool=pool)
    drawn = {**pooled, **many.noise}
    relations = dict(_relations_between(runs, drawn, set(many.noise)))
    cells = {name: cells_p([run.noise[name] for run in runs], first.step[name]) for name in first.noise}
    level = FAMILY_ERROR / max(1, 2 * len(drawn) + len(relations) + len(cells))
    lines = tuple(_line(name, numbers, level) for name, numbers in drawn.items())
    kinds = {
        "noise has the shape that is booked": {line.name: line.shape_p for line in lines},
        "noise has the size that is booked": {line.name: line.spread_p for line in lines},
        "noise repeats nowhere": relations,
        "every cell has noise of its own": cells,
    }
    found = tuple(_held(check, p_values, lines, level) for check, p_values in kinds.items())
    return NoiseResult(
        lines=lines,
        n_tests=sum(map(len, kinds.values())),
        least_p=min((p for p_values in kinds.values() for p in p_values.values()), default=1.0),
        findings=(*found, _twins(lines), _paid(first), _made(first)),
        course=tuple(first.course),
        small=many.lines,
    )


def lattice_test(shares: NoiseShares, release: GaussianRelease, source: NoiseSource) -> AuditFinding:
    """Whether a client's shares have their size on the coarsest lattice that is allowed, where rounding shows most.

    A share of five lattice units that is truncated is 8 % too small; on a fine lattice nobody would see it.
    """
    multiplier = 1.000001 * LEAST_DEVIATION * math.sqrt(shares.least) / release.l2_sensitivity
    coarse = replace(release, rows=1 << 16, width=1, layout="vector", noise_multiplier=multiplier)
    drawn = shares.draw(coarse, source.stream("lattice"), shift=0) / math.sqrt(LEAST_DEVIATION**2 + 1 / 12)
    detail = f"{np.sqrt(np.mean(np.square(drawn))):.4f} of it on a lattice of a fifth of a share"
    check, passed = "shares of the noise have their size where it is hardest", spread_p(drawn) >= FAMILY_ERROR
    return Part.NOISE.finding(check, bool(passed), detail)


def fork_test(noise: NoiseSource) -> AuditFinding:
    """Draw in this process and in forked copies of it, for a release of the same name.

    Random 64-bit words of a few streams are all distinct but for a chance of 10^-13; a generator whose state was
    copied by the fork repeats them. For private sources: a seeded one repeats by design.
    """
    warm = noise.stream("fork").bits(0, _WORDS)  # whatever a source keeps is there before the fork
    drawn = [warm, *(_forked_words(noise) for _ in range(_CHILDREN)), noise.stream("fork").bits(0, _WORDS)]
    words = np.concatenate(drawn)
    repeated = _repeated(words)
    detail = f"{repeated} of {words.size} words repeated in {_CHILDREN} forked processes and their parent"
    return Part.NOISE.finding(
        check="forked processes draw noise of their own", passed=not repeated, detail=detail
    )


def stream_test(noise: NoiseSource) -> AuditFinding:
    """Whether a stream has no word twice over several of its inner seams, and is the same in any pieces.

    Args:
        noise: any source.
    """
    stream = noise.stream("stream")
    words = stream.bits(0, _LONG)
    repeated = _repeated(words)
    pieces = [0, 1, _SEAM - 1, _SEAM + 1, 2 * _SEAM + 3, _LONG]
    apart = [stream.bits(start, stop - start) for start, stop in itertools.pairwise(pieces)]
    same = np.array_equal(words, np.concatenate(apart))
    detail = f"{repeated} of {words.size} words repeated" + ("" if same else "; other words in other pieces")
    return Part.NOISE.finding(
        check="a stream never comes back to its words",
        passed=same and not repeated,
        detail=detail,
    )


class _Seen:
    """What left in a run without users."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.noise: dict[str, FloatArray] = {}
        """By release name, in units of the booked deviation."""
        self.step: dict[str, float] = {}
        """By release name: from one publishable number to the next, in the same units."""
        self.starts: dict[str, tuple[int, ...]] = {}
        self.unpaid: list[str] = []
        self.made_otherwise: list[int] = []
        """Versions of boards that do not follow from what left."""
        self.course: list[CourseStep] = []
        self.n_booked = 0

    def add(self, played: PlayedRound) -> None:
        self.n_booked = len(played.events)
        self.course.append(step_of(played))
        if played.published:
            made = remade(self.subject.task, played.before, played.published, played.noise_ratio)
            if made.digest != played.after.digest:
                self.made_otherwise.append(played.after.version)
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None:
                continue
            if request.name not in played.events or request.name in self.noise:
                self.unpaid.append(request.name)
                continue
            event, name = played.events[request.name], request.name
            self.starts[name] = left.starts
            self.noise[name] = unit_noise(event, left.values, played.honest[name])
            self.step[name] = math.ldexp(1.0, int(event["release_shift"])) / booked_deviations(event).min()
            if (
                name in played.held.noised
            ):  # what a first server has under a second one's noise is judged alike
                under, held = played.held.noised[name] - played.held.known[name], under_noise(name)
                packing = played.held.packing
                assert packing is not None  # wherever anything is held
                self.noise[held], self.starts[held] = under / booked_deviations(event), (0,)
                self.step[held] = math.ldexp(1.0, packing.shifts[name]) / booked_deviations(event).min()


def _relations_between(
    runs: Sequence[_Seen], drawn: Mapping[str, FloatArray], small: Collection[str]
) -> Iterator[tuple[str, float]]:
    """p-values of everything that must not be related, by what it is.

    Args:
        runs: whole runs, each with its own noise.
        drawn: by release name, the numbers that are judged: of all these runs, or of many runs of their own.
        small: names of the latter, which have one row for each of these runs.
    """
    first = runs[0]
    for name, numbers in drawn.items():
        flat = numbers.ravel()
        yield f"neighbouring numbers of {name}", relation_p(flat[:-1], flat[1:])
        yield f"neighbouring rows of {name}", relation_p(numbers[:-1], numbers[1:])
        yield f"distant numbers of {name}", distant_p(flat)
        for (k, one), (number, other) in itertools.combinations(enumerate(runs), 2):
            if name in one.noise and name in other.noise:
                yield f"{name} in runs {k} and {number}", relation_p(one.noise[name], other.noise[name])
        for row, next_row in itertools.pairwise(first.starts[name]):
            unit = first.noise[name]
            check = f"blocks of {name} from rows {row} and {next_row}"
            yield check, relation_p(unit[row:next_row], unit[next_row:])
    for name, other_name in itertools.combinations(drawn, 2):
        check = f"{name} and {other_name}"
        if name in small and other_name in small:
            yield check, _side_by_side(drawn[name], drawn[other_name])
        else:
            yield check, relation_p(first.noise[name], first.noise[other_name])


def _side_by_side(one: FloatArray, other: FloatArray) -> float:
    """The same runs and columns of two small releases, as far as both have them."""
    rows, width = min(len(one), len(other)), min(one.shape[1], other.shape[1])
    return relation_p(one[:rows, :width], other[:rows, :width])


def _line(name: str, numbers: FloatArray, level: float) -> NoiseLine:
    shape, spread = shape_p(numbers), spread_p(numbers)
    twins = twins_of(numbers.size)
    noticed = all(min(shape_p(numbers / twin), spread_p(numbers / twin)) < level for twin in twins)
    return NoiseLine(
        name=name,
        n_numbers=numbers.size,
        ratio=float(np.sqrt(np.mean(np.square(numbers)))),
        shape_p=shape,
        spread_p=spread,
        twins_noticed=noticed,
    )


def _held(
    check: str, p_values: Mapping[str, float], lines: tuple[NoiseLine, ...], level: float
) -> AuditFinding:
    """One finding for all tests of a kind; names the most surprising."""
    ratios = {line.name: line.ratio for line in lines}
    surprising = [name for name, p in p_values.items() if p < level]
    worst = min(p_values, key=lambda name: p_values[name], default="nothing")
    detail = (
        f"{len(surprising)} of {len(p_values)} refused, smallest p {p_values.get(worst, 1.0):.1e} ({worst}"
    )
    if surprising and worst in ratios:
        detail += f", noise {ratios[worst]:.3f} of what is booked"
    return Part.NOISE.finding(check, not surprising, f"{detail})")


def _twins(lines: tuple[NoiseLine, ...]) -> AuditFinding:
    blind = [line.name for line in lines if not line.twins_noticed]
    detail = f"not noticed for {', '.join(blind)}" if blind else f"noticed for all {len(lines)} releases"
    check = "noise that is too small or too large would be noticed"
    return Part.NOISE.finding(check, not blind, detail)


def _paid(seen: _Seen) -> AuditFinding:
    detail = f"{len(seen.noise)} releases left, {seen.n_booked} were booked"
    if seen.unpaid:
        detail = f"not paid for: {', '.join(seen.unpaid)}"
    check = "everything that left was booked"
    return Part.NOISE.finding(check, not seen.unpaid, detail)


def _made(seen: _Seen) -> AuditFinding:
    others = ", ".join(map(str, seen.made_otherwise))
    detail = f"board {others} is not" if others else "all of them, computed again"
    check = "each board follows from the one before and what left"
    return Part.NOISE.finding(check, not others, detail)


def _repeated(words: BitArray) -> int:
    """How many are there already; by sorting, which takes a tenth of what ``np.unique`` takes."""
    return int(np.count_nonzero(np.diff(np.sort(words)) == 0))


def _forked_words(noise: NoiseSource) -> BitArray:
    """The first words of a stream that a child asks for; the child does nothing else."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def draw() -> None:
        sending.send_bytes(noise.stream("fork").bits(0, _WORDS).tobytes())

    child = context.Process(target=draw)
    with warnings.catch_warnings():
        # Threads of a numerical library do not matter to a child that only draws and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sending.close()
    try:
        return np.frombuffer(receiving.recv_bytes(), dtype=np.uint64)
    except EOFError as error:
        raise FedboardError("a forked process could not draw noise; look at its message above") from error
    finally:
        child.join()
