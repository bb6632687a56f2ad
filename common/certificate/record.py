"""What a certificate holds, and every check of it.

Nothing is certified that its own checks would not pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import msgspec

from fedboard.common.certificate.checks import (
    RoundsMade,
    claim_findings,
    curve_findings,
    release_findings,
    same_numbers,
)
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import Plan
from fedboard.common.privacy.accounting.guarantee import (
    Composition,
    CurvePoint,
    Finding,
    Guarantee,
    Implied,
    implied_sentences,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import PLAN, Commitment
from fedboard.common.privacy.events import Event, canonical_json, digest
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.privacy.releases.noise import protection_of
from fedboard.common.privacy.shown import shown_number, table_html

FORMAT = 4
_OTHER = f"this certificate has format {{!r}}; this version reads format {FORMAT}"
_SIMULATED = " Whoever knows the seed can remove it: this is a simulation, not a private release."
DOES_NOT_HOLD = "NOT PROVEN: this certificate does not hold; `fedboard certificate verify` says why"
_NEIGHBOURS = {str(adjacency): adjacency.sentence for adjacency in Adjacency}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Public statement that comes with a board; made by ``certify``, checked by ``verify``.

    Guarantee: ``verify`` needs nothing but the certificate itself and the base install; where the plan counts on
    Poisson participation, dp-accounting too.
    Not guaranteed: that the releases listed are all that was published, or that the code ran as stated; that
    is what the assumptions and the trust sentences are about.
    """

    claim: Guarantee
    """What is promised to each user."""
    releases: tuple[dict[str, Any], ...]
    """The booked events."""
    composition: Composition
    """What the whole plan costs, or all that the budget allows."""
    curve: tuple[CurvePoint, ...]
    """Epsilon at other deltas, and what zCDP and Renyi accounting would state there."""
    implied: Implied
    """What follows from that for one rating and for two users together."""
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
    """Whether a plan fixed all releases before the first was made."""
    commitment: Commitment
    """What is claimed and why: the whole plan, or the budget that was kept to."""
    population: PopulationTotal | None = None
    """What all runs on the same users cost together, where an account of them is kept."""
    rounds: RoundsMade | None = None
    """How many rounds were planned, made and lost by then; None where nobody counted."""
    format: int = FORMAT
    """Version of this layout."""
    digest: str = ""
    """SHA-256 of all other fields, so that an edit shows."""

    def to_json(self) -> str:
        """JSON text, keys sorted, indented."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict(), order="sorted"), indent=2).decode()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON object, as a board carries it."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """Read a certificate; its numbers are not checked here but by ``verify``.

        Raises:
            InputError: not the JSON of a certificate.
        """
        try:
            plain = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InputError(f"not a certificate: {error}") from None
        return cls.from_dict(plain)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Certificate":
        """Read a certificate from a plain JSON object.

        Raises:
            InputError: not a certificate, one of another format, or one with other members than its format has.
        """
        try:
            made = msgspec.convert(plain, type=cls)
        except msgspec.ValidationError as error:
            other = plain.get("format", FORMAT)
            if other != FORMAT:
                raise InputError(_OTHER.format(other)) from None
            raise InputError(f"not a certificate: {error}") from None
        if made.format != FORMAT:
            raise InputError(_OTHER.format(made.format))
        wrong = next(_otherwise(plain, made.to_dict(), "$"), None)
        if wrong is not None:
            raise InputError(
                f"not a certificate: {wrong} is a member that a certificate of format {made.format} does not have, "
                "one that is missing, or a whole number where a float belongs"
            )
        return made

    def verify(self, *, plan: Plan | None = None) -> list[Finding]:
        """Recompute every number from the ones it follows from.

        Each release: its sensitivity from bound and adjacency, its deviation from sensitivity and multiplier, and
        whether the plan or the budget allows it. Composition, curve and what follows for ratings and pairs: from
        the plan (epsilon from mu, or from loss distributions), or from the budget. Then the claim, the sentences
        and the digest. Whether that was the plan, or the budget, only the ledger shows.

        Args:
            plan: what a ledger shows of it; None: nothing does.

        Returns:
            One finding per check, passed or not. The certificate holds if all passed.
        """
        findings = [*claim_findings(self.claim), *release_findings(self.releases, claim=self.claim)]
        if all(finding.passed for finding in findings):
            findings += _commitment_findings(self, plan)
        if all(finding.passed for finding in findings):
            findings += _number_findings(self)
        return [*findings, *_record_findings(self)]

    @property
    def holds(self) -> bool:
        """Whether every check of ``verify`` passes."""
        return all(finding.passed for finding in self.verify())

    @property
    def verdict(self) -> str:
        """Whether it is private at all, in a plain sentence; says so where it cannot be recomputed here."""
        verdict = protection_of(self.releases).verdict
        try:
            return verdict if self.holds else DOES_NOT_HOLD
        except FedboardError as error:
            return f"{verdict}; its numbers were not recomputed: {error}"

    @property
    def promise(self) -> str:
        """What is claimed, in one line, for people: mu first, where a plan bounds it, epsilon beside it.

        Without a plan mu is left out: what releases may count as Gaussian ones is not promised of pure ones.
        """
        claim = self.claim
        cost = f"({shown_number(claim.epsilon)}, {shown_number(claim.delta)})-differential privacy"
        mu = f"mu {'' if self.composition.exact else 'at most '}{shown_number(self.composition.mu)}, "
        return f"{mu if self.planned else ''}{cost} for each {claim.unit}, {claim.adjacency}"

    def __repr__(self) -> str:
        """One line."""
        return f"<Certificate: {self.promise}, {len(self.releases)} releases; {self.verdict}>"

    def _repr_html_(self) -> str:
        """A table, for a notebook."""
        rows = [
            ("promise", self.promise),
            ("releases", f"{len(self.releases)}"),
            ("noise", self.noise),
            ("data", self.dataset),
            ("board", str(self.board_digest)),
            ("software", self.software),
            *(("who could see what", sentence) for sentence in self.trust),
        ]
        return table_html("Certificate", self.verdict, rows)


def _otherwise(stated: Any, read: Any, place: str) -> Iterator[str]:
    """Where what is stated has other members than what was read of it, or a number of another type."""
    if isinstance(stated, Mapping) and isinstance(read, Mapping):
        yield from (f"{place}.{name}" for name in sorted(stated.keys() ^ read.keys()))
        for name in stated.keys() & read.keys():
            yield from _otherwise(stated[name], read[name], f"{place}.{name}")
    elif isinstance(stated, list | tuple):
        for number, (one, other) in enumerate(zip(stated, read, strict=True)):
            yield from _otherwise(one, other, f"{place}[{number}]")
    elif isinstance(stated, float) != isinstance(read, float):
        yield place


def _commitment_findings(certificate: Certificate, plan: Plan | None) -> list[Finding]:
    """Whether what is claimed was fixed before the first release."""
    held, claim = certificate.commitment, certificate.claim
    if certificate.planned != (held.rule == PLAN) or held.adjacency != claim.adjacency:
        detail = "the plan or the budget that is claimed must be stated, for the claim's adjacency"
        return [Finding(check="commitment", passed=False, detail=detail)]
    findings = held.findings(certificate.releases)
    if plan is not None:
        same = held.plan is not None and canonical_json(held.plan) == canonical_json(plan)
        findings.append(Finding(check="plan", passed=same, detail="must be the ledger's"))
    return findings


def _number_findings(certificate: Certificate) -> list[Finding]:
    """Recompute the numbers of a commitment that was found sound."""
    claim, held = certificate.claim, certificate.commitment
    expected, tolerance = held.numbers(claim.delta), held.tolerance
    needed = expected.composition.epsilon
    detail = f"epsilon {claim.epsilon!r} is claimed, " + (
        f"the releases cost {needed!r}"
        if certificate.planned
        else f"but without a plan only the budget is proven, which is {needed!r} at delta {claim.delta!r}"
    )
    covered = needed <= claim.epsilon * (1 + tolerance)
    findings = same_numbers("", certificate.composition, expected.composition, tolerance)
    findings.append(Finding(check="claim", passed=covered, detail=detail))
    findings += same_numbers("", certificate.implied, expected.implied, tolerance)
    if certificate.population is not None:
        findings += certificate.population.findings(certificate.releases, adjacency=claim.adjacency)
    return [*findings, *curve_findings(certificate.curve, expected.curve, tolerance)]


def _record_findings(certificate: Certificate) -> list[Finding]:
    """Check what is said about the noise, the sentences and the digest."""
    noise = noise_of(certificate.releases)
    try:
        unchanged = digest(content_of(certificate)) == certificate.digest
    except PrivacyError:
        unchanged = False
    checks = {
        "format": (certificate.format == FORMAT, f"this version reads format {FORMAT}"),
        "noise": ((certificate.noise, certificate.private) == noise, "must be what the releases say"),
        "statements": (certificate.statements == statements_of(certificate), "must follow from the numbers"),
        "rounds made": (
            certificate.rounds is None or certificate.rounds.consistent,
            "made and lost must add to at most what was planned",
        ),
        "digest": (unchanged, "must be the SHA-256 of all other fields"),
    }
    return [Finding(check=name, passed=passed, detail=detail) for name, (passed, detail) in checks.items()]


def noise_of(releases: Iterable[Event]) -> tuple[str, bool]:
    """What releases say of their noise, and whether no seed can reproduce any of it."""
    booked = list(releases)
    labels = sorted({str(event.get("noise")) for event in booked})
    private = bool(booked) and all(event.get("private") is True for event in booked)
    return "; ".join(labels) or "no release yet", private


def statements_of(certificate: Certificate) -> tuple[str, ...]:
    """The promise in sentences: what its own must be, whatever they are."""
    claim = certificate.claim
    neighbours = _NEIGHBOURS.get(claim.adjacency, "unknown")
    is_private = certificate.private or not certificate.releases
    return (
        f"What is published is ({claim.epsilon!r}, {claim.delta!r})-differentially private "
        f"for each {claim.unit}.",
        f"Neighbouring data sets ({claim.adjacency}): {neighbours}.",
        *certificate.commitment.sentences(certificate.composition, len(certificate.releases)),
        *implied_sentences(certificate.implied, claim.adjacency),
        *(() if certificate.population is None else (certificate.population.sentence(),)),
        *(() if certificate.rounds is None else (certificate.rounds.sentence,)),
        f"Noise: {certificate.noise}." + ("" if is_private else _SIMULATED),
    )


def content_of(certificate: Certificate) -> dict[str, Any]:
    """What the digest covers: all but itself."""
    return {key: value for key, value in certificate.to_dict().items() if key != "digest"}


def certify(
    events: Iterable[Event],
    *,
    commitment: Commitment,
    trust: Sequence[str],
    assumptions: Sequence[str],
    dataset: str,
    claim: Guarantee | None = None,
    board_digest: str | None = None,
    ledger_head: str | None = None,
    population: PopulationTotal | None = None,
    rounds: RoundsMade | None = None,
) -> Certificate:
    """Make the certificate of everything booked so far.

    Args:
        events: as booked, for example ``ledger.events()``. Public.
        commitment: what was fixed before them, ``ledger.commitment``: it decides what can be claimed. Public.
        trust: who could see what.
        assumptions: what the proof takes for granted.
        dataset: public description of the data.
        claim: what is promised, if it is more than ``commitment.claim()``. Public.
        board_digest: digest of the board it belongs to.
        ledger_head: ``ledger.head``.
        population: ``ledger.population_total()``.
        rounds: planned, made and lost.

    Raises:
        PrivacyError: the commitment does not support the claim, or does not allow the events.
    """
    releases = tuple(dict(event) for event in events)
    if claim is not None:
        _require([*claim_findings(claim), *release_findings(releases, claim=claim)])
    problems = commitment.problems()
    if problems:
        raise PrivacyError(f"this cannot be certified: commitment: {'; '.join(problems)}")
    claim = commitment.claim() if claim is None else claim
    numbers = commitment.numbers(claim.delta)
    noise, private = noise_of(releases)
    certificate = Certificate(
        claim=claim,
        releases=releases,
        composition=numbers.composition,
        curve=numbers.curve,
        implied=numbers.implied,
        noise=noise,
        private=private,
        trust=tuple(trust),
        assumptions=(*assumptions, *claim.warnings),
        dataset=dataset,
        software=f"fedboard {version('fedboard')}",
        board_digest=board_digest,
        ledger_head=ledger_head,
        planned=commitment.plan is not None,
        commitment=commitment,
        population=population,
        rounds=rounds,
        statements=(),
    )
    certificate = replace(certificate, statements=statements_of(certificate))
    certificate = replace(certificate, digest=digest(content_of(certificate)))
    _require(certificate.verify())
    return certificate


def _require(findings: Iterable[Finding]) -> None:
    failed = [f"{finding.check}: {finding.detail}" for finding in findings if not finding.passed]
    if failed:
        raise PrivacyError(f"this cannot be certified: {'; '.join(failed)}")
