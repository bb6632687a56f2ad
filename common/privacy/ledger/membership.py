"""How a run takes its place in a population's account, and its own ledger is held against the account."""

from collections.abc import Iterable
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.events import Event, canonical_json
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.population import Population


def missing_from(population: Population, run: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """What the account holds of a run and these events lack; a crash between two bookings leaves that.

    Args:
        population: the account.
        run: id of the run's ledger.
        events: what that ledger holds.

    Raises:
        PrivacyError: the account lacks one of these events, or holds another one under its name.
    """
    held = next((m.booked for m in population.members() if m.run == run), {})
    own = {str(event["name"]): canonical_json(event) for event in events}
    for name, text in own.items():
        if name not in held or canonical_json(held[name]) != text:
            raise PrivacyError(
                f"the population's account does not hold release {name!r} of this run as it was booked; the "
                "account was lost or replaced, so nothing more can be released. Restore it"
            )
    return [dict(event) for name, event in held.items() if name not in own]


def take_place(chain: ChainFile, population: Population | None) -> None:
    """Let a run join the account that the header of its ledger names, if it has not; nothing where it names none.

    Raises:
        BudgetExceededError: the run's plan does not fit.
        InputError: the population has not the lineage that the run continues.
        PrivacyError: the population is missing or another one, or lacks something that the run booked.
        StorageError: the account cannot be written.
    """
    bound = chain.header.get("population")
    if bound is None and population is None:
        return
    if bound is None or population is None or bound["id"] != population.id:
        raise PrivacyError(
            f"{chain.path}: this ledger books in "
            f"{'no population' if bound is None else 'the population ' + str(bound['id'])}, "
            f"{'none' if population is None else population.id} was given; they must be the same"
        )
    missing_from(
        population, chain.id, (row.record for row in chain.rows())
    )  # refuse before the run joins anew
    plan, name = chain.header["plan"], chain.header["run"]
    reserve = Budget(**chain.header["budget"]) if bound.get("reserved") else None
    population.join(chain.id, name=name, plan=plan, lineage=bound["lineage"], reserve=reserve)
