"""The noise of every release on an empty fleet, against the noise that the ledger booked, in both directions."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.simulations.audit.findings import AuditFinding, Part
from fedboard.simulations.audit.measures.scratch import Scratch
from fedboard.simulations.audit.measures.statistics import relation_p, shape_p, spread_p
from fedboard.simulations.audit.measures.whitening import unit_noise
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine

TWINS = (0.9, 1.1)
"""The same numbers held against a claim that is off by this factor must be noticed."""
_FEWEST = 1 << 13
"""Numbers that a release needs for the twins to be told apart with certainty; smaller ones are drawn again."""


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
    """Whether the same tests refuse these numbers for 0.9 and for 1.1 times the deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseResult:
    """Outcome of the noise test."""

    lines: tuple[NoiseLine, ...]
    n_tests: int
    least_p: float
    findings: tuple[AuditFinding, ...]


def noise_test(subject: Subject, engine: Engine, *, seed: int, family_error: float = 1e-3) -> NoiseResult:
    """Run the whole pipeline without users and look at what comes out.

    Shape and spread of each release; that neighbouring numbers, columns and rows, blocks from different worker
    processes, different releases and another run have nothing to do with each other; that each row left once and
    was booked. All p-values share ``family_error`` (Bonferroni).

    Args:
        subject: the parts.
        engine: publishes, in its pool's processes; its users are not asked.
        seed: of the noise, where it is seeded.
        family_error: probability that anything at all is flagged where all is well.
    """
    seen = _Seen()
    try:
        for played in play(subject, engine, seed=seed, honest=False):
            seen.add(played)
    except PrivacyError as error:
        broken = AuditFinding(part=Part.NOISE, check="every row leaves once", passed=False, detail=str(error))
        return NoiseResult(lines=(), n_tests=1, least_p=0.0, findings=(broken,))
    with Scratch(subject, seed=seed + 1) as scratch:
        again = {request.name: _drawn_again(scratch, request) for request in seen.requests}
    drawn = {name: unit if unit.size >= _FEWEST else again[name] for name, unit in seen.noise.items()}
    relations = dict(_relations(seen, drawn, again))
    level = family_error / max(1, 2 * len(drawn) + len(relations))
    lines = tuple(_line(name, numbers, level) for name, numbers in drawn.items())
    kinds = {
        "noise has the shape that is booked": {line.name: line.shape_p for line in lines},
        "noise has the size that is booked": {line.name: line.spread_p for line in lines},
        "noise repeats nowhere": relations,
    }
    found = tuple(_held(check, p_values, lines, level) for check, p_values in kinds.items())
    return NoiseResult(
        lines=lines,
        n_tests=sum(map(len, kinds.values())),
        least_p=min((p for p_values in kinds.values() for p in p_values.values()), default=1.0),
        findings=(*found, _twins(lines), _paid(seen)),
    )


class _Seen:
    """What left in a run without users."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.noise: dict[str, FloatArray] = {}
        """By release name, in units of the booked deviation."""
        self.starts: dict[str, tuple[int, ...]] = {}
        self.unpaid: list[str] = []
        self.n_booked = 0

    def add(self, played: PlayedRound) -> None:
        self.n_booked = len(played.events)
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None:
                continue
            if request.name not in played.events or request.name in self.noise:
                self.unpaid.append(request.name)
                continue
            self.requests.append(request)
            self.starts[request.name] = left.starts
            exact = played.honest[request.name]
            self.noise[request.name] = unit_noise(played.events[request.name], left.values, exact)


def _drawn_again(scratch: Scratch, request: Request) -> FloatArray:
    """Noise of a release in another run, with enough rows for the tests."""
    rows = max(request.release.rows, -(-_FEWEST // request.release.width))
    event, left = scratch.draw(request, rows=rows)
    return unit_noise(event, left, np.zeros(left.shape, dtype=np.int64))


def _relations(
    seen: _Seen, drawn: Mapping[str, FloatArray], again: Mapping[str, FloatArray]
) -> Iterator[tuple[str, float]]:
    """p-values of everything that must not be related."""
    for name, numbers in drawn.items():
        flat, unit = numbers.ravel(), seen.noise[name]
        yield f"neighbouring numbers of {name}", relation_p(flat[:-1], flat[1:])
        yield f"neighbouring rows of {name}", relation_p(numbers[:-1], numbers[1:])
        yield f"{name} in two runs", relation_p(unit, again[name])
        for row, next_row in itertools.pairwise(seen.starts[name]):
            check = f"blocks of {name} from rows {row} and {next_row}"
            yield check, relation_p(unit[row:next_row], unit[next_row:])
    for one, other in itertools.combinations(drawn, 2):
        small = min(seen.noise[one].size, seen.noise[other].size) < _FEWEST
        of_one_run = again if small else seen.noise
        yield f"{one} and {other}", relation_p(of_one_run[one], of_one_run[other])


def _line(name: str, numbers: FloatArray, level: float) -> NoiseLine:
    shape, spread = shape_p(numbers), spread_p(numbers)
    noticed = all(min(shape_p(numbers / twin), spread_p(numbers / twin)) < level for twin in TWINS)
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
    return AuditFinding(part=Part.NOISE, check=check, passed=not surprising, detail=f"{detail})")


def _twins(lines: tuple[NoiseLine, ...]) -> AuditFinding:
    blind = [line.name for line in lines if not line.twins_noticed]
    detail = f"not noticed for {', '.join(blind)}" if blind else f"noticed for all {len(lines)} releases"
    check = "noise that is 10 % too small or too large would be noticed"
    return AuditFinding(part=Part.NOISE, check=check, passed=not blind, detail=detail)


def _paid(seen: _Seen) -> AuditFinding:
    detail = f"{len(seen.noise)} releases left, {seen.n_booked} were booked"
    if seen.unpaid:
        detail = f"not paid for: {', '.join(seen.unpaid)}"
    check = "everything that left was booked"
    return AuditFinding(part=Part.NOISE, check=check, passed=not seen.unpaid, detail=detail)


__all__ = ["TWINS", "NoiseLine", "NoiseResult", "noise_test"]
