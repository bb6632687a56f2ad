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


__all__ = ["Adjacency", "parse_adjacency", "sensitivity_factor"]
