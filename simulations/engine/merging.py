"""Exact sums over spans of users, and their merge: whole numbers, and no user counts twice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError, PrivacyError

_MOST = 1 << 62
"""Beyond it a sum is not far from 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRead:
    """Which users a sum is over, and a trace of what was read of them."""

    stop: int
    """One past the last; the first is the key that this stands under."""
    digest: bytes
    """Of every rating of theirs, whatever blocks it was read in. Private."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpanSums:
    """Exact sums over one or several spans of users. Secret: they leave only through a booked release.

    It holds nothing whose size grows with users, but for a few bytes a span.
    """

    sums: Mapping[str, IntArray]
    """By release name, int64, shape (rows, width)."""
    spans: Mapping[int, SpanRead]
    """By first row; no two share a user."""
    n_ratings: int
    """Training ratings that were gone through."""
    n_learnt_from: int
    """Users who have any."""
    sizes: Mapping[int, int]
    """Bytes that a user who takes part would send -> how many such users."""
    seconds: float
    """CPU time."""

    @property
    def n_users(self) -> int:
        """Users of all spans."""
        return sum(read.stop - first for first, read in self.spans.items())

    def merged(self, other: "SpanSums") -> "SpanSums":
        """The sums over the users of both, in new arrays; whole numbers, so the order does not matter.

        Raises:
            PrivacyError: a user is in both, who would count twice.
            InputError: they are sums of different requests.
        """
        return merged_spans([self, other])


def merged_spans(parts: Iterable[SpanSums]) -> SpanSums:
    """The sums over all users of these parts; the first one's arrays are copied, the others are added to them.

    Raises:
        PrivacyError: a user is in two of them, who would count twice.
        InputError: there is none, or they are sums of different requests.
    """
    merging = Merging()
    for part in parts:
        merging.add(part)
    return merging.sums()


@dataclass(slots=True)
class Merging:
    """Adds spans up as they come, in place."""

    _sums: dict[str, IntArray] | None = None
    _bounds: dict[str, int] = field(default_factory=dict)
    """By release name: no number of its sums is larger, so that few of them have to be looked at again."""
    _spans: dict[int, SpanRead] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _n_ratings: int = 0
    _n_learnt_from: int = 0
    _seconds: float = 0.0

    @property
    def spans(self) -> Mapping[int, SpanRead]:
        """What is in the sums already."""
        return self._spans

    def add(self, part: SpanSums) -> None:
        """Add one.

        Raises:
            PrivacyError: one of its users is in already, or the sums leave no room in 64 bits; nothing was added.
            InputError: it has sums of other requests; nothing was added.
        """
        joined = {**self._spans, **part.spans}
        require_apart(joined)
        if len(joined) != len(self._spans) + len(part.spans):
            raise _counted_twice()
        if self._sums is None:
            self._sums = {name: sums.copy() for name, sums in part.sums.items()}
            self._bounds = bounds_of(self._sums)
        else:
            add_within_64_bits(self._sums, part.sums, self._bounds)
        self._spans = joined
        for size, users in part.sizes.items():
            self._sizes[size] = self._sizes.get(size, 0) + users
        self._n_ratings += part.n_ratings
        self._n_learnt_from += part.n_learnt_from
        self._seconds += part.seconds

    def sums(self) -> SpanSums:
        """All so far; the arrays are those that more is added to.

        Raises:
            InputError: nothing was added yet.
        """
        if self._sums is None:
            raise InputError("sums of no span at all cannot be merged; give at least one")
        return SpanSums(
            sums=self._sums,
            spans=dict(self._spans),
            n_ratings=self._n_ratings,
            n_learnt_from=self._n_learnt_from,
            sizes=dict(self._sizes),
            seconds=self._seconds,
        )


def bounds_of(sums: Mapping[str, IntArray]) -> dict[str, int]:
    """By release name the largest number of its sums, signs aside. As secret as they are."""
    return {name: max(int(s.max(initial=0)), -int(s.min(initial=0))) for name, s in sums.items()}


def add_within_64_bits(
    sums: Mapping[str, IntArray], more: Mapping[str, IntArray], bounds: dict[str, int]
) -> None:
    """Add sums to others in place, by release name. A sum that ran over would look like quite another one.

    Args:
        sums: added to. Secret.
        more: of the same requests. Secret.
        bounds: no number of ``sums`` is larger, so that few of them have to be looked at again; kept up to date.

    Raises:
        PrivacyError: they leave no room in 64 bits; nothing was added.
        InputError: they are of other requests; nothing was added.
    """
    _require_same_shapes(sums, more)
    for name, largest in bounds_of(more).items():
        if bounds[name] + largest >= _MOST:
            bounds[name] = bounds_of({name: sums[name]})[name]
        if bounds[name] + largest >= _MOST:
            raise PrivacyError(f"release {name!r} does not fit 64-bit integers; use a coarser grid")
        bounds[name] += largest
    for name, values in more.items():
        sums[name][...] += values


def require_apart(spans: Mapping[int, SpanRead]) -> None:
    """Refuse spans that share a user.

    Raises:
        PrivacyError: two do.
    """
    bounds = sorted((first, read.stop) for first, read in spans.items())
    if any(first >= stop for first, stop in bounds) or any(a[1] > b[0] for a, b in pairwise(bounds)):
        raise _counted_twice()


def require_everybody(sums: SpanSums, n_users: int) -> None:
    """Refuse sums that are not over each of all users once.

    Raises:
        PrivacyError: somebody is missing, or counted twice.
    """
    require_each_once(((first, read.stop) for first, read in sums.spans.items()), n_users)


def require_each_once(spans: Iterable[tuple[int, int]], n_users: int) -> None:
    """Refuse spans of users that are not all users, each in one of them.

    Args:
        spans: first user and one past the last; in any order.
        n_users: of all.

    Raises:
        PrivacyError: somebody is missing, or in two.
    """
    reached = 0
    for start, stop in sorted(spans):
        if start != reached or stop <= start:
            break
        reached = stop
    else:
        if reached == n_users:
            return
    raise PrivacyError(
        f"the sums of a round are not over users 0:{n_users}, each counted once; nothing was released"
    )


def _require_same_shapes(sums: Mapping[str, IntArray], more: Mapping[str, IntArray]) -> None:
    if {n: a.shape for n, a in sums.items()} != {n: a.shape for n, a in more.items()}:
        raise InputError("sums of different requests cannot be merged")


def _counted_twice() -> PrivacyError:
    return PrivacyError("spans of users that share a user were to be merged: she would count twice")
