"""What a certificate states, checked number by number: claim, releases, curve; and the rounds that were made."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from fedboard.common.privacy.accounting.grouping import round_problems
from fedboard.common.privacy.accounting.guarantee import Composition, CurvePoint, Finding, Guarantee, Implied
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import MEMBERS, Event, event_problems
from fedboard.common.privacy.releases.noise import noise_problems

_Numbers: TypeAlias = Composition | Implied | CurvePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsMade:
    """Of one run, up to one board. Public: whoever has all boards sees which of them are equal."""

    planned: int
    """Rounds of the whole run."""
    made: int
    """Rounds whose releases made a board."""
    lost: int
    """Rounds whose budget is spent though nothing came of them: too few answered, or the server ended meanwhile."""

    @property
    def consistent(self) -> bool:
        """Whether such numbers can be."""
        return self.made >= 0 and self.lost >= 0 and self.made + self.lost <= self.planned

    @property
    def sentence(self) -> str:
        """For people."""
        lost = f"{self.lost} lost with their budget" if self.lost else "none lost"
        left = self.planned - self.made - self.lost
        return (
            f"Of {self.planned} planned rounds {self.made} were made, {lost}, and {left} are still to come."
        )

    def after(self, *, lost: bool) -> "RoundsMade":
        """With one more round."""
        return RoundsMade(planned=self.planned, made=self.made + (not lost), lost=self.lost + lost)


def claim_findings(claim: Guarantee) -> list[Finding]:
    """Whether a claim, which may state anything, is a guarantee that this package knows."""
    known = tuple(Adjacency)
    checks = {
        "epsilon": (0 <= claim.epsilon < math.inf, "a finite number >= 0"),
        "delta": (0 < claim.delta < 1, "in (0, 1)"),
        "adjacency": (claim.adjacency in known, f"one of {', '.join(known)}"),
        "unit": (claim.unit == "user", "user"),
    }
    return [
        Finding(check=f"claimed {name}", passed=passed, detail=f"must be {rule}, is {getattr(claim, name)}")
        for name, (passed, rule) in checks.items()
    ]


def release_findings(releases: Sequence[Event], *, claim: Guarantee) -> list[Finding]:
    """Whether each release follows from its bound and noise, and is of the claim's adjacency."""
    findings = [_release_finding(event, claim=claim) for event in releases]
    problems = round_problems(releases)
    detail = "; ".join(problems) or "the releases of each round state the same participation"
    return [*findings, Finding(check="rounds", passed=not problems, detail=detail)]


def _release_finding(event: Event, *, claim: Guarantee) -> Finding:
    problems = event_problems(event)
    if event.get("adjacency") != claim.adjacency:
        problems.append(f"adjacency is {event.get('adjacency')!r}, the claim's is {claim.adjacency!r}")
    problems += noise_problems(event)
    unknown = sorted(event.keys() - MEMBERS.get(str(event.get("mechanism")), event.keys()))
    problems += [f"it has unknown members: {', '.join(unknown)}"] if unknown else []
    detail = (
        "; ".join(problems) or f"noise multiplier {event['noise_multiplier']!r} follows from bound and noise"
    )
    return Finding(check=f"release {event.get('name')!r}", passed=not problems, detail=detail)


def curve_findings(
    stated: Sequence[CurvePoint], expected: Sequence[CurvePoint], tolerance: float
) -> list[Finding]:
    """Whether a curve has every point, and each as it is recomputed."""
    complete = len(expected) == len(stated)
    findings = [Finding(check="curve", passed=complete, detail=f"{len(expected)} points are required")]
    for point, right in zip(stated, expected, strict=False):
        findings += same_numbers(f"curve at {right.delta:g}: ", point, right, tolerance)
    return findings


def same_numbers(where: str, stated: _Numbers, expected: _Numbers, tolerance: float) -> list[Finding]:
    """Whether each field is what is recomputed, to a relative tolerance."""
    findings = []
    for name, right in asdict(expected).items():
        value = getattr(stated, name)
        passed = math.isclose(value, right, rel_tol=tolerance)
        detail = f"stated {value!r}, recomputed {right!r}"
        findings.append(Finding(check=f"{where}{name}", passed=passed, detail=detail))
    return findings
