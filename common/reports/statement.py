"""What the certificate says, in the words and numbers that a report prints."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.exact import epsilon_of, epsilon_of_events
from fedboard.common.privacy.accounting.guarantee import right_bets_of_epsilon, right_bets_of_mu
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.events import event_mu, event_problems, is_amplified
from fedboard.common.reports.wording import JsonObject, number_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """One release as the certificate records it, with the running total behind it."""

    name: str
    mechanism: str
    covers: str
    shape: str
    sensitivity: float | None
    """L2 (Gaussian) or L1 (Laplace), in real units: grid units times the grid step where one is given."""
    noise: float | None
    """Standard deviation (Gaussian) or scale (Laplace), in the same units."""
    noise_multiplier: float | None
    mu_squared: float | None
    """Its part of the composed mu^2; None if the record does not say enough."""
    cumulative_epsilon: float | None
    """Epsilon at the claimed delta after this release and all before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A certificate with what follows from it, for a report."""

    certificate: Certificate
    mu: float | None
    """Of all releases together; None where it is not exact, or not stated."""
    releases: tuple[ReleaseLine, ...]
    checks: int | None
    """Number of checks that the certificate passed when it was verified for this report; None: it was not."""
    failures: tuple[str, ...]
    """What did not pass, one sentence each; empty for a certificate that holds."""

    @property
    def adjacency_meaning(self) -> str:
        """When two data sets are neighbours."""
        return parse_adjacency(self.certificate.claim.adjacency).sentence

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Further public statements of the certificate."""
        held = self.certificate
        found = {"Data": held.dataset, "Software": held.software, "Digest of the board": held.board_digest}
        return [(label, fact) for label, fact in found.items() if fact is not None]

    @property
    def recomputed_epsilon(self) -> float | None:
        """Epsilon that follows from the releases alone."""
        return self.releases[-1].cumulative_epsilon if self.releases else None

    @property
    def guess_rate(self) -> float:
        """Best possible rate of right guesses whether a user took part, when a coin decided it.

        mu-GDP: Phi(mu / 2), exact. From (epsilon, delta) alone: (e^epsilon + delta) / (e^epsilon + 1).
        """
        claim = self.certificate.claim
        return (
            right_bets_of_epsilon(claim.epsilon, claim.delta)
            if self.mu is None
            else right_bets_of_mu(self.mu)
        )

    def detection_rate(self, false_alarms: float) -> float | None:
        """Largest share of participants that any attack can name at that false-alarm rate, from mu."""
        normal = NormalDist()
        return None if self.mu is None else normal.cdf(normal.inv_cdf(false_alarms) + self.mu)


def read_statement(certificate: JsonObject, *, verified: bool = True) -> Statement:
    """Read a certificate's JSON.

    Args:
        certificate: as it is in files.
        verified: whether to verify it too, and to add up releases that take loss distributions: seconds, not
            milliseconds, where not all is Gaussian.

    Raises:
        InputError: it is none.
    """
    held = Certificate.from_dict(dict(certificate))
    findings = held.verify() if verified else []
    failures = tuple(f"{finding.check}: {finding.detail}" for finding in findings if not finding.passed)
    return Statement(
        certificate=held,
        # a mere upper bound would overstate what an attack can do where (epsilon, delta) says less
        mu=held.composition.mu if held.composition.exact else None,
        releases=release_lines(list(held.releases), held.claim.delta, planned=held.planned, sampled=verified),
        checks=len(findings) - len(failures) if verified else None,
        failures=failures,
    )


def release_lines(
    events: list[JsonObject], delta: float, *, planned: bool, sampled: bool
) -> tuple[ReleaseLine, ...]:
    """Releases in their order, each with the total behind it.

    Args:
        events: as booked or certified. Public.
        delta: of the claim.
        planned: whether all were fixed before the first.
        sampled: whether to add up what takes loss distributions.
    """
    lines = []
    total: float | None = 0.0
    amplified = False
    for number, event in enumerate(events, start=1):
        amplified = amplified or is_amplified(event)
        mu_squared = _mu_squared(event)
        # One release that cannot be read makes every later total unknown, not smaller.
        total = None if total is None or mu_squared is None else total + mu_squared
        unknown = total is None or delta <= 0 or _within_round(events, number)
        unknown = unknown or (amplified and not sampled)
        cumulative = None if total is None or unknown else _cumulative(events[:number], delta, total, planned)
        lines.append(_line(event, mu_squared, cumulative))
    return tuple(lines)


def _within_round(events: list[JsonObject], number: int) -> bool:
    """Whether more releases of a sampled round follow, so that its cost is not complete; it takes a while."""
    stated = [event.get("participation") for event in events[number - 1 : number + 1]]
    return is_amplified(events[number - 1]) and stated.count(stated[0]) > 1


def _cumulative(events: list[JsonObject], delta: float, mu_squared: float, planned: bool) -> float | None:
    """Epsilon of sound events together; None where sampling takes an accountant that is not installed."""
    if not any(is_amplified(event) for event in events):
        return epsilon_of(delta, mu=math.sqrt(mu_squared))
    try:
        return epsilon_of_events(events, delta, planned=planned)
    except FedboardError:
        return None


def _mu_squared(event: JsonObject) -> float | None:
    """Square of the event's mu; None for one that does not state a sound amount of noise."""
    return None if event_problems(event) else event_mu(event) ** 2


def _line(event: JsonObject, mu_squared: float | None, cumulative: float | None) -> ReleaseLine:
    step = number_or_none(event.get("grid_step")) or 1.0
    sensitivity = number_or_none(event.get("l2_sensitivity"))
    noise = number_or_none(event.get("noise_stddev"))
    shape = f"{event['rows']} × {event['width']}" if "rows" in event and "width" in event else "–"
    return ReleaseLine(
        name=str(event.get("name", "unnamed")),
        mechanism=str(event.get("mechanism", "not stated")),
        covers=str(event.get("covers", "")),
        shape=shape,
        sensitivity=number_or_none(event.get("l1_sensitivity"))
        if sensitivity is None
        else sensitivity * step,
        noise=number_or_none(event.get("noise_scale")) if noise is None else noise * step,
        noise_multiplier=number_or_none(event.get("noise_multiplier")),
        mu_squared=mu_squared,
        cumulative_epsilon=cumulative,
    )
