"""Which two data sets count as neighbours, and what that does to a sensitivity."""

import math
from enum import StrEnum

from fedboard.common.errors import PrivacyError


class Adjacency(StrEnum):
    """What one user may change between two neighbouring data sets. Part of every published guarantee."""

    ADD_REMOVE = "add-remove"
    """One user with all her ratings is present or absent."""
    REPLACE = "replace"
    """One user's ratings are exchanged for any others."""
    REPLACE_VALUES = "replace-values"
    """One user's values are exchanged for as many others; how many each user has is public. Protects less."""
    REPLACE_LABELS = "replace-labels"
    """One user's labels are exchanged for any others; features and whose they are is public. Even weaker."""

    @property
    def sentence(self) -> str:
        """What neighbouring data sets are, in words."""
        return _SENTENCES[self]


OF_TRAININGS = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
"""What a training may promise: the others leave public what its releases do hide and are paid for."""

_SENTENCES = {
    Adjacency.ADD_REMOVE: "one user with all her ratings is present or absent",
    Adjacency.REPLACE: "one user's ratings are exchanged for any others",
    Adjacency.REPLACE_VALUES: "one user's values are exchanged for as many others; how many values each user has "
    "is public and not protected",
    Adjacency.REPLACE_LABELS: "one user's labels are exchanged for any others; every feature, and which user "
    "it belongs to, is public and not protected",
}


def parse_adjacency(value: object) -> Adjacency:
    """Read an adjacency by name.

    Raises:
        PrivacyError: the name is not one of the known ones; it is never guessed.
    """
    try:
        return Adjacency(str(value))
    except ValueError:
        known = ", ".join(Adjacency)
        raise PrivacyError(f"adjacency must be one of {known}, got {value!r}") from None


def sensitivity_factor(adjacency: Adjacency | str, *, same_sign: bool) -> float:
    """Largest change of a sum, in units of the largest norm of one user's contribution.

    Add or remove: 1. Replace: ``|x - x'| <= sqrt(|x|^2 + |x'|^2 - 2 <x, x'>)``, which is 2 in general and
    sqrt 2 where ``<x, x'> >= 0`` for all contributions (non-negative numbers, positive semi-definite
    matrices).

    Args:
        adjacency: public.
        same_sign: whether any two contributions have a non-negative inner product.

    Raises:
        PrivacyError: unknown adjacency.
    """
    if parse_adjacency(adjacency) is Adjacency.ADD_REMOVE:
        return 1.0
    return math.sqrt(2.0) if same_sign else 2.0


def l1_factor(adjacency: Adjacency | str) -> float:
    """Largest L1 change of a sum, in units of the largest L1 norm of one user's contribution: 1, or 2 if exchanged.

    Raises:
        PrivacyError: unknown adjacency.
    """
    return 1.0 if parse_adjacency(adjacency) is Adjacency.ADD_REMOVE else 2.0
