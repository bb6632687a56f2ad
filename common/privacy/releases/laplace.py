"""Laplace releases on the integer grid: one object states the noise, books it and draws it exactly."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency, l1_factor, parse_adjacency
from fedboard.common.privacy.events import require_sound
from fedboard.common.privacy.releases.booking import BookedOnce
from fedboard.common.privacy.releases.exact_sampling import RandomWords
from fedboard.common.privacy.releases.noise import NoiseSource

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceRelease:
    """A sum over users, to be published with Laplace noise. Every field is public.

    One user gives ``width`` integers on a grid with absolute values of sum at most ``l1_bound``. With sensitivity D
    and noise scale b the release is (D / b)-differentially private, with delta 0.

    Guarantee: the noise that is drawn has the scale that the event records, because both are read from this
    object; no probability is rounded (``exact_sampling``).

    Reference: Dwork, McSherry, Nissim and Smith (2006), doi:10.1007/11681878_14.
    """

    rows: ClassVar[int] = 1
    participation: ClassVar[None] = None
    same_sign: ClassVar[bool] = False

    name: str
    """Unique in its ledger."""
    width: int
    """Numbers that are published; > 0."""
    grid_step: float
    """Real value of one grid unit; > 0."""
    l1_bound: int
    """Largest sum of absolute values in one user's contribution, grid units."""
    adjacency: Adjacency
    """What neighbouring means for this release."""
    noise_multiplier: float
    """z = noise scale / sensitivity under this release's own adjacency; > 0. Epsilon is 1 / z."""
    covers: str
    """One phrase that says what is summed, for ledger and certificate."""

    def __post_init__(self) -> None:
        """Refuse what would be no privacy at all.

        Raises:
            PrivacyError: a field is missing, not finite or out of range.
        """
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))
        require_sound(self.event())

    @property
    def l1_sensitivity(self) -> float:
        """Largest L1 change between neighbours, grid units."""
        return self.l1_bound * l1_factor(self.adjacency)

    @property
    def noise_scale(self) -> float:
        """Scale b of the noise on each number, grid units; its deviation is sqrt 2 b."""
        return self.noise_multiplier * self.l1_sensitivity

    def keeps_bound(self, rows: IntArray) -> BoolArray:
        """Which users' rows keep the bound, in exact integers; bool, shape (n_users,)."""
        return keeps_l1_bound(rows, self.l1_bound)

    def event(self) -> dict[str, Any]:
        """The JSON record of this release, for ledger and certificate."""
        return {
            "mechanism": "laplace",
            "name": self.name,
            "width": self.width,
            "grid_step": self.grid_step,
            "l1_bound": self.l1_bound,
            "adjacency": str(self.adjacency),
            "noise_multiplier": self.noise_multiplier,
            "covers": self.covers,
            "l1_sensitivity": self.l1_sensitivity,
            "noise_scale": self.noise_scale,
        }

    def book(self, ledger: "Ledger", noise: NoiseSource) -> "BookedLaplace":
        """Pay for this release; the only way to its noise.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing was written.
            PrivacyError: the name is taken, or the adjacency is not the budget's.
        """
        event = {**self.event(), **noise.describe()}
        receipt = ledger.book(event)
        return BookedLaplace(release=self, event=event, receipt=receipt, stream=noise.stream(self.name))


@dataclass(slots=True, kw_only=True, eq=False)
class BookedLaplace(BookedOnce[LaplaceRelease]):
    """A release that has been paid for; it can be published once, and not be copied."""

    def publish(self, sums: IntArray) -> FloatArray:
        """Add the noise and return real units.

        Args:
            sums: int64, ``width`` exact sums in grid units, in any shape. Private.

        Returns:
            float64, shape (width,). Public.

        Raises:
            InputError: wrong size or dtype.
            PrivacyError: it was published before.
        """
        if sums.dtype != np.int64 or sums.size != self.release.width:
            raise InputError(
                f"sums of release {self.release.name!r} must be {self.release.width} int64 numbers"
            )
        self._use_up(f"release {self.release.name!r} was published before")
        scale, words = Fraction(self.release.noise_scale), RandomWords(self.stream)
        noised = [int(value) + words.rounded_laplace(scale) for value in sums.ravel()]
        return np.array(noised, dtype=np.float64) * self.release.grid_step


def keeps_l1_bound(rows: IntArray, bound: int) -> BoolArray:
    """Which rows have absolute values of sum at most ``bound``, in exact integers; bool, shape (n_users,)."""
    # Where a number alone exceeds the bound, so does the sum; capped, the sum cannot overflow.
    capped = np.minimum(np.abs(np.maximum(rows, -np.iinfo(np.int64).max)), bound + 1)
    kept: BoolArray = capped.sum(axis=1) <= bound
    return kept
