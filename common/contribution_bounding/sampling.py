"""Who takes part where not everybody does: by coins, by lot, or cohort by cohort."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import BoolArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution_bounding.participation import (
    FullParticipation,
    Participation,
    RowsByWord,
    round_number,
    rows_of_ranks,
)
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream


@dataclass(frozen=True, slots=True)
class PoissonParticipation:
    """Each user takes part by a coin of her own; rounds are independent.

    Guarantee: she takes part with probability ``floor(2^64 q) / 2^64``, which is at most q, independently of
    all others; amplification is accounted for q.
    """

    probability: float
    """q in (0, 1). Public."""

    assumption: ClassVar[str] = (
        "In each round every user takes part by a coin of her own that nobody but the aggregator ever learns; "
        "whoever can tell who took part (by watching the network, say) gets less protection than is stated."
    )

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: the probability is not in (0, 1).
        """
        if not 0 < self.probability < 1:
            raise InputError(
                f"the probability of Poisson participation must be in (0, 1), got {self.probability}; "
                "where everybody takes part, use full participation"
            )

    def event_field(self, name: str) -> dict[str, Any]:
        """Kind, probability and round."""
        return {"kind": "poisson", "probability": self.probability, "round": name}

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> BoolArray:
        """A word of 64 bits a user, against the threshold ``floor(2^64 q)``."""
        return self.rows(n_users, noise, name).rows(0, n_users)

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """The same, a range of rows at a time."""
        threshold = math.floor(math.ldexp(self.probability, 64))  # exact: q has 53 bits
        return RowsByWord(stream=_stream(noise, name), end=(threshold, 0))


@dataclass(frozen=True, slots=True)
class FixedSizeCohort:
    """A fixed number of users takes part, drawn anew for each round. Accounted as if everybody did.

    Not under ``add-remove``: with one user more another one is not drawn, so that the sum changes by two users'
    contributions. Under ``replace``, where the number of users is public, by one user's alone.
    """

    size: int
    """Number of users; >= 1. Public."""

    assumption: ClassVar[str] = (
        "In each round a random cohort of a fixed size takes part; the guarantee does not rely on it."
    )

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: the size is not a whole number >= 1.
        """
        require_whole("the size of a fixed-size cohort", self.size)

    def event_field(self, name: str) -> dict[str, Any]:
        """Kind, size and round."""
        return {"kind": "fixed-size", "size": self.size, "round": name}

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> BoolArray:
        """The users with the ``size`` smallest random words.

        Raises:
            InputError: there are fewer users than that.
        """
        self._require_enough(n_users)
        present = np.zeros(n_users, dtype=np.bool_)
        words = _stream(noise, name).bits(0, n_users)
        present[np.argpartition(words, self.size - 1)[: self.size]] = True
        return present

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """The same, a range of rows at a time; the words are gone through twice for it.

        Raises:
            InputError: there are fewer users than that.
        """
        self._require_enough(n_users)
        return rows_of_ranks(_stream(noise, name), n_users, 0, self.size)

    def _require_enough(self, n_users: int) -> None:
        if self.size > n_users:
            raise InputError(f"a cohort of {self.size} users cannot be drawn: there are fewer users")


@dataclass(frozen=True, slots=True)
class ShuffledCohorts:
    """Users are shuffled into cohorts of about one size; one cohort after the other takes a round.

    After ``cohorts`` rounds everybody was asked once, and the users are shuffled anew. Accounted as if everybody
    took part, and as for ``FixedSizeCohort`` not under ``add-remove``: with one user more others change cohorts.
    Secure noise cannot repeat a shuffle, so a run that is resumed shuffles anew at once.
    """

    cohorts: int
    """Number of cohorts; >= 1. Public."""
    _shuffles: dict[int, NoiseStream] = field(default_factory=dict, init=False, repr=False, compare=False)

    assumption: ClassVar[str] = (
        "In each round one of several shuffled cohorts takes part; the guarantee does not rely on it."
    )

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: the number of cohorts is not a whole number >= 1.
        """
        require_whole("the number of shuffled cohorts", self.cohorts)

    def event_field(self, name: str) -> dict[str, Any]:
        """Kind, number of cohorts and round."""
        return {"kind": "shuffled-cohorts", "cohorts": self.cohorts, "round": name}

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> BoolArray:
        """The cohort whose turn it is."""
        stream, first, last = self._turn(n_users, noise, name)
        order = np.argsort(stream.bits(0, n_users), kind="stable")
        present = np.zeros(n_users, dtype=np.bool_)
        present[order[first:last]] = True
        return present

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """The same, a range of rows at a time; the words are gone through twice for either end."""
        stream, first, last = self._turn(n_users, noise, name)
        return rows_of_ranks(stream, n_users, first, last)

    def _turn(self, n_users: int, noise: NoiseSource, name: str) -> tuple[NoiseStream, int, int]:
        """Whose words are sorted, and which ranks among them take part."""
        shuffle, turn = divmod(round_number(name), self.cohorts)
        if shuffle not in self._shuffles:
            self._shuffles[shuffle] = noise.stream(f"shuffle {shuffle} of all users")
        first, last = (n_users * number // self.cohorts for number in (turn, turn + 1))
        return self._shuffles[shuffle], first, last


def participation_with(
    *, probability: float | None = None, size: int | None = None, cohorts: int | None = None
) -> Participation:
    """The participation that has this one number; everybody where there is none."""
    if probability is not None:
        return PoissonParticipation(probability)
    if size is not None:
        return FixedSizeCohort(size)
    if cohorts is not None:
        return ShuffledCohorts(cohorts)
    return FullParticipation()


def _stream(noise: NoiseSource, name: str) -> NoiseStream:
    """A random word a user: a function of the round's stream and her row number alone.

    Rows shift where somebody is removed, and words do not shift with them. That is no harm: the words are secret,
    independent and of one distribution, so that everybody else's coins are distributed as before.
    """
    return noise.stream(f"who takes part in {name}")
