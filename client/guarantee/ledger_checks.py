"""Checking the ledger of a run, a device or a population: its chain, its budget, and what was published from it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedboard.client.guarantee.evidence import population_of
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import InputError, PrivacyError, StorageError
from fedboard.common.privacy.accounting.budget import Budget, planned_events, require_planned
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, canonical_json
from fedboard.common.privacy.ledger.chain import peek
from fedboard.common.privacy.ledger.chain_rows import POPULATION, kind_of
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.membership import Seat
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import Protection, protection_of

LIMITS = (
    "Rows cut off at the end show only against a published head (in a board's certificate, or given by --head).",
    "An owner who rewrites the whole file and every head that was ever published cannot be caught.",
    "A ledger shows what was booked; that nothing else was published is up to who runs the server.",
)
"""What no check of a ledger can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A ledger and what was published from it."""

    ledger: Path
    kind: str
    certificates: tuple[Certificate, ...] = ()
    """Of a run directory: those of its boards, oldest first, and its own."""
    population: Path | None = None
    """The account that the run books in, where it can be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was checked."""

    subject: Subject
    findings: tuple[Finding, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """Rows, head, budget and cost, JSON-able; empty where the ledger cannot be read."""
    protection: Protection = Protection.UNSTATED
    """What the noise of everything that is booked is; an account's, that of all its runs."""

    @property
    def failed(self) -> list[Finding]:
        """What did not pass."""
        return [finding for finding in self.findings if not finding.passed]


def find_subject(target: Path) -> Subject:
    """The ledger at a place: a run directory or a file.

    Raises:
        InputError: there is none.
    """
    if not target.is_dir():
        return Subject(ledger=target, kind=kind_of(peek(target)))
    ledger = target / "ledger.sqlite"
    if not ledger.exists():
        raise InputError(f"{target}: no ledger.sqlite there; give a run directory or a ledger file")
    paths = sorted((target / "boards").glob("board-*.board"), key=lambda path: path.name)
    carried = [Board.load(path).certificate for path in paths]
    certificates = [Certificate.from_dict(dict(plain)) for plain in carried if plain is not None]
    own = target / "certificate.json"
    if own.exists():
        certificates.append(Certificate.from_json(own.read_bytes()))
    return Subject(
        ledger=ledger,
        kind=kind_of(peek(ledger)),
        certificates=tuple(certificates),
        population=population_of(target),
    )


def verify_ledger(subject: Subject, heads: Sequence[str]) -> Verdict:
    """Check a ledger.

    Args:
        subject: what to check.
        heads: hashes that were published, beside those in the certificates.

    Raises:
        InputError: it is not a ledger.
        StorageError: it cannot be read.
    """
    check = _verify_population if subject.kind == POPULATION else _verify_run
    try:
        return check(subject, heads)
    except PrivacyError as error:
        return Verdict(subject=subject, findings=(_finding("chain", str(error), passed=False),))


def account_findings(
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
            missing = Seat(population=population, run=run).missing_from(events)
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


def commitment_finding(certificate: Certificate, ledger: Ledger) -> Finding:
    """Whether a certificate claims what its ledger was made with: its plan, or its budget."""
    held, own = certificate.commitment, ledger.commitment
    same = canonical_json(asdict(held)) == canonical_json(asdict(own))
    stated = "its plan" if own.plan is not None else "its budget and no plan"
    detail = f"the ledger was made with {stated}, epsilon {own.epsilon:.6g} at delta {own.delta:g}"
    return _finding(
        "commitment", detail + ("" if same else "; the certificate states other terms"), passed=same
    )


def _verify_run(subject: Subject, heads: Sequence[str]) -> Verdict:
    with Ledger.open(subject.ledger, read_only=True) as ledger:
        events, budget, rows = ledger.events(), ledger.budget, ledger.rows()
        findings = [_chain_finding(len(rows), ledger.head)]
        findings += [_head_finding(ledger.verify, head) for head in heads]
        findings += [_release_finding(held, ledger) for held in subject.certificates]
        findings += [commitment_finding(held, ledger) for held in subject.certificates]
        spent = ledger.spent().epsilon
        findings.append(_budget_finding(budget, spent, what="spent"))
        if ledger.plan is not None:
            planned = epsilon_of_events(planned_events(ledger.plan, budget.adjacency), budget.delta)
            findings += [_budget_finding(budget, planned, what="planned"), _plan_finding(ledger)]
        bound = ledger.header.get("population")
        if bound is not None and subject.population is not None:
            findings += account_findings(subject.population, ledger.id, events, subject.certificates)
        facts = {
            **_facts(len(rows), ledger.head, budget, spent),
            "population": None if bound is None else bound["id"],
        }
    return Verdict(subject=subject, findings=tuple(findings), facts=facts, protection=protection_of(events))


def _verify_population(subject: Subject, heads: Sequence[str]) -> Verdict:
    with Population.open(subject.ledger, read_only=True) as population:
        members, budget = population.members(), population.budget
        findings = [_chain_finding(len(population.rows()), population.head)]
        findings += [_head_finding(population.verify, head) for head in heads]
        spent, committed = population.cost(reserved=False), population.cost(reserved=True)
        findings.append(_budget_finding(budget, committed, what="booked or reserved"))
        limit = population.lineage_epsilon
        for lineage in dict.fromkeys(member.lineage for member in members) if limit is not None else ():
            own = Budget(epsilon=limit or 0, delta=budget.delta, adjacency=budget.adjacency)
            cost = population.cost(reserved=True, lineage=lineage)
            findings.append(_budget_finding(own, cost, what=f"booked or reserved by lineage {lineage}"))
        facts = {
            **_facts(len(population.rows()), population.head, budget, spent),
            "committed_epsilon": committed,
            "runs": len(members),
        }
    booked = [event for member in members for event in member.booked.values()]
    return Verdict(subject=subject, findings=tuple(findings), facts=facts, protection=protection_of(booked))


def _facts(n_rows: int, head: str, budget: Budget, spent: float) -> dict[str, Any]:
    return {
        "rows": n_rows,
        "head": head,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": str(budget.adjacency)},
        "spent_epsilon": spent,
    }


def _finding(check: str, detail: str, *, passed: bool = True) -> Finding:
    return Finding(check=check, passed=passed, detail=detail)


def _chain_finding(n_rows: int, head: str) -> Finding:
    return _finding("chain", f"{n_rows} rows follow from the header and each other; head {head}")


def _head_finding(verify: Callable[..., None], head: str) -> Finding:
    try:
        verify(published_head=head)
    except PrivacyError as error:
        return _finding("published head", f"{head}: {error}", passed=False)
    return _finding("published head", f"{head} is in the chain")


def _release_finding(certificate: Certificate, ledger: Ledger) -> Finding:
    """What a board states must be what the ledger held when its head was the one that the board names."""
    head = certificate.ledger_head or ""
    booked = ledger.events_at(head)
    certified = list(certificate.releases)
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
