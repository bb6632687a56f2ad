"""What a client that trusts the aggregator sends: its rows as they are, or their sums."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution


@dataclass(frozen=True, slots=True)
class FactoredMessage:
    """The rows of one client, as they are."""

    contribution: Contribution


@dataclass(frozen=True, slots=True)
class DenseMessage:
    """The exact sums of a cohort; its rows can no longer be checked, so its host is trusted with the bounds."""

    sums: Mapping[str, IntArray]


TrustedMessage = FactoredMessage | DenseMessage
