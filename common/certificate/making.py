"""Making a certificate of what is booked; nothing is certified that its own checks would not pass."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version

from fedboard.common.certificate.record import (
    Certificate,
    content_of,
    noise_of,
    statements_of,
)
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.guarantee import Finding, Guarantee
from fedboard.common.privacy.claim_checks import claim_findings, release_findings
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import Event, digest
from fedboard.common.privacy.ledger.population_total import PopulationTotal
from fedboard.common.rounds_made import RoundsMade


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
