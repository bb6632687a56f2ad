"""The place of one run in a population's account, and how the run's own ledger is held against it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.events import Event, canonical_json
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.population import Population, PopulationTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The place of one run in a population's account."""

    population: Population
    run: str

    def book(self, events: Sequence[Event]) -> None:
        """Write releases; see ``Population.book``."""
        self.population.book(self.run, events)

    def total(self) -> PopulationTotal:
        """What everything costs by now."""
        return self.population.total(self.run)

    def give_back(self) -> None:
        """Close the run."""
        self.population.give_back(self.run)

    def missing_from(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """What the account holds of this run and these events lack; a crash between two bookings leaves that.

        Raises:
            PrivacyError: the account lacks one of these events, or holds another one under its name.
        """
        held = next((m.booked for m in self.population.members() if m.run == self.run), {})
        own = {str(event["name"]): canonical_json(event) for event in events}
        for name, text in own.items():
            if name not in held or canonical_json(held[name]) != text:
                raise PrivacyError(
                    f"the population's account does not hold release {name!r} of this run as it was booked; the "
                    "account was lost or replaced, so nothing more can be released. Restore it"
                )
        return [dict(event) for name, event in held.items() if name not in own]


def take_seat(chain: ChainFile, population: Population | None) -> Seat | None:
    """The place that the header of a run's ledger names, None where it names none; the run joins if it has not.

    Raises:
        BudgetExceededError: the run's plan does not fit.
        InputError: the population has not the lineage that the run continues.
        PrivacyError: the population is missing or another one, or lacks something that the run booked.
        StorageError: the account cannot be written.
    """
    bound = chain.header.get("population")
    if bound is None and population is None:
        return None
    if bound is None or population is None or bound["id"] != population.id:
        raise PrivacyError(
            f"{chain.path}: this ledger books in "
            f"{'no population' if bound is None else 'the population ' + str(bound['id'])}, "
            f"{'none' if population is None else population.id} was given; they must be the same"
        )
    seat = Seat(population=population, run=chain.id)
    seat.missing_from(row.record for row in chain.rows())  # refuse before the run joins anew
    plan, name = chain.header["plan"], chain.header["run"]
    reserve = Budget(**chain.header["budget"]) if bound.get("reserved") else None
    population.join(chain.id, name=name, plan=plan, lineage=bound["lineage"], reserve=reserve)
    return seat
