"""Who takes part in a round, by coins, by lot, or cohort by cohort: what draws them says so in the releases.

``run_round`` takes a ``Participation``, makes the ``Attendance`` of the round from it, and lets that one object
mark the round's requests (from where the field goes into event, ledger and certificate) and draw who takes
part. Sampling is thus accounted only where it was done. It is told for any range of rows, for populations
of which no array of all users is made.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IntArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream

_AT_ONCE = 1 << 20
_TOP_BITS = 16

Place: TypeAlias = tuple[int, int]
"""A word of 64 bits and a row: words in their order, and where two are the same the earlier row first."""

_END: Place = (1 << 64, 0)


class PresentRows(Protocol):
    """Who takes part in a round. Secret where coins decided; picklable, and of a size that depends on nobody."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` do: bool, shape (stop - start,)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowsByWord:
    """Those whose word of the stream, with their row's number, lies in one range."""

    stream: NoiseStream
    """A word a row. Secret."""
    least: Place = (0, 0)
    """Inclusive."""
    end: Place = _END
    """Exclusive."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` take part."""
        words, numbers = self.stream.bits(start, stop - start), np.arange(start, stop)
        return ~_before(words, numbers, self.least) & _before(words, numbers, self.end)


def rows_of_ranks(stream: NoiseStream, n_users: int, first: int, last: int) -> RowsByWord:
    """The rows whose words have the ranks ``first:last`` among all words, smallest first.

    As from a stable sort of all words, in two passes over them and without an array of them.

    Args:
        stream: a word a row. Secret.
        n_users: how many rows.
        first: >= 0.
        last: one past the last; at most n_users.
    """
    least, end = (_place_of_rank(stream, n_users, rank) for rank in (first, last))
    return RowsByWord(stream=stream, least=least, end=end)


def _before(words: BitArray, numbers: IntArray, place: Place) -> BoolArray:
    word, row = place
    if word >= 1 << 64:
        return np.ones(words.shape, np.bool_)
    bound = np.uint64(word)
    return np.asarray((words < bound) | ((words == bound) & (numbers < row)))


def _place_of_rank(stream: NoiseStream, n_users: int, rank: int) -> Place:
    if rank >= n_users:
        return _END
    shift = np.uint64(64 - _TOP_BITS)
    found = np.zeros(1 << _TOP_BITS, dtype=np.int64)
    for start in range(0, n_users, _AT_ONCE):
        words = stream.bits(start, min(_AT_ONCE, n_users - start))
        found += np.bincount((words >> shift).astype(np.int64), minlength=found.size)
    behind = np.cumsum(found)
    top = int(np.searchsorted(behind, rank, side="right"))
    near: list[Place] = []
    for start in range(0, n_users, _AT_ONCE):
        words = stream.bits(start, min(_AT_ONCE, n_users - start))
        here = np.flatnonzero(words >> shift == np.uint64(top))
        near += zip(words[here].tolist(), (here + start).tolist(), strict=True)
    return sorted(near)[rank - int(behind[top] - found[top])]


_PREPARATION = "preparation"
_ROUND = "round-"


def round_name(version: int) -> str:
    """Name of the round that follows the board of this version: "preparation", "round-1", ..."""
    return _PREPARATION if version == 0 else f"{_ROUND}{version}"


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

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> PresentRows | None:
        """Who takes part in round ``name``, asked for a range of rows at a time and in memory that does not grow
        with users; None for everybody.
        """
        ...


@dataclass(frozen=True, slots=True)
class FullParticipation:
    """Everybody takes part in every round."""

    assumption: ClassVar[None] = None

    def event_field(self, name: str) -> None:
        """Nothing to state."""
        return

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> None:
        """Nothing to draw."""
        return


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
        present = self.rows(n_users)
        return None if present is None else present.rows(0, n_users)

    def rows(self, n_users: int) -> PresentRows | None:
        """The same, for whoever asks for a range of rows at a time; None for everybody.

        Raises:
            PrivacyError: as of ``draw``.
        """
        if self._drawn:
            raise PrivacyError(f"who takes part in round {self.name!r} was drawn before; it is drawn once")
        self._drawn = True
        return self.participation.rows(n_users, self.noise, self.name)

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

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """A word of 64 bits a user, against the threshold ``floor(2^64 q)``."""
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

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """The users with the ``size`` smallest random words; the words are gone through twice for it.

        Raises:
            InputError: there are fewer users than that.
        """
        if self.size > n_users:
            raise InputError(f"a cohort of {self.size} users cannot be drawn: there are fewer users")
        return rows_of_ranks(_stream(noise, name), n_users, 0, self.size)


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

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> RowsByWord:
        """The cohort whose turn it is; the words are gone through twice for either end."""
        shuffle, turn = divmod(round_number(name), self.cohorts)
        if shuffle not in self._shuffles:
            self._shuffles[shuffle] = noise.stream(f"shuffle {shuffle} of all users")
        first, last = (n_users * number // self.cohorts for number in (turn, turn + 1))
        return rows_of_ranks(self._shuffles[shuffle], n_users, first, last)


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
