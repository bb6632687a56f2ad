"""What releases say of themselves, in words of experts, for labels and records; and others' text there."""

import re
import unicodedata

from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.grouping import mechanisms_of as grouped
from fedboard.common.privacy.events import is_amplified

_SPACE = re.compile(r"\s+")
_JOINERS = "\u200c\u200d"
"""Signs without width that scripts of India and Iran need."""
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")
_MOST_MARKS = 4
"""Combining marks in a row; real scripts need no more, and a pile of them leaves its line."""
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


def as_line(text: str) -> str:
    """The text as one line, without control characters, without those that change the direction of others."""
    kept, marks = [], 0
    for sign in _SPACE.sub(" ", text).strip():
        marks = marks + 1 if unicodedata.combining(sign) else 0
        if (unicodedata.category(sign) in _HIDDEN and sign not in _JOINERS) or marks > _MOST_MARKS:
            continue
        kept.append(sign)
    return "".join(kept)


def cut(text: str, most: int) -> str:
    """The line, at most so many signs long, with an ellipsis where something was left out."""
    line = as_line(text)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
