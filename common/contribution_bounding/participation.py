"""Who takes part in a round: the object that draws the coins is the one that says so in the releases.

``run_round`` takes a ``Participation``, makes the ``Attendance`` of the round from it, and lets that one object
mark the round's requests (from where the field goes into event, ledger and certificate) and draw who takes
part. Sampling is thus accounted only where it was done. It is told for any range of rows, for populations
of which no array of all users is made.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IntArray
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
