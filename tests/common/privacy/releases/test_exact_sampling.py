"""Draws without rounded probabilities: each law is held against its own, and a wrong one is noticed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fedboard.common.privacy.releases.noise import SecretStream, SeededStream
from fedboard.common.privacy.releases.pure import RandomWords

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-8
N_DRAWS = 20_000


@pytest.fixture
def words() -> RandomWords:
    return RandomWords(SecretStream.fresh())


def rounded_laplace(scale: float, reach: int) -> np.ndarray:
    """Probabilities of ``-reach..reach``, the ends with what lies beyond."""
    ends = np.concatenate([[-np.inf], np.arange(-reach, reach) + 0.5, [np.inf]])
    return np.diff(stats.laplace(scale=scale).cdf(ends))


def p_value(draws: list[int], probabilities: np.ndarray, lowest: int) -> float:
    cells = np.clip(np.array(draws) - lowest, 0, probabilities.size - 1)
    counts = np.bincount(cells, minlength=probabilities.size)
    return float(stats.chisquare(counts, probabilities * len(draws)).pvalue)


@pytest.mark.parametrize("n", [1, 2, 3, 100, 2**64 + 5])
def test_whole_numbers_below_a_limit_are_equally_likely(words: RandomWords, n: int) -> None:
    draws = [words.below(n) for _ in range(N_DRAWS)]

    assert min(draws) >= 0
    assert max(draws) < n
    cells = min(n, 50)
    if cells > 1:
        counts = np.bincount([draw * cells // n for draw in draws], minlength=cells)
        sizes = np.array([-(-(k + 1) * n // cells) - -(-k * n // cells) for k in range(cells)]) / n
        assert stats.chisquare(counts, sizes * N_DRAWS).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(7, 2)]
)
def test_an_exponential_coin_falls_with_its_probability(words: RandomWords, exponent: Fraction) -> None:
    heads = sum(words.exponential_coin(exponent) for _ in range(N_DRAWS))

    assert stats.binomtest(heads, N_DRAWS, math.exp(-exponent)).pvalue > FALSE_ALARM
    if exponent:
        assert stats.binomtest(heads, N_DRAWS, math.exp(-1.3 * exponent - 0.05)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(20.123)])
def test_rounded_laplace_draws_have_the_probabilities_of_their_cells(
    words: RandomWords, scale: Fraction
) -> None:
    reach = math.ceil(5 * scale)
    draws = [words.rounded_laplace(scale) for _ in range(N_DRAWS)]

    assert p_value(draws, rounded_laplace(float(scale), reach), -reach) > FALSE_ALARM
    for wrong_by in (0.8, 1.2):
        assert p_value(draws, rounded_laplace(wrong_by * float(scale), reach), -reach) < FALSE_ALARM


def test_fine_laplace_draws_follow_the_continuous_law(words: RandomWords) -> None:
    scale = 2.0**41
    draws = (
        np.array([words.rounded_laplace(Fraction(scale)) for _ in range(N_DRAWS)], dtype=np.float64) / scale
    )

    assert stats.kstest(draws, stats.laplace.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(0.85 * draws, stats.laplace.cdf).pvalue < FALSE_ALARM


def test_one_seed_gives_one_row_of_draws() -> None:
    rows = [
        [words.rounded_laplace(Fraction(100)) for _ in range(20)]
        for words in (
            RandomWords(SeededStream.of(3, "question")),
            RandomWords(SeededStream.of(3, "question")),
        )
    ]

    assert rows[0] == rows[1]
