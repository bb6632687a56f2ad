"""What an account is taken of (a plan, a ledger, a run directory, a board or a certificate), and the numbers that
``fedboard account`` prints of it.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.client.private_files import is_database
from fedboard.client.verification.evidence import read_evidence
from fedboard.common.errors import InputError
from fedboard.common.files import read_file
from fedboard.common.privacy.accounting.budget import (
    Budget,
    PlannedRelease,
    apart,
    budget_epsilon,
    planned_event,
    planned_events,
)
from fedboard.common.privacy.accounting.calibration import (
    ParticipationOf,
    mu_left,
    noise_multipliers,
    releases_left,
    round_of_release,
    sampled_plan,
)
from fedboard.common.privacy.accounting.exact import (
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    mu_for,
)
from fedboard.common.privacy.accounting.grouping import is_installed
from fedboard.common.privacy.accounting.guarantee import group_epsilon
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.commitment import Commitment, Numbers, numbers_of
from fedboard.common.privacy.events import Event, is_pure, pure_epsilon, require_sound
from fedboard.common.privacy.ledger.chain import peek
from fedboard.common.privacy.ledger.chain_rows import POPULATION, kind_of
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population

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
        place: a run directory, a ledger file, a board, a certificate, or a plan in TOML.
        adjacency: of a plan; everything else states its own.

    Raises:
        InputError: none of these.
        PrivacyError: a ledger that was tampered with, or a release that is not sound.
    """
    if place.is_dir() or is_database(place):
        return ledger_account(place)
    if place.suffix == ".toml":
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


def equal_account(
    noise_multiplier: float, releases: int, *, poisson: float | None, adjacency: Adjacency
) -> Account:
    """Take equal Gaussian releases.

    Args:
        noise_multiplier: of each.
        releases: how many; >= 1.
        poisson: where each user takes part in a release by a secret coin, its probability.
        adjacency: of all.

    Raises:
        InputError: a number out of its range.
        PrivacyError: sampled releases under another adjacency than add-remove.
    """
    if not 0 < noise_multiplier < math.inf:
        raise InputError(f"the noise multiplier must be a finite number > 0, got {noise_multiplier:g}")
    plan = planned(dict.fromkeys(release_names(releases), float(noise_multiplier)), poisson)
    return plan_account(plan, adjacency, label="this plan")


def release_names(releases: int) -> list[str]:
    """Of equal releases.

    Raises:
        InputError: there are none.
    """
    if releases < 1:
        raise InputError(f"releases must be a whole number >= 1, got {releases}")
    return [f"release-{number}" for number in range(1, releases + 1)]


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


def _read_plan(place: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(place, largest=_LARGEST_PLAN).decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a plan: {error}") from None


def epsilon_answer(account: Account, delta: float, *, group: int | None = None) -> dict[str, Any]:
    """What the releases cost together, by each way of accounting, and what follows from it.

    Args:
        account: whose booked or planned releases count.
        delta: where epsilon is stated.
        group: number of users who belong together.
    """
    numbers = account.numbers(delta)
    composed, implied = numbers.composition, numbers.implied
    answer: dict[str, Any] = {
        "what": account.label,
        "releases": len(account.fixed if account.planned else account.events),
        "adjacency": str(account.adjacency),
        "delta": delta,
        "planned": account.planned,
        "exact": composed.exact,
        "mu": composed.mu,
        "rho": composed.rho,
        "epsilon": composed.epsilon,
        "epsilon_pld": library_epsilon(account.fixed, delta) if account.planned else None,
        "epsilon_rdp": composed.epsilon_rdp,
        "epsilon_zcdp": composed.epsilon_zcdp,
        "rating_epsilon": implied.rating_epsilon,
        "pair_epsilon": implied.pair_epsilon,
    }
    if account.commitment is not None:
        answer["made"] = len(account.events)
        answer["claimed"] = "plan" if account.planned else "budget"
    if group is not None:
        answer["group"] = {"users": group, "epsilon": _of_group(account, delta, group)}
    return answer


def _of_group(account: Account, delta: float, n_users: int) -> float:
    if account.planned or account.commitment is None:
        return group_epsilon(account.fixed, delta, n_users=n_users)
    return budget_epsilon(account.commitment.budget, delta, n_users=n_users)


def library_epsilon(events: Sequence[Event], delta: float) -> float | None:
    """Epsilon by dp-accounting's loss distributions; None where it is not installed."""
    return epsilon_by_library(events, delta) if is_installed() else None


def noise_answer(
    epsilon: float, delta: float, shares: Mapping[str, float], *, poisson: float | None
) -> dict[str, Any]:
    """How much noise each release needs."""
    stated = poisson_rounds(shares, poisson)
    multipliers = noise_multipliers(epsilon, delta, shares, participation=stated)
    mu = mu_for(epsilon, delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "poisson": poisson,
        "noise_multipliers": multipliers,
        "full_participation": {
            "mu": mu,
            "noise_multiplier_of_all": 1.0 / mu,
        },
    }


def planned(multipliers: Mapping[str, float], poisson: float | None) -> dict[str, PlannedRelease]:
    """The plan that states these multipliers and that participation."""
    return sampled_plan(multipliers, poisson_rounds(multipliers, poisson))


def poisson_rounds(names: Mapping[str, float], poisson: float | None) -> ParticipationOf:
    """Which releases share a coin: those of one round of a run, by their names; another name has its own."""
    if poisson is None:
        return lambda name: None
    if not 0 < poisson < 1:
        raise InputError(
            f"poisson must be in (0, 1), got {poisson:g}; leave it out where everybody takes part"
        )

    def stated(name: str) -> dict[str, Any]:
        return {"kind": "poisson", "probability": poisson, "round": round_of_release(name)}

    return stated


def left_answer(account: Account, *, noise_multiplier: float | None) -> dict[str, Any]:
    """What a ledger has spent, what is reserved in it, and what further Gaussian releases it has room for."""
    budget = account.budget
    assert budget is not None  # every ledger has one
    committed = [*account.events, *account.reserved]
    epsilon, delta = budget.epsilon, budget.delta
    mu = mu_left(committed, epsilon, delta)
    answer: dict[str, Any] = {
        "what": account.label,
        "adjacency": str(budget.adjacency),
        "delta": delta,
        "budget": epsilon,
        "claimed": epsilon if account.commitment is None else account.commitment.epsilon_at(delta),
        "claimed_by": "plan" if account.planned else "budget",
        "releases": len(account.events),
        "spent": epsilon_of_events(account.events, delta, planned=account.planned),
        "reserved_releases": len(account.reserved),
        "committed": epsilon_of_events(committed, delta, planned=account.planned),
        "left": {
            "mu": mu,
            "smallest_noise_multiplier": 1.0 / mu if mu > 0 else None,
            "epsilon_alone": epsilon_of(delta, mu=mu),
            "pure_epsilon": _pure_epsilon_left(committed, epsilon),
        },
    }
    if noise_multiplier is not None:
        answer["left"]["noise_multiplier"] = noise_multiplier
        answer["left"]["releases"] = releases_left(
            committed, epsilon, delta, noise_multiplier=noise_multiplier
        )
    return answer


def _pure_epsilon_left(events: Sequence[Event], epsilon: float) -> float | None:
    """What further releases of delta 0 may cost together; None beside others, where epsilons do not just add up."""
    if not all(is_pure(event) for event in events):
        return None
    return max(epsilon - math.fsum(pure_epsilon(event) for event in events), 0.0)
