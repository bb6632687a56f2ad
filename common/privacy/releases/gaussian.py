"""Gaussian releases on the integer grid: one object states the noise, books it and draws it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.kernels.draws import noisy_sums
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency, sensitivity_factor
from fedboard.common.privacy.events import (
    Event,
    derived_problems,
    release_shift,
    stated_problems,
    symmetric_rank,
)
from fedboard.common.privacy.releases.noise import (
    NoiseSource,
    NoiseStream,
    least_shares,
    noise_backend,
    require_paid,
)

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Ledger, Receipt

Layout = Literal["vector", "symmetric"]

_HEADROOM = 2.0**62
_LARGEST_DRAW = 12.0  # far beyond what 64 random bits can reach
_NUMBERS_PER_CHUNK = 1 << 16  # stays in cache


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianRelease:
    """A sum over users, to be published with Gaussian noise. Every field is public.

    The contribution of one user is a stack of ``rows`` x ``width`` integers on a grid, all its numbers
    together of L2 norm at most ``l2_bound``. With sensitivity D and noise deviation s the release is (D /
    s)-GDP.

    Guarantee: the noise that is drawn has the deviation that the event records, because both are read from
    this object; a release without a finite, positive amount of noise or without a bound cannot be
    constructed.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383 (accounting); Mironov (2012),
    doi:10.1145/2382196.2382264 (why the grid).
    """

    name: str
    """Unique in its run."""
    rows: int
    """Number of rows, for example items; > 0."""
    width: int
    """Numbers in a row; > 0. In the symmetric layout d (d + 1) / 2."""
    layout: Layout
    """"vector", or "symmetric": rows are packed upper triangles, row-major, of d x d matrices."""
    grid_step: float
    """Real value of one grid unit; > 0."""
    l2_bound: int
    """Largest L2 norm of one user's contribution, grid units, in isometric coordinates (off-diagonals times
    sqrt 2).
    """
    same_sign: bool
    """Whether the contributions of any two users have a non-negative inner product."""
    adjacency: Adjacency
    """What neighbouring means for this release."""
    noise_multiplier: float
    """z = noise deviation / sensitivity under this release's own adjacency; > 0."""
    covers: str
    """One phrase that says what is summed, for ledger and certificate."""
    participation: Mapping[str, Any] | None = None
    """How it was decided who takes part, see ``events.participation_problems``; None: everybody does."""

    def __post_init__(self) -> None:
        """Refuse what would be no privacy at all.

        Raises:
            PrivacyError: a field is missing, not finite or out of range.
        """
        parse_adjacency(self.adjacency)
        problems = stated_problems(self._stated())
        if not problems:
            problems = derived_problems(self.event())
        if problems:
            raise PrivacyError(f"release {self.name!r} is refused: {'; '.join(problems)}")
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))

    @property
    def l2_sensitivity(self) -> float:
        """Largest L2 change between neighbours, grid units."""
        return self.l2_bound * sensitivity_factor(self.adjacency, same_sign=self.same_sign)

    @property
    def noise_stddev(self) -> float:
        """Deviation of the noise on one isometric coordinate, grid units."""
        return self.noise_multiplier * self.l2_sensitivity

    @property
    def release_shift(self) -> int:
        """Low bits that are dropped after the noise, see ``events.release_shift``."""
        return release_shift(self.noise_stddev)

    @property
    def published_step(self) -> float:
        """Real value of one unit of what is published."""
        return math.ldexp(self.grid_step, self.release_shift)

    def keeps_bound(self, rows: IntArray) -> BoolArray:
        """Which users' rows of a total keep bound and sign as stated, in exact integers; bool, shape (n_users,)."""
        kept = keeps_l2_bound(rows, self.l2_bound)
        if self.same_sign:  # the smaller factor of ``replace`` relies on it
            kept &= np.all(rows >= 0, axis=1)
        return kept

    def column_stddev(self) -> FloatArray:
        """Noise deviation of each column, grid units, float64, shape (width,).

        In the symmetric layout off-diagonals get 1 / sqrt 2 of the diagonal: the noise is isotropic in the
        coordinates ``(a_ii, sqrt2 a_ij)``, whose inner product is that of the matrices.
        """
        deviations = np.full(self.width, self.noise_stddev)
        rank = symmetric_rank(self.width)
        if self.layout == "symmetric" and rank is not None:
            diagonal = [a * rank - a * (a - 1) // 2 for a in range(rank)]
            deviations /= math.sqrt(2.0)
            deviations[diagonal] = self.noise_stddev
        return deviations

    def event(self) -> dict[str, Any]:
        """The JSON record of this release, for ledger and certificate."""
        return {
            **self._stated(),
            "l2_sensitivity": self.l2_sensitivity,
            "noise_stddev": self.noise_stddev,
            "release_shift": self.release_shift,
        }

    def book(self, ledger: "Ledger", noise: NoiseSource, *, reissue: bool = False) -> "BookedRelease":
        """Pay for this release; the only way to its noise.

        Args:
            ledger: where the event is made durable before this returns.
            noise: where the draws come from.
            reissue: accept that the identical release with the identical seeded noise is booked already, as
                in a simulation that resumes; refused for private noise.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing was written.
            PrivacyError: the name is taken, or the adjacency is not the budget's.
        """
        event = {**self.event(), **noise.describe()}
        receipt = ledger.book(event, reissue=reissue)
        return BookedRelease(release=self, event=event, receipt=receipt, stream=noise.stream(self.name))

    def _stated(self) -> dict[str, Any]:
        stated = {
            "mechanism": "gaussian",
            "name": self.name,
            "rows": self.rows,
            "width": self.width,
            "layout": self.layout,
            "grid_step": self.grid_step,
            "l2_bound": self.l2_bound,
            "same_sign": self.same_sign,
            "adjacency": str(self.adjacency),
            "noise_multiplier": self.noise_multiplier,
            "covers": self.covers,
        }
        if self.participation is not None:
            is_object = isinstance(self.participation, Mapping)
            stated["participation"] = dict(self.participation) if is_object else self.participation
        return stated


@dataclass(slots=True, kw_only=True, eq=False)
class BookedRelease:
    """A release that has been paid for; each of its rows can be published once.

    Can be pickled. Several processes share one booked release by ``part``: each gets rows of its own.
    A receipt opens one booked release. Not guaranteed: a copy made behind its back (pickling the same object twice,
    fork) counts for itself.
    """

    release: GaussianRelease
    event: Event
    """What was booked, with the noise source."""
    receipt: "Receipt"
    stream: NoiseStream = field(repr=False)
    _open: BoolArray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Hold the receipt against the release.

        Raises:
            PrivacyError: the receipt is for another event than the noise of this release, or noise from a seed
                is booked as private, or the receipt was used before.
        """
        require_paid(self.release.event(), self.event, self.receipt, self.stream)
        if self._open is None:
            self.receipt.use()
            self._open = np.ones(self.release.rows, dtype=np.bool_)

    def part(self, start_row: int, stop_row: int) -> "BookedRelease":
        """Hand rows ``start_row:stop_row`` over to another owner; this object cannot publish them any more.

        Raises:
            PrivacyError: some of these rows were published or handed over before.
        """
        handed = np.zeros(self.release.rows, dtype=np.bool_)
        self._claim(start_row, stop_row)
        handed[start_row:stop_row] = True
        return BookedRelease(
            release=self.release, event=self.event, receipt=self.receipt, stream=self.stream, _open=handed
        )

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        """Add the noise to rows ``start_row:start_row + k`` and return them in real units.

        ``floor((S + rint(sigma N)) / 2^shift) * 2^shift * grid_step``. Rounding commutes with adding the
        integer S, so this is a function of the continuous Gaussian mechanism's output and has exactly its
        guarantee. The draw of a number depends on its row and column alone, not on how rows are split over
        calls. Not guaranteed: more precision than 64-bit words and float64 have; a published value keeps its
        probability to about 1e-9 within 4 noise deviations and 1e-2 at 7, and none lies beyond 9.1.

        A release that is booked with noise shares has its noise in S already: ``floor(S / 2^shift) * 2^shift *
        grid_step``.

        Args:
            sums: int64, shape (k, width), exact sums of contributions in grid units, with the clients' shares of
                the noise where the release is booked so. Private.
            start_row: number of the first row.
            noise_shares: how many honest shares are in the sums at least; 0 for exact sums.
            residue_bits: where > 0, the sums are known modulo 2^residue_bits only, and so is what is published: it
                is reduced to within +-2^(residue_bits - 1) after the noise. A sum that was reduced before could
                jump from one end to the other because of one user, whatever the noise.

        Returns:
            float64, shape (k, width). Public.

        Raises:
            InputError: wrong shape or dtype.
            PrivacyError: a row was published before, the sums leave no headroom in 64 bits, or they hold fewer
                noise shares than are booked, or any although none are; nothing is returned.
        """
        self._check_sums(sums)
        self._check_shares(noise_shares)
        self._claim(start_row, start_row + sums.shape[0])
        if noise_shares:
            kept: FloatArray = (sums >> self.release.release_shift).astype(np.float64)
            return kept * self.release.published_step
        published = np.empty(sums.shape, dtype=np.float64)
        deviations = self.release.column_stddev()
        step = max(1, _NUMBERS_PER_CHUNK // self.release.width)
        for first in range(0, sums.shape[0], step):
            part = sums[first : first + step]
            bits = self.stream.bits((start_row + first) * part.shape[1], part.size)
            noisy = noisy_sums(
                part, bits, stddevs=deviations, shift=self.release.release_shift, backend=noise_backend()
            )
            if residue_bits:
                modulus = math.ldexp(1.0, residue_bits - self.release.release_shift)
                noisy = np.mod(noisy + modulus / 2, modulus) - modulus / 2  # exact: whole numbers below 2^53
            np.multiply(noisy, self.release.published_step, out=published[first : first + step])
        return published

    def _check_sums(self, sums: IntArray) -> None:
        if sums.dtype != np.int64 or sums.ndim != 2 or sums.shape[1] != self.release.width:
            raise InputError(
                f"sums of release {self.release.name!r} must be int64 of shape (k, {self.release.width})"
            )
        largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
        if largest + _LARGEST_DRAW * self.release.noise_stddev >= _HEADROOM:
            raise PrivacyError(
                f"release {self.release.name!r} does not fit 64-bit integers; use a coarser grid"
            )

    def _check_shares(self, noise_shares: int) -> None:
        booked = least_shares(self.event)
        if noise_shares < booked or (noise_shares and not booked):
            raise PrivacyError(
                f"release {self.release.name!r} is booked with {booked or 'no'} noise shares of clients, and its "
                f"sums hold {noise_shares or 'none'}; nothing was published"
            )

    def _claim(self, start_row: int, stop_row: int) -> None:
        if not 0 <= start_row <= stop_row <= self.release.rows:
            raise InputError(
                f"rows of release {self.release.name!r} must lie in 0:{self.release.rows}, "
                f"got {start_row}:{stop_row}"
            )
        assert self._open is not None  # set in __post_init__
        if not self._open[start_row:stop_row].all():
            raise PrivacyError(
                f"release {self.release.name!r}: rows in {start_row}:{stop_row} were published "
                "or handed over before"
            )
        self._open[start_row:stop_row] = False


_NEAR, _ULP = 1e-9, 2.0**-52
"""Relative distance from the bound beyond which float64 is sure: for width w it is off by less than w ulp."""
_TOO_LARGE = 1 << 63
"""For a sum of squares in 64 bits."""


def keeps_l2_bound(rows: IntArray, bound: int) -> BoolArray:
    """Which rows have a sum of squares of at most ``bound^2``, exactly; bool, shape (n,).

    In float64 where that is sure, in whole numbers where a row lies within 1e-9 of it.

    Args:
        rows: int64, shape (n, width), any values. Private.
        bound: whole number > 0. Public.
    """
    kept = np.zeros(rows.shape[0], dtype=np.bool_)
    step = max(1, _NUMBERS_PER_CHUNK // max(1, rows.shape[1]))
    for first in range(0, rows.shape[0], step):
        part = rows[first : first + step]
        values = part.astype(np.float64)
        lengths = np.sqrt(np.einsum("jw,jw->j", values, values)) / float(bound)
        kept[first : first + step] = lengths <= 1.0
        unsure = np.flatnonzero(np.abs(lengths - 1.0) <= max(_NEAR, rows.shape[1] * _ULP))
        if unsure.size:
            kept[first + unsure] = _squared_lengths(part[unsure]) <= bound * bound
    return kept


def _squared_lengths(rows: IntArray) -> "np.ndarray[tuple[int], np.dtype[Any]]":
    """Sums of squares, shape (n,): in 64 bits where none can exceed them, else as Python's whole numbers."""
    largest = max(int(rows.max()), -int(rows.min()))
    whole: np.ndarray[Any, Any] = rows.astype(
        np.int64 if largest * largest * rows.shape[1] < _TOO_LARGE else np.object_
    )
    return np.asarray((whole * whole).sum(axis=1))


__all__ = ["Adjacency", "BookedRelease", "GaussianRelease", "Layout"]
