"""Disjoint cohorts: each user answers in one round of a pass only, fixed by her public number.

Rounds of one pass are about different users. Whoever is protected is part of one of them, so a pass costs what its
costliest cohort costs, not the sum: parallel composition. It also holds where later rounds are chosen by what
earlier ones showed, because to a user outside them these are post-processing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common.arrays import BoolArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution_bounding.participation import round_name, round_number
from fedboard.common.privacy.releases.noise import NoiseSource


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByNumber:
    """Every so-manieth row. Public."""

    of: int
    """>= 1."""
    number: int
    """Which of them, in 0..of - 1."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` take part."""
        return np.asarray(np.arange(start, stop) % self.of == self.number)


@dataclass(frozen=True, slots=True)
class DisjointCohorts:
    """Alternating rounds ask cohort after cohort; everybody takes part in the preparation round.

    Guarantee: user number j takes part in the rounds t = 1, 2, ... with ``(t - 1) mod cohorts = j mod cohorts`` and
    in no others.
    """

    cohorts: int
    """Number of cohorts; >= 2. Public."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: fewer than two cohorts.
        """
        require_whole("disjoint cohorts", self.cohorts, least=2)

    @property
    def assumption(self) -> str:
        """What the guarantee takes for granted."""
        return (
            "Every user has a public number that does not depend on her data, and takes part only in the rounds of "
            f"cohort (number modulo {self.cohorts}); of these rounds, which are about different users, the cohort "
            "that costs most is accounted."
        )

    def event_field(self, name: str) -> dict[str, Any] | None:
        """Kind, cohort, number of cohorts, and the pass as the round; None for the preparation round."""
        if name == round_name(0):
            return None
        number, cohort = divmod(round_number(name) - 1, self.cohorts)
        return {"kind": "disjoint", "cohort": cohort, "cohorts": self.cohorts, "round": f"pass-{number + 1}"}

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByNumber | None:
        """The cohort whose turn it is, a range of rows at a time; public, no coin is thrown."""
        stated = self.event_field(name)
        return None if stated is None else RowsByNumber(of=self.cohorts, number=stated["cohort"])
