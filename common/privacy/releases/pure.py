"""Pure releases, Laplace and the exponential mechanism, with the exact draws that both need.

Exact draws from random words: whole numbers and ratios only, so that no rounding touches a probability.

Reference: Canonne, Kamath and Steinke (2020), The discrete Gaussian for differential privacy, arXiv:2004.00010,
Alg. 1 and 2.

Laplace releases on the integer grid: one object states the noise, books it and draws it exactly.

Exponential-mechanism releases: one object states how far a user moves a score, books the choice and draws it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency, l1_factor, parse_adjacency
from fedboard.common.privacy.events import Event, require_sound
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream, require_paid

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Ledger, Receipt


_WORD_BITS = 64
_WORDS_AT_ONCE = 64
_ONE = Fraction(1)


class RandomWords:
    """The words of a stream in order, each used once.

    Guarantee: every method has exactly the distribution that it states if the words are uniform. Not guaranteed:
    constant time; the time depends on what is drawn.
    """

    def __init__(self, stream: NoiseStream) -> None:
        """Begin at the first word."""
        self._words = _words_of(stream)

    def below(self, n: int) -> int:
        """Uniform on ``0..n - 1``, n > 0."""
        bits = max(n - 1, 0).bit_length()
        while True:
            drawn = 0
            for _ in range(-(-bits // _WORD_BITS)):
                drawn = drawn << _WORD_BITS | next(self._words)
            drawn >>= -bits % _WORD_BITS
            if drawn < n:
                return drawn

    def coin(self, probability: Fraction) -> bool:
        """True with this probability, in [0, 1]."""
        return self.below(probability.denominator) < probability.numerator

    def exponential_coin(self, exponent: Fraction) -> bool:
        """True with probability ``exp(-exponent)``, exponent >= 0."""
        while exponent > 1:
            if not self._unit_exponential_coin(_ONE):
                return False
            exponent -= 1
        return self._unit_exponential_coin(exponent)

    def _unit_exponential_coin(self, exponent: Fraction) -> bool:
        step = 1
        while self.coin(exponent / step):
            step += 1
        return step % 2 == 1

    def geometric(self, decay: Fraction) -> int:
        """A number k >= 0 with probability proportional to ``exp(-k decay)``, decay > 0."""
        numerator, denominator = decay.numerator, decay.denominator
        while True:
            part = self.below(denominator)
            if self.exponential_coin(Fraction(part, denominator)):
                break
        whole = 0
        while self._unit_exponential_coin(_ONE):
            whole += 1
        return (part + denominator * whole) // numerator

    def rounded_laplace(self, scale: Fraction) -> int:
        """A continuous Laplace draw of this scale, rounded to the nearest whole number.

        0 has probability ``1 - exp(-1 / (2 scale))``; given another outcome, its sign is fair and its magnitude
        less 1 geometric with ``exp(-1 / scale)``. Rounding commutes with adding an integer, so the sum is exactly
        post-processing of the continuous mechanism: it has that one's guarantee, and no correction.
        """
        decay = 1 / scale
        if not self.exponential_coin(decay / 2):
            return 0
        magnitude = 1 + self.geometric(decay)
        return -magnitude if self.below(2) else magnitude


def _words_of(stream: NoiseStream) -> Iterator[int]:
    offset = 0
    while True:
        yield from stream.bits(offset, _WORDS_AT_ONCE).tolist()
        offset += _WORDS_AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class _PureRelease:
    """What releases with delta 0 state, and how they are paid for."""

    MECHANISM: ClassVar[str]
    DERIVED: ClassVar[tuple[str, ...]]
    """Numbers that follow from the fields, and are stated beside them."""

    name: str
    """Unique in its ledger."""
    adjacency: Adjacency
    """What neighbouring means for this release."""
    noise_multiplier: float
    """z; epsilon is 1 / z; > 0."""
    covers: str
    """One phrase that says what is summed or chosen, for ledger and certificate."""

    def __post_init__(self) -> None:
        """Refuse what would be no privacy at all.

        Raises:
            PrivacyError: a field is missing, not finite or out of range.
        """
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))
        require_sound(self.event())

    def event(self) -> dict[str, Any]:
        """The JSON record of this release, for ledger and certificate."""
        stated = {name: getattr(self, name) for name in (*(f.name for f in fields(self)), *self.DERIVED)}
        return {"mechanism": self.MECHANISM, **stated, "adjacency": str(self.adjacency)}

    def _paid(self, ledger: "Ledger", noise: NoiseSource) -> dict[str, Any]:
        event = {**self.event(), **noise.describe()}
        return {"event": event, "receipt": ledger.book(event), "stream": noise.stream(self.name)}


Stated = TypeVar("Stated", bound=_PureRelease)


@dataclass(slots=True, kw_only=True, eq=False)
class BookedOnce(Generic[Stated]):
    """A release that has been paid for; it can be drawn once as a whole, and not be copied."""

    release: Stated
    event: Event
    """What was booked, with the noise source."""
    receipt: "Receipt"
    stream: NoiseStream = field(repr=False)
    _drawn: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Hold the receipt against the release.

        Raises:
            PrivacyError: they do not belong together, or the receipt was used before.
        """
        require_paid(self.release.event(), self.event, self.receipt, self.stream)
        self.receipt.use()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: a copy would draw with the same randomness again."""
        raise PrivacyError(f"release {self.release.name!r} is paid for once and cannot be copied")

    def _use_up(self, before: str) -> None:
        """Let the draw be made, once.

        Raises:
            PrivacyError: it was made before, in the words of ``before``.
        """
        if self._drawn:
            raise PrivacyError(before)
        self._drawn = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceRelease(_PureRelease):
    """A sum over users, to be published with Laplace noise. Every field is public.

    One user gives ``width`` integers on a grid with absolute values of sum at most ``l1_bound``. With sensitivity D
    and noise scale b the release is (D / b)-differentially private, with delta 0.

    Guarantee: the noise that is drawn has the scale that the event records, because both are read from this
    object; no probability is rounded (``RandomWords``).

    Reference: Dwork, McSherry, Nissim and Smith (2006), doi:10.1007/11681878_14.
    """

    MECHANISM: ClassVar[str] = "laplace"
    DERIVED: ClassVar[tuple[str, ...]] = ("l1_sensitivity", "noise_scale")
    rows: ClassVar[int] = 1
    participation: ClassVar[None] = None
    same_sign: ClassVar[bool] = False

    width: int
    """Numbers that are published; > 0."""
    grid_step: float
    """Real value of one grid unit; > 0."""
    l1_bound: int
    """Largest sum of absolute values in one user's contribution, grid units."""

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

    def book(self, ledger: "Ledger", noise: NoiseSource) -> "BookedLaplace":
        """Pay for this release; the only way to its noise.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing was written.
            PrivacyError: the name is taken, or the adjacency is not the budget's.
        """
        return BookedLaplace(release=self, **self._paid(ledger, noise))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialRelease(_PureRelease):
    """A choice among public candidates, likelier where a whole-number penalty is small. Every field is public.

    ``P(k) ~ base_k exp(-penalty_k / scale)`` with ``scale = 2 z D``, where no penalty changes by more than D
    between neighbours. It is (1 / z)-differentially private with delta 0; moreover its losses lie in a range of
    1 / z, so beside Gaussians it counts like Laplace noise of half the epsilon (``events.event_mu``).

    Guarantee: the choice has exactly these probabilities (``RandomWords``). Not guaranteed: that the penalties
    keep to D, which whoever computes them has to prove; a time that is independent of the penalties.

    Reference: McSherry and Talwar (2007), doi:10.1109/FOCS.2007.66; Dong, Durfee and Rogers (2020),
    arXiv:1909.13830 (bounded range).
    """

    MECHANISM: ClassVar[str] = "exponential"
    DERIVED: ClassVar[tuple[str, ...]] = ("score_scale",)

    candidates: int
    """Number of candidates; > 0."""
    score_sensitivity: int
    """D: largest change of any candidate's penalty between neighbours under this release's own adjacency; > 0."""

    @property
    def score_scale(self) -> float:
        """Penalty that makes a candidate e times less likely."""
        return 2.0 * self.noise_multiplier * self.score_sensitivity

    def book(self, ledger: "Ledger", noise: NoiseSource) -> "BookedChoice":
        """Pay for this release; the only way to its draw.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing was written.
            PrivacyError: the name is taken, or the adjacency is not the budget's.
        """
        return BookedChoice(release=self, **self._paid(ledger, noise))


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
