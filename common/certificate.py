"""Certificates: what a board promises its users, with every number needed to recompute the promise."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any, TypeAlias

import msgspec

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.grouping import round_problems
from fedboard.common.privacy.accounting.guarantee import (
    Composition,
    CurvePoint,
    Finding,
    Guarantee,
    composition_of,
    composition_sentences,
    curve_of,
)
from fedboard.common.privacy.accounting.rating_level import Implied, implied_by, implied_sentences
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import (
    LIBRARY_TOLERANCE,
    RELATIVE_TOLERANCE,
    Event,
    digest,
    event_problems,
)
from fedboard.common.privacy.ledger.population_total import PopulationTotal
from fedboard.common.privacy.releases.noise import noise_problems

_FORMAT = 3
_WITHOUT_PLANNED = 2
"""The format before: it does not say whether releases were planned, so they count as chosen one after another."""
_Numbers: TypeAlias = Composition | Implied | CurvePoint
_SIMULATED = " Whoever knows the seed can remove it: this is a simulation, not a private release."
_NEIGHBOURS = {str(adjacency): adjacency.sentence for adjacency in Adjacency}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Public statement that comes with a board; made by ``certify``, checked by ``verify``.

    Guarantee: ``verify`` needs nothing but the certificate itself and the base install; where Laplace noise or
    Poisson participation is among the releases, dp-accounting too.
    Not guaranteed: that the releases listed are all that was published, or that the code ran as stated; that
    is what the assumptions and the trust sentences are about.
    """

    claim: Guarantee
    """What is promised to each user."""
    releases: tuple[dict[str, Any], ...]
    """The booked events."""
    composition: Composition
    """What they cost together."""
    curve: tuple[CurvePoint, ...]
    """Epsilon at other deltas, and what zCDP and Renyi accounting would state there."""
    implied: Implied
    """What follows for one rating and for two users together."""
    noise: str
    """The noise source or sources."""
    private: bool
    """False where noise can be reproduced from a seed: then the claim is a simulation's."""
    trust: tuple[str, ...]
    """Who could see what, one sentence each."""
    assumptions: tuple[str, ...]
    """What the proof takes for granted, one sentence each."""
    dataset: str
    """What the ratings are, in public terms."""
    software: str
    """Name and version of what ran."""
    board_digest: str | None
    """Digest of the board that this certificate belongs to."""
    ledger_head: str | None
    """Hash of the ledger's last row."""
    statements: tuple[str, ...]
    """The promise in sentences, derived from the numbers."""
    planned: bool = False
    """Whether a plan fixed all releases before the first was made; its ledger's header holds the plan. Without one,
    every number here holds however each was chosen by what earlier ones showed."""
    population: PopulationTotal | None = None
    """What all runs on the same users cost together, where an account of them is kept."""
    format: int = _FORMAT
    """Version of this layout."""
    digest: str = ""
    """SHA-256 of all other fields, so that an edit shows."""

    def to_json(self) -> str:
        """JSON text, keys sorted, indented."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2).decode()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON object, as a board carries it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """Read a certificate; its numbers are not checked here but by ``verify``.

        Raises:
            InputError: not the JSON of a certificate.
        """
        try:
            plain = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InputError(f"not a certificate: {error}") from None
        return cls.from_dict(plain)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Certificate":
        """Read a certificate from a plain JSON object.

        Raises:
            InputError: not a certificate, or one of another format.
        """
        try:
            return msgspec.convert(plain, type=cls)
        except msgspec.ValidationError as error:
            other = plain.get("format", _FORMAT)
            if other != _FORMAT:
                raise InputError(
                    f"this certificate has format {other!r}; this version reads formats {_WITHOUT_PLANNED} and "
                    f"{_FORMAT}"
                ) from None
            raise InputError(f"not a certificate: {error}") from None

    def verify(self) -> list[Finding]:
        """Recompute every number from the ones it follows from.

        Each release: its sensitivity from bound and adjacency, its deviation from sensitivity and multiplier.
        All releases: mu and rho from the multipliers, epsilon and the curve from mu (or, where a plan is stated,
        from loss distributions), and what follows for ratings and pairs. Then the claim, the sentences and the
        digest. Whether there was a plan only the ledger shows.

        Returns:
            One finding per check, passed or not. The certificate holds if all passed.
        """
        findings = [*_claim_findings(self.claim), *_release_findings(self.releases, claim=self.claim)]
        if all(finding.passed for finding in findings):
            findings += _composition_findings(self)
        return [*findings, *_record_findings(self)]

    @property
    def holds(self) -> bool:
        """Whether every check of ``verify`` passes."""
        return all(finding.passed for finding in self.verify())


def certify(
    events: Iterable[Event],
    *,
    claim: Guarantee,
    trust: Sequence[str],
    assumptions: Sequence[str],
    dataset: str,
    board_digest: str | None = None,
    ledger_head: str | None = None,
    planned: bool = False,
    population: PopulationTotal | None = None,
) -> Certificate:
    """Make the certificate of everything booked so far.

    Args:
        events: as booked, for example ``ledger.events()``. Public.
        claim: what is promised, for example ``ledger.spent()`` or the budget. Public.
        trust: who could see what.
        assumptions: what the proof takes for granted.
        dataset: public description of the data.
        board_digest: digest of the board it belongs to.
        ledger_head: ``ledger.head``.
        planned: ``ledger.plan is not None``.
        population: ``ledger.population_total()``.

    Raises:
        PrivacyError: the events do not support the claim.
    """
    releases = tuple(dict(event) for event in events)
    _require([*_claim_findings(claim), *_release_findings(releases, claim=claim)])
    composition = composition_of(releases, claim.delta, planned=planned)
    implied = implied_by(releases, claim.delta, planned=planned)
    noise, private = _noise(releases)
    certificate = Certificate(
        claim=claim,
        releases=releases,
        composition=composition,
        curve=curve_of(releases, planned=planned),
        implied=implied,
        noise=noise,
        private=private,
        trust=tuple(trust),
        assumptions=tuple(assumptions),
        dataset=dataset,
        software=f"fedboard {version('fedboard')}",
        board_digest=board_digest,
        ledger_head=ledger_head,
        planned=planned,
        population=population,
        statements=(),
    )
    certificate = replace(certificate, statements=_statements(certificate))
    certificate = replace(certificate, digest=digest(_content(certificate)))
    _require(certificate.verify())
    return certificate


def _require(findings: Iterable[Finding]) -> None:
    failed = [f"{finding.check}: {finding.detail}" for finding in findings if not finding.passed]
    if failed:
        raise PrivacyError(f"this cannot be certified: {'; '.join(failed)}")


def _claim_findings(claim: Guarantee) -> list[Finding]:
    known = tuple(Adjacency)
    checks = {
        "claimed epsilon": (
            0 <= claim.epsilon < math.inf,
            f"must be a finite number >= 0, is {claim.epsilon}",
        ),
        "claimed delta": (0 < claim.delta < 1, f"must be in (0, 1), is {claim.delta}"),
        "claimed adjacency": (
            claim.adjacency in known,
            f"must be one of {', '.join(known)}, is {claim.adjacency}",
        ),
        "claimed unit": (claim.unit == "user", f"must be user, is {claim.unit}"),
    }
    return [Finding(check=name, passed=passed, detail=detail) for name, (passed, detail) in checks.items()]


def _release_findings(releases: Sequence[Event], *, claim: Guarantee) -> list[Finding]:
    findings = [_release_finding(event, claim=claim) for event in releases]
    problems = round_problems(releases)
    detail = "; ".join(problems) or "the releases of each round state the same participation"
    return [*findings, Finding(check="rounds", passed=not problems, detail=detail)]


def _release_finding(event: Event, *, claim: Guarantee) -> Finding:
    problems = event_problems(event)
    if event.get("adjacency") != claim.adjacency:
        problems.append(f"adjacency is {event.get('adjacency')!r}, the claim's is {claim.adjacency!r}")
    problems += noise_problems(event)
    detail = (
        "; ".join(problems) or f"noise multiplier {event['noise_multiplier']!r} follows from bound and noise"
    )
    return Finding(check=f"release {event.get('name')!r}", passed=not problems, detail=detail)


def _composition_findings(certificate: Certificate) -> list[Finding]:
    claim, releases, planned = certificate.claim, certificate.releases, certificate.planned
    expected = composition_of(releases, claim.delta, planned=planned)
    tolerance = RELATIVE_TOLERANCE if expected.exact or not planned else LIBRARY_TOLERANCE
    findings = _same_numbers("", certificate.composition, expected, tolerance)
    covered = expected.epsilon <= claim.epsilon * (1 + tolerance)
    detail = f"epsilon {claim.epsilon!r} is claimed, the releases cost {expected.epsilon!r}"
    detail += "" if planned or expected.exact else " (no plan is stated, so each may depend on earlier ones)"
    findings.append(Finding(check="claim", passed=covered, detail=detail))
    findings += _same_numbers(
        "", certificate.implied, implied_by(releases, claim.delta, planned=planned), tolerance
    )
    if certificate.population is not None:
        findings += certificate.population.findings(releases, adjacency=claim.adjacency)
    curve = curve_of(releases, planned=planned)
    complete = len(curve) == len(certificate.curve)
    findings.append(Finding(check="curve", passed=complete, detail=f"{len(curve)} points are required"))
    for point, right in zip(certificate.curve, curve, strict=False):
        findings += _same_numbers(f"curve at {right.delta:g}: ", point, right, tolerance)
    return findings


def _same_numbers(where: str, stated: _Numbers, expected: _Numbers, tolerance: float) -> list[Finding]:
    findings = []
    for name, right in asdict(expected).items():
        value = getattr(stated, name)
        passed = math.isclose(value, right, rel_tol=tolerance)
        detail = f"stated {value!r}, recomputed {right!r}"
        findings.append(Finding(check=f"{where}{name}", passed=passed, detail=detail))
    return findings


def _record_findings(certificate: Certificate) -> list[Finding]:
    """Check what is said about the noise, the sentences and the digest."""
    noise = _noise(certificate.releases)
    try:
        unchanged = digest(_content(certificate)) == certificate.digest
    except PrivacyError:
        unchanged = False
    checks = {
        "format": (
            certificate.format == _FORMAT
            or (certificate.format == _WITHOUT_PLANNED and not certificate.planned),
            f"this version reads format {_FORMAT}, and {_WITHOUT_PLANNED}, which states no plan",
        ),
        "noise": ((certificate.noise, certificate.private) == noise, "must be what the releases say"),
        "statements": (
            certificate.statements == _statements(certificate),
            "must follow from the numbers",
        ),
        "digest": (unchanged, "must be the SHA-256 of all other fields"),
    }
    return [Finding(check=name, passed=passed, detail=detail) for name, (passed, detail) in checks.items()]


def _noise(releases: Iterable[Event]) -> tuple[str, bool]:
    booked = list(releases)
    labels = sorted({str(event.get("noise")) for event in booked})
    private = bool(booked) and all(event.get("private") is True for event in booked)
    return "; ".join(labels) or "no release yet", private


def _statements(certificate: Certificate) -> tuple[str, ...]:
    claim = certificate.claim
    neighbours = _NEIGHBOURS.get(claim.adjacency, "unknown")
    return (
        f"What is published is ({claim.epsilon!r}, {claim.delta!r})-differentially private "
        f"for each {claim.unit}.",
        f"Neighbouring data sets ({claim.adjacency}): {neighbours}.",
        *composition_sentences(
            certificate.composition, len(certificate.releases), planned=certificate.planned
        ),
        *implied_sentences(certificate.implied, claim.adjacency),
        *([] if certificate.population is None else [certificate.population.sentence()]),
        f"Noise: {certificate.noise}." + ("" if certificate.private else _SIMULATED),
    )


def _content(certificate: Certificate) -> dict[str, Any]:
    left_out = {"digest", "planned"} if certificate.format == _WITHOUT_PLANNED else {"digest"}
    return {key: value for key, value in certificate.to_dict().items() if key not in left_out}


__all__ = ["Certificate", "Composition", "CurvePoint", "Finding", "Guarantee", "certify"]
