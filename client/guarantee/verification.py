"""Checking a certificate against itself, the board that carries it and the ledger that paid for it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.ledger_checks import account_findings, commitment_finding
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.budget import Plan
from fedboard.common.privacy.ledger.ledger import Ledger


def verify_evidence(evidence: Evidence) -> list[Finding]:
    """All checks that the evidence allows; the promise stands if every one passed.

    Not guaranteed: that nothing else was published, or that the code ran as stated.
    """
    findings = evidence.certificate.verify(plan=_plan_of(evidence))
    if evidence.board is not None:
        findings += _board_findings(evidence.certificate, evidence.board)
    if len(evidence.boards) > 1:
        findings.append(_chain_finding(evidence.boards))
    if evidence.run and evidence.ledger is None:
        missing = "the run's ledger is not there, so nothing shows that these releases are all that was made"
        findings.append(Finding(check="ledger", passed=False, detail=missing))
    if evidence.ledger is not None:
        findings += _ledger_findings(evidence, evidence.ledger)
    return findings


def _plan_of(evidence: Evidence) -> Plan | None:
    """The plan that the ledger of a run shows; None where nothing does."""
    if evidence.ledger is None:
        return None
    try:
        with Ledger.open(evidence.ledger, read_only=True) as ledger:
            return ledger.plan
    except FedboardError:
        return None


def _board_findings(certificate: Certificate, board: Board) -> list[Finding]:
    same = board.digest == certificate.board_digest
    detail = f"the certificate is for the board {certificate.board_digest}, this board is {board.digest}"
    carried = board.certificate is not None and board.certificate.get("digest") == certificate.digest
    return [
        Finding(check="board digest", passed=same, detail=detail),
        Finding(
            check="carried certificate", passed=carried, detail="the board must carry this very certificate"
        ),
    ]


def _chain_finding(paths: tuple[Path, ...]) -> Finding:
    boards = [Board.load(path) for path in paths]
    broken = [
        path.name
        for path, (older, newer) in zip(paths[1:], pairwise(boards), strict=True)
        if newer.previous_digest != older.digest or not _continues(_releases(older), _releases(newer))
    ]
    detail = (
        f"does not follow from the board before it: {', '.join(broken)}"
        if broken
        else "each follows the last"
    )
    return Finding(check="chain of boards", passed=not broken, detail=detail)


def _releases(board: Board) -> list[Any]:
    return list((board.certificate or {}).get("releases", ()))


def _continues(older: list[Any], newer: list[Any]) -> bool:
    """Whether a later board's certificate still lists everything that was paid before."""
    return newer[: len(older)] == older


def _ledger_findings(evidence: Evidence, path: Path) -> list[Finding]:
    certificate = evidence.certificate
    try:
        with Ledger.open(path, read_only=True) as ledger:
            ledger.verify(published_head=certificate.ledger_head)
            events, spent, budget, run = ledger.events(), ledger.spent(), ledger.budget, ledger.id
            unplanned = certificate.planned and ledger.plan is None
            committed = commitment_finding(certificate, ledger)
    except FedboardError as error:
        return [Finding(check="ledger", passed=False, detail=str(error))]
    certified = list(certificate.releases)
    # A round that is under way is booked before its board is there; what is published must be paid for.
    booked = events if evidence.finished else events[: len(certified)]
    releases = f"the ledger booked {len(events)} releases, the certificate lists {len(certified)}"
    releases += "; it states a plan, and the ledger has none" if unplanned else ""
    cost = f"spent epsilon {spent.epsilon:.6g} of {budget.epsilon:.6g} at delta {budget.delta:g}"
    findings = [
        Finding(check="ledger", passed=True, detail="its chain is whole and holds the published head"),
        committed,
        Finding(check="booked releases", passed=booked == certified and not unplanned, detail=releases),
        Finding(check="budget", passed=spent.epsilon <= budget.epsilon * (1 + 1e-9), detail=cost),
    ]
    if evidence.population is not None and certificate.population is not None:
        findings += account_findings(evidence.population, run, events, [certificate])
    return findings
