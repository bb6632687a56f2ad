"""Our quantiles against SciPy's, to the last bit, and the Mills ratio against more digits than a float has."""

import platform

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri, ndtri_exp

from fedboard.common.normal_quantiles import (
    fill_quantiles,
    mills_ratio,
    normal_below,
    quantile_of_logarithm,
)

WHERE_TAILS_BEGIN = (0.13533528323661269189, float(np.exp(-32.0)))
EDGES = [0.5, 2.0**-53, 2.0**-64, 1e-300, 5e-324, *2.0 ** -np.arange(2.0, 65.0)]
EDGES += [float(np.nextafter(edge, towards)) for edge in (0.5, *WHERE_TAILS_BEGIN) for towards in (0.0, edge)]
EDGES += [float(np.nextafter(edge, 1.0)) for edge in WHERE_TAILS_BEGIN]

built_with_other_roundings = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="SciPy joins multiplications and additions there"
)


@built_with_other_roundings
def test_quantiles_are_scipys_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 1 << 63, 1_000_000, dtype=np.uint64)
    small = rng.integers(0, 1 << 63, 100_000, dtype=np.uint64) >> rng.integers(
        0, 63, 100_000, dtype=np.uint64
    )
    drawn = (np.concatenate([words, small]) + np.uint64(1)) * 2.0**-64
    probabilities = np.concatenate([drawn, EDGES])

    found = np.empty_like(probabilities)
    fill_quantiles(probabilities, found)

    assert np.array_equal(found.view(np.uint64), ndtri(probabilities).view(np.uint64))
    fill_quantiles(probabilities, probabilities)
    assert np.array_equal(found, probabilities), "in place"


@built_with_other_roundings
def test_quantiles_of_logarithms_are_scipys_bit_for_bit() -> None:
    losses = 10.0 ** np.random.default_rng(1).uniform(-3, 4, 20_000)
    logarithms = [
        *(-np.logaddexp(0.0, losses)).tolist(),
        -2.0,
        float(np.nextafter(-2.0, -3.0)),
        -32.0,
        -1e300,
    ]

    assert [quantile_of_logarithm(value) for value in logarithms] == ndtri_exp(logarithms).tolist()


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 2), (2, 3), (3, 6), (6, 12), (12, 40), (40, 1e6)])
def test_the_mills_ratio_is_right_to_eight_roundings(low: float, high: float) -> None:
    """What the exact curve allows for."""
    with mpmath.workdps(40):
        for x in np.linspace(low, high, 150):
            density = mpmath.exp(-(mpmath.mpf(x) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi)
            exact = mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2 / density

            assert abs(mills_ratio(float(x)) / exact - 1) < 6 * 2.0**-52, x


def test_the_mills_ratio_of_what_is_far_out_is_one_over_it() -> None:
    assert mills_ratio(1e200) == 1e-200


def test_the_distribution_function_is_scipys() -> None:
    for x in np.linspace(-38, 38, 500):
        assert normal_below(float(x)) == pytest.approx(float(ndtr(x)), rel=1e-13)
