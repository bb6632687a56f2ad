"""The last point before a number leaves for a tracker: it is booked, as the ledger shows, or labelled."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of_events, epsilon_when_adaptive
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.operating.tracking.numbers import Number, Standing

_TOLERANCE = 1e-9
_LEFT, _SPENT, _ALONE, _NOISE = "epsilon_left", "epsilon_spent", "release_epsilon/", "noise_multiplier/"


class Gate:
    """Holds numbers against a ledger.

    Guarantee: what it lets through as booked is what the ledger's own events give, recomputed here, whatever a log
    says; all else has the word simulation in its name, and the run is one.
    """

    def __init__(self, ledger: Path, *, simulation: bool) -> None:
        """Use a ledger that may not be there yet.

        Args:
            ledger: of the run.
            simulation: whether the run is one, so that it has numbers that are labelled.
        """
        self._ledger, self._simulation = ledger, simulation
        self._events: dict[str, dict[str, Any]] = {}
        self._delta = self._limit = 0.0

    def read(self) -> None:
        """Read the ledger as it is now.

        Raises:
            FedboardError: it cannot be read.
        """
        with Ledger.open(self._ledger, read_only=True) as ledger:
            self._events = {str(event["name"]): event for event in ledger.events()}
            self._delta, self._limit = ledger.budget.delta, ledger.budget.epsilon

    def require(self, number: Number) -> None:
        """Refuse a number that is neither booked nor labelled as a simulation's.

        Raises:
            PrivacyError: it is neither; says which number, and not its value.
        """
        if not math.isfinite(number.value):
            raise PrivacyError(f"{number.name} at round {number.step} is not tracked: it is no finite number")
        if number.standing is Standing.SIMULATION and self._simulation:
            return
        if number.standing is Standing.BOOKED and self._is_booked(number):
            return
        why = (
            "the ledger does not show it"
            if number.standing is Standing.BOOKED
            else "nothing entitles it to leave"
        )
        raise PrivacyError(
            f"{number.name} at round {number.step} is not tracked: it is neither booked nor labelled as a "
            f"simulation's ({why})"
        )

    def _is_booked(self, number: Number) -> bool:
        if not number.releases or not set(number.releases) <= set(self._events):
            return False
        shown = self._shown(number)
        return shown is not None and math.isclose(number.value, shown, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)

    def _shown(self, number: Number) -> float | None:
        """What the ledger gives under this name; None where it gives nothing of the kind."""
        events: list[Mapping[str, Any]] = [self._events[name] for name in number.releases]
        if number.name == _SPENT:
            return epsilon_of_events(events, self._delta)
        if number.name == _LEFT:
            return max(self._limit - epsilon_of_events(events, self._delta), 0.0)
        if number.name.startswith(_ALONE):
            return epsilon_when_adaptive(events, self._delta)
        if number.name.startswith(_NOISE) and len(events) == 1:
            return float(events[0]["noise_multiplier"])
        return None
