"""Exponential-mechanism releases: one object states how far a user moves a score, books the choice and draws it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.events import require_sound
from fedboard.common.privacy.releases.booking import BookedOnce
from fedboard.common.privacy.releases.exact_sampling import RandomWords
from fedboard.common.privacy.releases.noise import NoiseSource

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialRelease:
    """A choice among public candidates, likelier where a whole-number penalty is small. Every field is public.

    ``P(k) ~ base_k exp(-penalty_k / scale)`` with ``scale = 2 z D``, where no penalty changes by more than D
    between neighbours. It is (1 / z)-differentially private with delta 0; moreover its losses lie in a range of
    1 / z, so beside Gaussians it counts like Laplace noise of half the epsilon (``events.event_mu``).

    Guarantee: the choice has exactly these probabilities (``exact_sampling``). Not guaranteed: that the penalties
    keep to D, which whoever computes them has to prove; a time that is independent of the penalties.

    Reference: McSherry and Talwar (2007), doi:10.1109/FOCS.2007.66; Dong, Durfee and Rogers (2020),
    arXiv:1909.13830 (bounded range).
    """

    name: str
    """Unique in its ledger."""
    candidates: int
    """Number of candidates; > 0."""
    score_sensitivity: int
    """D: largest change of any candidate's penalty between neighbours under this release's own adjacency; > 0."""
    adjacency: Adjacency
    """What neighbouring means for this release."""
    noise_multiplier: float
    """z; epsilon is 1 / z; > 0."""
    covers: str
    """One phrase that says what is chosen, for ledger and certificate."""

    def __post_init__(self) -> None:
        """Refuse what would be no privacy at all.

        Raises:
            PrivacyError: a field is missing, not finite or out of range.
        """
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))
        require_sound(self.event())

    @property
    def score_scale(self) -> float:
        """Penalty that makes a candidate e times less likely."""
        return 2.0 * self.noise_multiplier * self.score_sensitivity

    def event(self) -> dict[str, Any]:
        """The JSON record of this release, for ledger and certificate."""
        return {
            "mechanism": "exponential",
            "name": self.name,
            "candidates": self.candidates,
            "score_sensitivity": self.score_sensitivity,
            "adjacency": str(self.adjacency),
            "noise_multiplier": self.noise_multiplier,
            "covers": self.covers,
            "score_scale": self.score_scale,
        }

    def book(self, ledger: "Ledger", noise: NoiseSource) -> "BookedChoice":
        """Pay for this release; the only way to its draw.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing was written.
            PrivacyError: the name is taken, or the adjacency is not the budget's.
        """
        event = {**self.event(), **noise.describe()}
        receipt = ledger.book(event)
        return BookedChoice(release=self, event=event, receipt=receipt, stream=noise.stream(self.name))


@dataclass(slots=True, kw_only=True, eq=False)
class BookedChoice(BookedOnce[ExponentialRelease]):
    """A choice that has been paid for; it can be made once, and not be copied."""

    def choose(self, penalties: Sequence[int], base: Sequence[int] | None = None) -> int:
        """Draw a candidate.

        A candidate is drawn from the base distribution and kept with probability ``exp(-(penalty - smallest) /
        scale)``, until one is kept.

        Args:
            penalties: one whole number a candidate. Private.
            base: one whole number > 0 a candidate, its weight before the data are seen; None: all equal. Public.

        Returns:
            Its number. Public.

        Raises:
            InputError: another number of candidates, or a weight that is not a whole number > 0.
            PrivacyError: the choice was made before.
        """
        weights = [1] * self.release.candidates if base is None else [int(weight) for weight in base]
        if {len(penalties), len(weights)} != {self.release.candidates} or min(weights) < 1:
            raise InputError(
                f"release {self.release.name!r} needs a whole penalty and a whole weight > 0 for each of its "
                f"{self.release.candidates} candidates"
            )
        self._use_up(f"the choice of release {self.release.name!r} was made before")
        words, scale = RandomWords(self.stream), Fraction(self.release.score_scale)
        ends, smallest = list(accumulate(weights)), min(int(penalty) for penalty in penalties)
        while True:
            drawn = bisect_right(ends, words.below(ends[-1]))
            if words.exponential_coin((int(penalties[drawn]) - smallest) / scale):
                return drawn
