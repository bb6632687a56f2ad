"""What releases say of themselves, in experts' words, for labels and records."""

from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.grouping import mechanisms_of as grouped
from fedboard.common.privacy.events import is_amplified

_MECHANISMS = {"gaussian": "Gaussian", "laplace": "Laplace", "exponential": "exponential"}


def mechanisms_of(certificate: Certificate) -> str:
    """Which mechanisms made the releases, how many are made and planned, and whether coins draw who takes part.

    Args:
        certificate: one that was verified. Public.
    """
    kinds = [str(event["mechanism"]) for event in certificate.releases]
    made = ", ".join(
        f"{kinds.count(kind)} by the {_MECHANISMS[kind]} mechanism" for kind in sorted(set(kinds))
    )
    held = certificate.commitment
    planned = "" if held.plan is None else f"; {len(held.plan)} planned in all"
    sampled = (
        "; who takes part is drawn by secret coins" if any(map(is_amplified, certificate.releases)) else ""
    )
    return f"{made}{planned}{sampled}"


def accounting_of(certificate: Certificate) -> str:
    """How the cost was counted."""
    if not certificate.planned:
        return "a budget that is checked before each release (privacy filter)"
    if certificate.composition.exact:
        return "exact curve of Gaussian mechanisms (Gaussian differential privacy), whole plan"
    if is_by_curve(certificate):
        return (
            "curve of Gaussian mechanisms, everybody counted in every round, whole plan; mu is an upper bound"
        )
    return "privacy loss distributions, whole plan; mu is an upper bound"


def is_by_curve(certificate: Certificate) -> bool:
    """Whether epsilon of a plan follows from the curve of one Gaussian mechanism, if only as a bound."""
    return grouped(certificate.releases).is_gaussian


def least_shares(certificate: Certificate) -> int:
    """Of how many honest devices the noise must come at least; 0 where a server adds it to any release."""
    return min(int(event["shares"]["least"]) if "shares" in event else 0 for event in certificate.releases)
