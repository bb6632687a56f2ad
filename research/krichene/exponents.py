"""The exponents mu that the paper compares."""

from fractions import Fraction

EXPONENTS = (0.0, 1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0)
"""Figures 3, 5 and 9."""


def as_text(exponent: float) -> str:
    """``1/3`` for a third, as the paper's axes have it."""
    return str(Fraction(exponent).limit_denominator(64))
