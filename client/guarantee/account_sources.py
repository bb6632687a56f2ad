"""What an account is taken of: a plan, a ledger, a run directory, a board or a certificate."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.client.guarantee.evidence import read_evidence
from fedboard.common.errors import InputError
from fedboard.common.files import open_file, read_file
from fedboard.common.privacy.accounting.budget import Budget, apart, planned_event, planned_events
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.commitment import Commitment, Numbers, numbers_of
from fedboard.common.privacy.events import Event, require_sound
from fedboard.common.privacy.ledger.chain import peek
from fedboard.common.privacy.ledger.chain_rows import POPULATION, kind_of
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population

_SQLITE = b"SQLite format 3\x00"
_LAPLACE = "laplace"
_LARGEST_MULTIPLIER = 1e100
"""Beyond it, what follows from it is no number any more."""
_LARGEST_PLAN = 1 << 18
"""Bytes; a plan of a thousand rounds has a fifth of it, and of much more a parser makes long work."""
_ENTRY = frozenset({"noise_multiplier", "participation", "mechanism"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Releases and, of a ledger, the budget they count against."""

    label: str
    """What it is, for people."""
    adjacency: Adjacency
    events: list[Event]
    """Booked, published or planned; rounds of different runs named apart."""
    reserved: list[Event] = field(default_factory=list)
    """Planned in a ledger and not booked yet."""
    budget: Budget | None = None
    """Of a ledger."""
    delta: float | None = None
    """Where it states its epsilon; None for a plan."""
    commitment: Commitment | None = None
    """What was fixed before the first release, of a ledger or a certificate; None: all events were."""

    @property
    def planned(self) -> bool:
        """Whether all releases were fixed before the first."""
        return self.commitment is None or self.commitment.plan is not None

    @property
    def fixed(self) -> list[Event]:
        """The releases that were fixed before the first, made or not; none where there was no plan."""
        if self.commitment is None:
            return self.events
        return list(planned_events(self.commitment.plan or {}, self.adjacency))

    def numbers(self, delta: float) -> Numbers:
        """What is promised, by each way of accounting: of the whole plan, or of the budget."""
        return numbers_of(self.events, delta) if self.commitment is None else self.commitment.numbers(delta)


def read_account(place: Path, adjacency: Adjacency) -> Account:
    """Read whatever is there.

    Args:
        place: a run directory, a ledger file, a board, a certificate, or a plan in TOML or JSON.
        adjacency: of a plan; everything else states its own.

    Raises:
        InputError: none of these.
        PrivacyError: a ledger that was tampered with, or a release that is not sound.
    """
    if place.is_dir() or _starts_with(place, _SQLITE):
        return ledger_account(place)
    if place.suffix == ".toml" or _is_json_plan(place):
        return plan_account(_read_plan(place), adjacency, label=f"the plan {place}")
    certificate = read_evidence(place).certificate
    return Account(
        label=f"the certificate in {place}",
        adjacency=parse_adjacency(certificate.claim.adjacency),
        events=list(certificate.releases),
        delta=certificate.claim.delta,
        commitment=certificate.commitment,
    )


def ledger_account(place: Path) -> Account:
    """Read the ledger of a run, a device or a population.

    Raises:
        InputError: there is none.
        PrivacyError: it was tampered with.
    """
    path = place / "ledger.sqlite" if place.is_dir() else place
    if kind_of(peek(path)) == POPULATION:
        with Population.open(path, read_only=True) as population:
            budget, members = population.budget, population.members()
        booked = [event for member in members for event in member.spent()]
        reserved = [e for m in members for e in m.committed(budget.adjacency)[len(m.spent()) :]]
        commitment = Commitment.of(budget)
    else:
        with Ledger.open(path, read_only=True) as ledger:
            budget, run, plan = ledger.budget, ledger.run, ledger.plan or {}
            rows, commitment = ledger.rows(), ledger.commitment
        booked = [event for row in rows for event in apart([row.record], row.run)]
        names = {row.name for row in rows if row.run == run}
        missing = {name: entry for name, entry in plan.items() if name not in names}
        reserved = apart([planned_event(n, p, budget.adjacency) for n, p in missing.items()], run)
    return Account(
        label=f"the ledger {path}",
        adjacency=budget.adjacency,
        events=booked,
        reserved=reserved,
        budget=budget,
        delta=budget.delta,
        commitment=commitment,
    )


def plan_account(plan: Mapping[str, Any], adjacency: Adjacency, *, label: str) -> Account:
    """Take a plan: release name -> noise multiplier, or a table with noise_multiplier, participation, mechanism.

    A table without noise_multiplier holds the releases of a round: ``[round-1] linear = 8`` is ``round-1/linear``.

    Raises:
        InputError: an entry is neither.
        PrivacyError: a release is not sound.
    """
    events = [_event(name, entry, adjacency) for name, entry in _entries(plan)]
    for event in events:
        require_sound(event)
    return Account(label=label, adjacency=adjacency, events=events)


def _entries(plan: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    for name, entry in plan.items():
        if isinstance(entry, Mapping) and "noise_multiplier" not in entry:
            yield from _entries(entry, f"{under}{name}/")
        else:
            yield f"{under}{name}", entry


def _event(name: str, entry: Any, adjacency: Adjacency) -> Event:
    terms = entry if isinstance(entry, Mapping) else {"noise_multiplier": entry}
    multiplier, unknown = terms["noise_multiplier"], sorted(set(terms) - _ENTRY)
    number = isinstance(multiplier, int | float) and not isinstance(multiplier, bool)
    if not number or abs(multiplier) > _LARGEST_MULTIPLIER or unknown:
        problem = f"unknown {', '.join(unknown)}" if unknown else f"noise multiplier {multiplier!r}"
        raise InputError(
            f"release {name!r} of the plan must be a noise multiplier, or a table with noise_multiplier and, if "
            f"needed, mechanism and participation; got {problem}"
        )
    mechanism = terms.get("mechanism", "gaussian")
    participation = terms.get("participation")
    if mechanism != _LAPLACE:
        planned = {"noise_multiplier": float(multiplier), "participation": participation}
        return {**planned_event(name, planned, adjacency), "mechanism": mechanism}
    event = {
        "mechanism": _LAPLACE,
        "name": name,
        "covers": "planned",
        "adjacency": str(adjacency),
        "noise_multiplier": float(multiplier),
        "l1_sensitivity": 1.0,
        "noise_scale": float(multiplier),
    }
    return event if participation is None else {**event, "participation": participation}


def _starts_with(place: Path, magic: bytes) -> bool:
    try:
        with open_file(place, largest=None) as stream:
            return stream.read(len(magic)) == magic
    except OSError as error:
        raise InputError(f"{place}: nothing can be read there ({error.strerror})") from error


def _is_json_plan(place: Path) -> bool:
    """A JSON object that is not a certificate."""
    if place.suffix != ".json":
        return False
    plain = _read_plan(place)
    return not {"claim", "releases"} <= set(plain)


def _read_plan(place: Path) -> dict[str, Any]:
    text = read_file(place, largest=_LARGEST_PLAN)
    try:
        plain = json.loads(text) if place.suffix == ".json" else tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a plan: {error}") from None
    if not isinstance(plain, dict):
        raise InputError(f"{place}: a plan maps release names to noise multipliers")
    return plain
