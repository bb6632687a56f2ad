"""What recorded releases are together, in the terms of an accountant.

Parallel composition: rounds about different users cost what the costliest of them costs, not the sum.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import Event, event_mu, is_amplified, is_disjoint, require_sound


def squared_mu(event: Event) -> float:
    """What a release costs a user who is part of it: mu^2, which adds up."""
    return event_mu(event) ** 2


def most_exposed(events: Sequence[Event], cost: Callable[[Event], float] = squared_mu) -> list[Event]:
    """The releases that the most exposed user is part of: of each pass those of the cohort that costs most.

    Releases of rounds that ask everybody are all among them.

    Args:
        events: sound; passes of different runs named apart. Public.
        cost: of one release; adds up.
    """
    passes: dict[str, dict[int, float]] = {}
    for event in filter(is_disjoint, events):
        cohorts = passes.setdefault(event["participation"]["round"], {})
        cohort = event["participation"]["cohort"]
        cohorts[cohort] = cohorts.get(cohort, 0.0) + cost(event)
    costliest = {name: max(cohorts, key=lambda cohort: cohorts[cohort]) for name, cohorts in passes.items()}
    return [
        event
        for event in events
        if not is_disjoint(event)
        or event["participation"]["cohort"] == costliest[event["participation"]["round"]]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRound:
    """Gaussian releases of one round in which each user takes part by one secret coin. Public."""

    probability: float
    """q in (0, 1)."""
    mu: float
    """Of the round's releases together if she takes part: ``sqrt(sum 1 / z_k^2)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanisms:
    """Releases by what has to be accounted alike; sorted, so that the order of booking changes no digit. Public."""

    gaussian_mu: float
    """Of all Gaussian releases with full participation: ``sqrt(sum 1 / z_k^2)``; 0 for none."""
    laplace: tuple[float, ...]
    """Noise multipliers of the Laplace releases."""
    sampled: tuple[SampledRound, ...]
    """Rounds with Poisson participation."""
    choices: tuple[float, ...] = ()
    """Noise multipliers of the releases by exponential mechanism."""

    @property
    def is_gaussian(self) -> bool:
        """Whether all is one Gaussian mechanism, whose curve is known in closed form."""
        return not (self.laplace or self.sampled or self.choices)


def mechanisms_of(events: Sequence[Event]) -> Mechanisms:
    """Sort recorded events into mechanisms.

    Gaussian releases with full participation are one Gaussian with ``1/z^2 = sum 1/z_k^2``; so are those of a
    Poisson round under its one coin, of which a part may be booked. Fixed-size and shuffled cohorts count as
    full participation; of disjoint cohorts the costliest counts.

    Args:
        events: of one run, or with rounds named apart; see ``round_problems``. Public.

    Raises:
        PrivacyError: an event is not sound, or the events of a round do not belong together.
    """
    for event in events:
        require_sound(event)
    problems = round_problems(events)
    if problems:
        raise PrivacyError(f"these releases cannot be accounted together: {'; '.join(problems)}")
    full: list[float] = []
    rounds: dict[str, list[Event]] = {}
    for event in most_exposed(events):
        if is_amplified(event):
            rounds.setdefault(event["participation"]["round"], []).append(event)
        elif event["mechanism"] == "gaussian":
            full.append(float(event["noise_multiplier"]))
    sampled = [_sampled_round(of_round) for of_round in rounds.values()]
    return Mechanisms(
        gaussian_mu=_gaussian_mu(full),
        laplace=_multipliers(events, "laplace"),
        choices=_multipliers(events, "exponential"),
        sampled=tuple(sorted(sampled, key=lambda part: (part.probability, part.mu))),
    )


def round_problems(events: Iterable[Event]) -> list[str]:
    """Say which sampled rounds cannot be one round: other terms for some releases, or one release twice.

    The latter is what two runs look like whose rounds have the same names but coins of their own.
    """
    rounds: dict[str, list[Event]] = {}
    for event in events:
        stated = event.get("participation")
        if isinstance(stated, Mapping):
            rounds.setdefault(str(stated.get("round")), []).append(event)
    problems = []
    for name, of_round in rounds.items():
        if not any(is_amplified(event) or is_disjoint(event) for event in of_round):
            continue
        if any(_terms(event) != _terms(of_round[0]) for event in of_round):
            problems.append(f"the releases of round {name!r} do not state the same participation")
        twice = [str(k) for k, n in Counter(event.get("name") for event in of_round).items() if n > 1]
        if twice:
            problems.append(
                f"round {name!r} has release {', '.join(twice)} more than once; "
                "name the rounds of different runs apart"
            )
    return problems


def _terms(event: Event) -> dict[str, Any]:
    """What all releases of a round must state alike: everything but which of its disjoint cohorts is asked."""
    return {key: value for key, value in event["participation"].items() if key != "cohort"}


def _sampled_round(events: Sequence[Event]) -> SampledRound:
    stated: Mapping[str, Any] = events[0]["participation"]
    multipliers = [float(event["noise_multiplier"]) for event in events]
    return SampledRound(probability=float(stated["probability"]), mu=_gaussian_mu(multipliers))


def _multipliers(events: Sequence[Event], mechanism: str) -> tuple[float, ...]:
    return tuple(sorted(float(e["noise_multiplier"]) for e in events if e["mechanism"] == mechanism))


def _gaussian_mu(multipliers: Iterable[float]) -> float:
    mu = math.sqrt(math.fsum(1.0 / multiplier / multiplier for multiplier in multipliers))
    if not mu < math.inf:
        raise PrivacyError(f"mu must be a finite number >= 0, got {mu}")
    return mu
