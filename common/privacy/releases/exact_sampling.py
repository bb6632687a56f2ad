"""Exact draws from random words: whole numbers and ratios only, so that no rounding touches a probability.

Reference: Canonne, Kamath and Steinke (2020), The discrete Gaussian for differential privacy, arXiv:2004.00010,
Alg. 1 and 2.
"""

from collections.abc import Iterator
from fractions import Fraction

from fedboard.common.privacy.releases.noise import NoiseStream

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
