"""What recorded releases are together, in the terms of an accountant.

Parallel composition: rounds about different users cost what the costliest of them costs, not the sum.

The accountants of dp-accounting: privacy loss distributions where no closed form is known, Renyi beside them.

Each noise multiplier is relative to the sensitivity under its own adjacency, so a pair of neighbours differs by
one unit whatever the adjacency; hence the library is always asked about add or remove. (Its accountants disagree
about ``REPLACE_ONE``: one of them would double the sensitivity again.)
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedboard.common.errors import FedboardError, PrivacyError
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


_TAILS = 28.0  # deviations of a loss that the library keeps, both sides
_WHOLE_ORDERS = (*range(2, 65), *range(72, 129, 8), 192, 256, 384, 512, 768, 1024)
"""For sampled rounds, where the library's series for broken orders may fail to converge."""
_CELLS = 100_000.0  # of the widest loss, or up to twice as many


def epsilon_by_loss_distributions(mechanisms: Mechanisms, delta: float, *, coarsening: float = 1.0) -> float:
    """Epsilon by privacy loss distributions, rounded up: tight, and never below the exact value.

    Args:
        mechanisms: public.
        delta: in (0, 1). Public.
        coarsening: how many times wider than usual the cells of the distributions are; faster, still an upper
            bound.

    Raises:
        FedboardError: dp-accounting is not installed.

    Reference: Koskela, Jalkoe and Honkela (2020), arXiv:1906.03049; Doroshenko et al. (2022),
    arXiv:2207.04380 (how the library rounds); Zhu, Dong and Wang (2022), arXiv:2106.08567 (why the pair of a
    Poisson-subsampled Gaussian composes).
    """
    return _epsilon(mechanisms, delta, coarsening * cell_width(mechanisms))


def epsilon_by_renyi_orders(mechanisms: Mechanisms, delta: float) -> float:
    """Epsilon through Renyi divergences at a list of orders: looser, and a proof of its own.

    Args:
        mechanisms: public.
        delta: in (0, 1). Public.

    Raises:
        FedboardError: dp-accounting is not installed.

    Reference: Mironov (2017), arXiv:1702.07476; Mironov, Talwar and Zhang (2019), arXiv:1908.10530.
    """
    return float(_renyi_accountant(mechanisms).get_epsilon(delta))


def is_installed() -> bool:
    """Whether dp-accounting can be asked."""
    try:
        _library()
    except FedboardError:
        return False
    return True


def cell_width(mechanisms: Mechanisms) -> float:
    """Width of the cells into which losses are rounded: small beside the losses, and few enough cells.

    A Gaussian's loss spans about ``mu^2 + 28 mu``, that of a pure mechanism 2 / z. The widest of them decides.
    """
    mus = [mechanisms.gaussian_mu, *(sampled.mu for sampled in mechanisms.sampled)]
    spans = [mu * mu + _TAILS * mu for mu in mus] + [
        2.0 / multiplier for multiplier in (*mechanisms.laplace, *mechanisms.choices)
    ]
    # A power of two, so that a ledger that grows keeps to the same cells for long.
    span = max(spans)
    return 2.0 ** math.floor(math.log2(span / _CELLS)) if span > 0 else 1.0


@lru_cache(maxsize=2)
def _renyi_accountant(mechanisms: Mechanisms) -> Any:
    """All parts together; remembered, because a curve asks at many deltas."""
    library = _library()
    parts = [library.LaplaceDpEvent(multiplier) for multiplier in mechanisms.laplace]
    parts += [library.ZCDpEvent(0.125 / multiplier**2) for multiplier in mechanisms.choices]
    if mechanisms.gaussian_mu > 0:
        parts.append(library.GaussianDpEvent(1.0 / mechanisms.gaussian_mu))
    for sampled in mechanisms.sampled:
        gaussian = library.GaussianDpEvent(1.0 / sampled.mu)
        parts.append(library.PoissonSampledDpEvent(sampled.probability, gaussian))
    orders = _WHOLE_ORDERS if mechanisms.sampled else None
    return library.rdp.RdpAccountant(orders).compose(library.ComposedDpEvent(parts))


@lru_cache(maxsize=1024)
def _epsilon(mechanisms: Mechanisms, delta: float, width: float) -> float:
    """Remembered, because the ledger, the certificate and whoever verifies them ask the same again."""
    return float(_loss_distribution(mechanisms, width).get_epsilon_for_delta(delta))


@lru_cache(maxsize=2)
def _loss_distribution(mechanisms: Mechanisms, width: float) -> Any:
    """All parts together; remembered, because a curve asks at many deltas."""
    module = _library().pld.privacy_loss_distribution
    together = module.identity(value_discretization_interval=width)
    if mechanisms.gaussian_mu > 0:
        together = together.compose(
            _gaussian(SampledRound(probability=1.0, mu=mechanisms.gaussian_mu), width)
        )
    for multiplier in sorted(set(mechanisms.laplace)):
        part = module.from_laplace_mechanism(multiplier, value_discretization_interval=width)
        together = together.compose(part.self_compose(mechanisms.laplace.count(multiplier)))
    for multiplier in sorted(set(mechanisms.choices)):
        part = _randomised_response(module, 1.0 / multiplier, width)
        together = together.compose(part.self_compose(mechanisms.choices.count(multiplier)))
    for sampled in sorted(set(mechanisms.sampled), key=lambda part: (part.probability, part.mu)):
        repeated = _gaussian(sampled, width).self_compose(mechanisms.sampled.count(sampled))
        together = together.compose(repeated)
    return together


@lru_cache(maxsize=16)
def _gaussian(sampled: SampledRound, width: float) -> Any:
    """One Gaussian; remembered, because a ledger that grows composes the finished rounds again and again."""
    return _library().pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / sampled.mu, value_discretization_interval=width, sampling_prob=sampled.probability
    )


def _randomised_response(module: Any, epsilon: float, width: float) -> Any:
    """The worst of all mechanisms with this epsilon and delta 0 (Kairouz, Oh and Viswanath 2015, theorem 2.2)."""
    other = 2.0 / (1.0 + math.exp(epsilon))
    return module.from_randomized_response(other, 2, value_discretization_interval=width)


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError:
        told = "this needs dp-accounting: run pip install 'fedboard[pld]', or '.[pld]' in the checkout"
        raise FedboardError(told) from None
    return dp_accounting
