"""Checking what was promised: a certificate against itself, the boards that carry it and the ledger that paid for
it; or a ledger alone, of a run, a device or a population.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedboard.client.boards.mirror_check import check_source, protection_of_source
from fedboard.client.boards.seen import continues_ledger
from fedboard.client.boards.sources import open_source
from fedboard.client.private_files import is_database
from fedboard.client.verification.evidence import Evidence, Verification, read_evidence
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import FedboardError, InputError, PrivacyError, StorageError
from fedboard.common.privacy.accounting.budget import Budget, Plan, planned_events, require_planned
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, canonical_json
from fedboard.common.privacy.ledger.chain import peek
from fedboard.common.privacy.ledger.chain_rows import POPULATION, kind_of
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population, missing_from
from fedboard.common.privacy.releases.noise import Protection, protection_of

LIMITS = (
    "Rows cut off at the end show only against a published head (in a board's certificate, or given by --head).",
    "An owner who rewrites the whole file and every head that was ever published cannot be caught.",
    "A ledger shows what was booked; that nothing else was published is up to who runs the server.",
)
"""What no check of a ledger can show."""
OF_LEDGER = ("ledger", "published head", "published releases", "booked releases")
"""Checks that say whether what was published is what was booked."""
_Checked = tuple[list[Finding], dict[str, Any], Protection, Plan | None]
"""Findings about a ledger, facts of it, what all that is booked says of the noise, and the plan that it shows."""


def verify_place(target: Path, heads: Sequence[str] = ()) -> Verification:
    """Check what is at a place: a run directory, a board, a certificate, or any ledger.

    Args:
        target: the place.
        heads: hashes of a ledger that were published, beside those in certificates.

    Raises:
        InputError: nothing of the kind is there, or heads are given where there is no ledger.
        StorageError: a ledger cannot be read.
    """
    if target.is_file() and is_database(target):
        return _verify_ledger(target, heads)
    return verify_evidence(read_evidence(target), heads)


def verify_mirror(
    place: str, key: PinnedKey, *, authority: Path | None = None, max_bytes: int
) -> Verification:
    """Check all that a source of boards offers: signatures, cosignatures, the chain, every byte of every file.

    Args:
        place: an address, or a mirror's folder.
        key: who signs, and who must have cosigned.
        authority: PEM file of the authority that vouches for it; None: the system's.
        max_bytes: largest board taken; a larger one could not be looked at.

    Raises:
        FeedRefusedError: there is no newest manifest that enough keys signed, or a root does not follow.
    """
    with closing(open_source(place, authority=authority)) as source:
        found = list(check_source(source, key, max_bytes=max_bytes))
    findings = []
    for one in found:
        told = "could not be looked at: " if one.passed is None else ""
        findings.append(_finding(one.check, told + one.detail, passed=one.passed is True))
    return Verification(findings=tuple(findings), protection=protection_of_source(found), what=place)


def verify_evidence(evidence: Evidence, heads: Sequence[str] = ()) -> Verification:
    """All checks that the evidence allows; the promise stands if every one passed.

    Not guaranteed: that nothing else was published, or that the code ran as stated.

    Raises:
        InputError: heads are given, and no ledger is there.
    """
    certificate, path = evidence.certificate, evidence.ledger
    if heads and path is None:
        raise InputError(
            "no ledger is there, so no head is looked for; give a run directory or a ledger's file"
        )
    carried: list[Certificate] = []
    of_boards = [] if evidence.board is None else _board_findings(certificate, evidence.board)
    if len(evidence.boards) > 1:
        boards = [Board.load(place) for place in evidence.boards]
        of_boards.append(_chain_finding(evidence.boards, boards))
        carried = [
            Certificate.from_dict(dict(board.certificate)) for board in boards[:-1] if board.certificate
        ]
    own, facts, plan = list[Finding](), None, None
    if path is not None:
        try:
            own, facts, _, plan = _run_findings(path, heads, (*carried, certificate), evidence.population)
        except FedboardError as error:
            own = [_finding("ledger", str(error), passed=False)]
        if facts is not None and evidence.finished:
            own.append(_all_booked(facts["rows"], certificate))
    elif evidence.run:
        missing = "the run's ledger is not there, so nothing shows that these releases are all that was made"
        own = [_finding("ledger", missing, passed=False)]
    findings = [*certificate.verify(plan=plan), *of_boards, *own]
    what = "certificate, board and ledger" if path else "certificate and board"
    unseen = certificate.population is not None and evidence.population is None
    return Verification(
        findings=tuple(findings),
        protection=protection_of(certificate.releases),
        what=what if evidence.board else "the certificate (no board given, so its digest was not checked)",
        ledger=facts,
        notes=("The account of its population is not here, so its total was not recomputed.",)
        if unseen
        else (),
    )


def require_holds(evidence: Evidence, otherwise: str) -> None:
    """Verify, and go on only if every check passes.

    Args:
        evidence: what is there of the run.
        otherwise: what is not done then, as a sentence begins.

    Raises:
        FedboardError: a check fails.
        InputError: nothing was released yet.
        PrivacyError: the noise is a simulation's: nobody was protected, so there is nothing to promise.
    """
    verdict = verify_evidence(evidence)
    if verdict.failed:
        first, how_many = verdict.failed[0], f"{len(verdict.failed)} of {len(verdict.findings)}"
        raise FedboardError(
            f"{otherwise}: {how_many} checks failed, the first {first.check}: {first.detail}; see "
            "`fedboard certificate verify`"
        )
    if not evidence.certificate.releases:
        raise InputError(f"{otherwise}: nothing was released yet, so there is nothing to promise")
    if verdict.revealed:
        raise PrivacyError(
            f"{otherwise} of a simulation: its noise can be reproduced from a seed, so nobody was protected; run "
            'it with secure noise (privacy.noise = "secure")'
        )


def _board_findings(certificate: Certificate, board: Board) -> list[Finding]:
    same = board.digest == certificate.board_digest
    detail = f"the certificate is for the board {certificate.board_digest}, this board is {board.digest}"
    carried = board.certificate is not None and board.certificate.get("digest") == certificate.digest
    return [
        _finding("board digest", detail, passed=same),
        _finding("carried certificate", "the board must carry this very certificate", passed=carried),
    ]


def _chain_finding(paths: Sequence[Path], boards: Sequence[Board]) -> Finding:
    broken = [
        path.name
        for path, (older, newer) in zip(paths[1:], pairwise(boards), strict=True)
        if newer.previous_digest != older.digest or not continues_ledger(newer, older)
    ]
    detail = (
        f"does not follow from the board before it: {', '.join(broken)}"
        if broken
        else "each follows the last"
    )
    return _finding("chain of boards", detail, passed=not broken)


def _all_booked(booked: int, certificate: Certificate) -> Finding:
    """A run that is over certifies everything that its ledger booked."""
    certified = len(certificate.releases)
    detail = f"the ledger booked {booked} releases, the certificate lists {certified}"
    return _finding("booked releases", detail, passed=booked == certified)


def _verify_ledger(path: Path, heads: Sequence[str]) -> Verification:
    population = kind_of(peek(path)) == POPULATION
    verdict = Verification(findings=(), protection=Protection.UNSTATED, what=str(path), certified=False)
    try:
        check = _population_findings if population else _run_findings
        findings, facts, protection, _ = check(path, heads)
    except PrivacyError as error:
        return replace(verdict, findings=(_finding("ledger", str(error), passed=False),))
    unseen = not population and facts["population"] is not None
    notes = (
        ("It books in a population whose account is not here: the two were not compared.",) if unseen else ()
    )
    return replace(verdict, findings=tuple(findings), protection=protection, ledger=facts, notes=notes)


def _run_findings(
    path: Path,
    heads: Sequence[str],
    certificates: Sequence[Certificate] = (),
    account: Path | None = None,
) -> _Checked:
    """The chain, budget and plan of a run's or a device's ledger, and whether certificates state what it booked."""
    with Ledger.open(path, read_only=True) as ledger:
        events, budget, rows = ledger.events(), ledger.budget, ledger.rows()
        findings = [_rows_finding(len(rows), ledger.head)]
        findings += [_head_finding(ledger.verify, head) for head in heads]
        findings += [_release_finding(held, ledger) for held in certificates]
        findings += [_commitment_finding(held, ledger) for held in certificates]
        spent = ledger.spent().epsilon
        findings.append(_budget_finding(budget, spent, what="spent"))
        if ledger.plan is not None:
            planned = epsilon_of_events(planned_events(ledger.plan, budget.adjacency), budget.delta)
            findings += [_budget_finding(budget, planned, what="planned"), _plan_finding(ledger)]
        bound = ledger.header.get("population")
        if bound is not None and account is not None:
            findings += _account_findings(account, ledger.id, events, certificates)
        facts = {
            **_facts("run", len(rows), ledger.head, budget, spent),
            "population": None if bound is None else bound["id"],
        }
        plan = ledger.plan
    return findings, facts, protection_of(events), plan


def _population_findings(path: Path, heads: Sequence[str]) -> _Checked:
    with Population.open(path, read_only=True) as population:
        members, budget = population.members(), population.budget
        findings = [_rows_finding(len(population.rows()), population.head)]
        findings += [_head_finding(population.verify, head) for head in heads]
        spent, committed = population.cost(reserved=False), population.cost(reserved=True)
        findings.append(_budget_finding(budget, committed, what="booked or reserved"))
        limit = population.lineage_epsilon
        for lineage in dict.fromkeys(member.lineage for member in members) if limit is not None else ():
            own = Budget(epsilon=limit or 0, delta=budget.delta, adjacency=budget.adjacency)
            cost = population.cost(reserved=True, lineage=lineage)
            findings.append(_budget_finding(own, cost, what=f"booked or reserved by lineage {lineage}"))
        facts = {
            **_facts(POPULATION, len(population.rows()), population.head, budget, spent),
            "committed_epsilon": committed,
            "runs": len(members),
        }
    booked = [event for member in members for event in member.booked.values()]
    return findings, facts, protection_of(booked), None


def _facts(kind: str, n_rows: int, head: str, budget: Budget, spent: float) -> dict[str, Any]:
    return {
        "kind": kind,
        "rows": n_rows,
        "head": head,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": str(budget.adjacency)},
        "spent_epsilon": spent,
    }


def _finding(check: str, detail: str, *, passed: bool = True) -> Finding:
    return Finding(check=check, passed=passed, detail=detail)


def _rows_finding(n_rows: int, head: str) -> Finding:
    return _finding("ledger", f"{n_rows} rows follow from the header and each other; head {head}")


def _head_finding(verify: Callable[..., None], head: str) -> Finding:
    try:
        verify(published_head=head)
    except PrivacyError as error:
        return _finding("published head", f"{head}: {error}", passed=False)
    return _finding("published head", f"{head} is in the chain")


def _release_finding(certificate: Certificate, ledger: Ledger) -> Finding:
    """What a board states must be what the ledger held when its head was the one that the board names."""
    head, certified = certificate.ledger_head, list(certificate.releases)
    booked = ledger.events()[: len(certified)] if head is None else ledger.events_at(head)
    name = f"board {str(certificate.board_digest)[:8]}"
    if booked is None:
        return _finding(
            "published head", f"{name}: its head {head} is not in the chain: rows were cut off", passed=False
        )
    detail = f"{name}: {len(certified)} releases certified, {len(booked)} booked when it was published"
    unplanned = certificate.planned and ledger.plan is None
    detail += "; it states a plan, and the ledger has none" if unplanned else ""
    return _finding("published releases", detail, passed=booked == certified and not unplanned)


def _budget_finding(budget: Budget, cost: float, *, what: str) -> Finding:
    detail = f"{what} epsilon {cost:.6g} of {budget.epsilon:.6g} at delta {budget.delta:g}"
    return _finding("budget", detail, passed=cost <= budget.epsilon * (1 + RELATIVE_TOLERANCE))


def _plan_finding(ledger: Ledger) -> Finding:
    try:
        for event in ledger.events():
            require_planned(event, ledger.plan)
    except PrivacyError as error:
        return _finding("plan", str(error), passed=False)
    return _finding("plan", "every release was planned, with no less noise than planned")


def _account_findings(
    path: Path, run: str, events: Sequence[Any], certificates: Iterable[Certificate]
) -> list[Finding]:
    """Hold a run against its population's account.

    Args:
        path: the account.
        run: id of the run's ledger.
        events: what the run booked.
        certificates: whose totals are recomputed.
    """
    findings: list[Finding] = []
    try:
        with Population.open(path, read_only=True) as population:
            missing = missing_from(population, run, events)
            detail = f"all {len(events)} releases are in the account {population.id}"
            if missing:
                detail += (
                    f"; {len(missing)} more were booked there before a crash, the run catches up on --resume"
                )
            findings.append(_finding("population's account", detail))
            for total in (held.population for held in certificates if held.population is not None):
                again = population.total(run, head=total.head)
                detail = f"stated {total.sentence()!r}, recomputed {again.sentence()!r}"
                findings.append(_finding("population's total", detail, passed=again.agrees_with(total)))
    except (InputError, PrivacyError, StorageError) as error:
        findings.append(_finding("population's account", str(error), passed=False))
    return findings


def _commitment_finding(certificate: Certificate, ledger: Ledger) -> Finding:
    """Whether a certificate claims what its ledger was made with: its plan, or its budget."""
    held, own = certificate.commitment, ledger.commitment
    same = canonical_json(asdict(held)) == canonical_json(asdict(own))
    stated = "its plan" if own.plan is not None else "its budget and no plan"
    detail = f"the ledger was made with {stated}, epsilon {own.epsilon:.6g} at delta {own.delta:g}"
    return _finding(
        "commitment", detail + ("" if same else "; the certificate states other terms"), passed=same
    )
