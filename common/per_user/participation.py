"""Who takes part in a round: the object that draws the coins is the one that says so in the releases.

``run_round`` takes a ``Participation``, makes the ``Attendance`` of the round from it, and lets that one object
mark the round's requests (from where the field goes into event, ledger and certificate) and draw who takes
part. Sampling is thus accounted only where it was done.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from fedboard.common.arrays import BoolArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.per_user.present_rows import PresentRows, RowsByWord, rows_of_ranks
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream

_PREPARATION = "preparation"
_ROUND = "round-"


def round_name(version: int) -> str:
    """Name of the round that follows the board of this version: "preparation", "round-1", ..."""
    return _PREPARATION if version == 0 else f"{_ROUND}{version}"


class Participation(Protocol):
    """How it is decided who takes part in a round. Public; the coins are secret.

    Guarantee: who takes part depends on coins and row numbers alone, never on ratings.
    """

    @property
    def assumption(self) -> str | None:
        """What the guarantee takes for granted about it, one sentence; None where everybody takes part."""
        ...

    def event_field(self, name: str) -> dict[str, Any] | None:
        """What the events of round ``name`` state as ``participation``; None where everybody takes part."""
        ...

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> BoolArray | None:
        """Who takes part in round ``name``: bool, shape (n_users,), secret; None for everybody."""
        ...

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> PresentRows | None:
        """The same, asked for a range of rows at a time and in memory that does not grow with users."""
        ...


@dataclass(frozen=True, slots=True)
class FullParticipation:
    """Everybody takes part in every round."""

    assumption: ClassVar[None] = None

    def event_field(self, name: str) -> None:
        """Nothing to state."""
        return

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> None:
        """Nothing to draw."""
        return

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> None:
        """Nothing to draw."""
        return


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


@dataclass(slots=True, kw_only=True)
class Attendance:
    """Who takes part in one round: marks the round's releases and draws its coins, once.

    Guarantee: ``require_drawn`` passes only after ``draw``; nothing is booked before it has passed.
    Not guaranteed: that a runtime which has drawn asks nobody else; see ``Runtime.gather``.
    """

    participation: Participation
    name: str
    """Of the round."""
    noise: NoiseSource
    """Where the coins come from: a stream of their own."""
    _drawn: bool = field(default=False, init=False)

    def mark(self, requests: Iterable[Request]) -> tuple[Request, ...]:
        """The requests with what their events state about participation.

        Raises:
            PrivacyError: a request states one already, or one that cannot be accounted.
        """
        asked = tuple(requests)
        require_unsampled(asked)
        stated = self.participation.event_field(self.name)
        if stated is None:
            return asked
        return tuple(replace(r, release=replace(r.release, participation=stated)) for r in asked)

    def draw(self, n_users: int) -> BoolArray | None:
        """Who takes part: bool, shape (n_users,), secret; None for everybody.

        Raises:
            PrivacyError: it was drawn before; a second draw would be another round.
        """
        self._draw_once()
        return self.participation.draw(n_users, self.noise, self.name)

    def rows(self, n_users: int) -> PresentRows | None:
        """The same, for whoever asks for a range of rows at a time; None for everybody.

        Raises:
            PrivacyError: as of ``draw``.
        """
        self._draw_once()
        return self.participation.rows(n_users, self.noise, self.name)

    def _draw_once(self) -> None:
        if self._drawn:
            raise PrivacyError(f"who takes part in round {self.name!r} was drawn before; it is drawn once")
        self._drawn = True

    def require_drawn(self) -> None:
        """Refuse a round whose runtime has asked everybody although the releases state otherwise.

        Raises:
            PrivacyError: nothing was drawn.
        """
        if not self._drawn and self.participation.event_field(self.name) is not None:
            raise PrivacyError(
                f"round {self.name!r} states who takes part but nobody was drawn; nothing was released"
            )


def require_unsampled(requests: Iterable[Request]) -> None:
    """Refuse requests that state a participation of their own: only an attendance may, which also draws.

    Raises:
        PrivacyError: names the release.
    """
    for request in requests:
        if request.release.participation is not None:
            raise PrivacyError(
                f"release {request.name!r} states who takes part, but nobody was drawn for it; "
                "give the participation to the run instead"
            )


def stated_by_release(
    rounds: Iterable[Iterable[Request]], participation: Participation
) -> dict[str, dict[str, Any] | None]:
    """What the event of each planned release will state about who takes part, by release name.

    Args:
        rounds: as from ``Task.plan``: the round after board 0, after board 1, ... Public.
        participation: of the run.
    """
    return {
        request.name: participation.event_field(round_name(version))
        for version, requests in enumerate(rounds)
        for request in requests
    }


def _stream(noise: NoiseSource, name: str) -> NoiseStream:
    """A random word a user: a function of the round's stream and her row number alone.

    Rows shift where somebody is removed, and words do not shift with them. That is no harm: the words are secret,
    independent and of one distribution, so that everybody else's coins are distributed as before.
    """
    return noise.stream(f"who takes part in {name}")


def round_number(name: str) -> int:
    """The inverse of ``round_name``.

    Raises:
        InputError: not the name of a round.
    """
    number = name.removeprefix(_ROUND)
    if name == _PREPARATION:
        return 0
    if not name.startswith(_ROUND) or not number.isdecimal():
        raise InputError(f"a round is named {_PREPARATION!r}, '{_ROUND}1', ..., got {name!r}")
    return int(number)
