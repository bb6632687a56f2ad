"""Answers: the number that is published, what it cost, and how far the noise may have moved it."""

from dataclasses import dataclass
from enum import StrEnum

CONFIDENCE = 0.95
"""Of every interval and error that an answer states."""


class Mechanism(StrEnum):
    """Where an answer's randomness comes from."""

    PURE = "pure"
    """Laplace noise for means, the exponential mechanism for quantiles: delta 0; epsilons of an account add up."""
    GAUSSIAN = "gaussian"
    """Gaussian noise: composes tightly with boards and with many other questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is published. Every field is public."""

    value: float
    interval: tuple[float, float] | None
    """Holds the answer without noise with probability ``CONFIDENCE``; None where only a rank error is known."""
    rank_error: float | None
    """Of quantiles: with that probability the answer misses the quantile by no more than this total weight of
    numbers, each user's as weighted.
    """
    noise: str
    """Kind and size of the noise."""
