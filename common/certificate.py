"""Certificates: what a board promises its users, with every number needed to recompute the promise."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import msgspec

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, Event, digest, event_problems
from fedboard.common.privacy.guarantee import (
    Composition,
    CurvePoint,
    Finding,
    Guarantee,
    composition_of,
    curve_of,
)

_FORMAT = 1
_SIMULATED = " Whoever knows the seed can remove it: this is a simulation, not a private release."
_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "one user with all her ratings is present or absent",
    Adjacency.REPLACE: "one user's ratings are exchanged for any others",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Public statement that comes with a board; made by ``certify``, checked by ``verify``.

    Guarantee: ``verify`` needs nothing but the certificate itself and the base install.
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
    """Epsilon at other deltas."""
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
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise InputError(f"not a certificate: {error}") from None

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Certificate":
        """Read a certificate from a plain JSON object.

        Raises:
            InputError: not a certificate.
        """
        try:
            return msgspec.convert(plain, type=cls)
        except msgspec.ValidationError as error:
            raise InputError(f"not a certificate: {error}") from None

    def verify(self) -> list[Finding]:
        """Recompute every number from the ones it follows from.

        Each release: its sensitivity from bound and adjacency, its deviation from sensitivity and multiplier.
        All releases: mu and rho from the multipliers, epsilon and the curve from mu. Then the claim, the
        sentences and the digest.

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

    Raises:
        PrivacyError: the events do not support the claim.
    """
    releases = tuple(dict(event) for event in events)
    _require([*_claim_findings(claim), *_release_findings(releases, claim=claim)])
    composition = composition_of(releases, claim.delta)
    noise, private = _noise(releases)
    certificate = Certificate(
        claim=claim,
        releases=releases,
        composition=composition,
        curve=curve_of(releases),
        noise=noise,
        private=private,
        trust=tuple(trust),
        assumptions=tuple(assumptions),
        dataset=dataset,
        software=f"fedboard {version('fedboard')}",
        board_digest=board_digest,
        ledger_head=ledger_head,
        statements=_statements(claim, composition, n_releases=len(releases), noise=noise, private=private),
    )
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


def _release_findings(releases: Iterable[Event], *, claim: Guarantee) -> list[Finding]:
    return [_release_finding(event, claim=claim) for event in releases]


def _release_finding(event: Event, *, claim: Guarantee) -> Finding:
    problems = event_problems(event)
    if event.get("adjacency") != claim.adjacency:
        problems.append(f"adjacency is {event.get('adjacency')!r}, the claim's is {claim.adjacency!r}")
    if not isinstance(event.get("noise"), str) or not isinstance(event.get("private"), bool):
        problems.append("the noise source is not stated")
    detail = (
        "; ".join(problems) or f"noise multiplier {event['noise_multiplier']!r} follows from bound and noise"
    )
    return Finding(check=f"release {event.get('name')!r}", passed=not problems, detail=detail)


def _composition_findings(certificate: Certificate) -> list[Finding]:
    stated, claim = certificate.composition, certificate.claim
    expected = composition_of(certificate.releases, claim.delta)
    findings = [
        _number_finding(name, getattr(stated, name), getattr(expected, name))
        for name in ("mu", "rho", "epsilon")
    ]
    covered = expected.epsilon <= claim.epsilon * (1 + RELATIVE_TOLERANCE)
    detail = f"epsilon {claim.epsilon!r} is claimed, the releases cost {expected.epsilon!r}"
    findings.append(Finding(check="claim", passed=covered, detail=detail))
    curve = curve_of(certificate.releases)
    complete = len(curve) == len(certificate.curve)
    findings.append(Finding(check="curve", passed=complete, detail=f"{len(curve)} points are required"))
    for point, right in zip(certificate.curve, curve, strict=False):
        findings.append(_number_finding("curve delta", point.delta, right.delta))
        findings.append(_number_finding(f"curve epsilon at {right.delta:g}", point.epsilon, right.epsilon))
    return findings


def _number_finding(name: str, stated: float, expected: float) -> Finding:
    passed = math.isclose(stated, expected, rel_tol=RELATIVE_TOLERANCE)
    return Finding(check=name, passed=passed, detail=f"stated {stated!r}, recomputed {expected!r}")


def _record_findings(certificate: Certificate) -> list[Finding]:
    """Check what is said about the noise, the sentences and the digest."""
    noise = _noise(certificate.releases)
    statements = _statements(
        certificate.claim,
        certificate.composition,
        n_releases=len(certificate.releases),
        noise=certificate.noise,
        private=certificate.private,
    )
    try:
        unchanged = digest(_content(certificate)) == certificate.digest
    except PrivacyError:
        unchanged = False
    checks = {
        "format": (certificate.format == _FORMAT, f"this version reads format {_FORMAT}"),
        "noise": ((certificate.noise, certificate.private) == noise, "must be what the releases say"),
        "statements": (certificate.statements == statements, "must follow from the numbers"),
        "digest": (unchanged, "must be the SHA-256 of all other fields"),
    }
    return [Finding(check=name, passed=passed, detail=detail) for name, (passed, detail) in checks.items()]


def _noise(releases: Iterable[Event]) -> tuple[str, bool]:
    booked = list(releases)
    labels = sorted({str(event.get("noise")) for event in booked})
    private = bool(booked) and all(event.get("private") is True for event in booked)
    return "; ".join(labels) or "no release yet", private


def _statements(
    claim: Guarantee, composition: Composition, *, n_releases: int, noise: str, private: bool
) -> tuple[str, ...]:
    neighbours = {str(key): text for key, text in _NEIGHBOURS.items()}.get(claim.adjacency, "unknown")
    return (
        f"What is published is ({claim.epsilon!r}, {claim.delta!r})-differentially private "
        f"for each {claim.unit}.",
        f"Neighbouring data sets ({claim.adjacency}): {neighbours}.",
        f"Its {n_releases} releases together are {composition.mu!r}-GDP and {composition.rho!r}-zCDP, "
        f"which is epsilon {composition.epsilon!r} at this delta.",
        f"Noise: {noise}." + ("" if private else _SIMULATED),
    )


def _content(certificate: Certificate) -> dict[str, Any]:
    return {key: value for key, value in certificate.to_dict().items() if key != "digest"}


__all__ = ["Certificate", "Composition", "CurvePoint", "Finding", "Guarantee", "certify"]
