import numpy as np
import pytest
from scipy.special import log_ndtr, ndtri

from fedboard.common.errors import InputError
from fedboard.common.kernels import standard_normal

TOP = np.uint64(1 << 63)


def test_draws_agree_with_the_exact_quantile_from_the_centre_to_the_last_tail_word(backend):
    rng = np.random.default_rng(0)
    words = rng.integers(0, TOP, 20_000, dtype=np.uint64) >> rng.integers(0, 63, 20_000, dtype=np.uint64)
    words = np.concatenate([words, np.arange(100, dtype=np.uint64)])

    draws = standard_normal(words, backend=backend)

    expected = ndtri((words + np.uint64(1)).astype(np.float64) * 2.0**-64)
    np.testing.assert_allclose(draws, expected, rtol=1e-14)


def test_smallest_word_lies_where_the_distribution_function_is_two_to_the_minus_64(backend):
    draw = standard_normal(np.zeros(1, np.uint64), backend=backend)

    assert log_ndtr(draw[0]) == pytest.approx(-64 * np.log(2.0), rel=1e-13)


def test_shape_is_kept_and_other_types_are_refused(backend):
    assert standard_normal(np.zeros((2, 3), np.uint64), backend=backend).shape == (2, 3)
    assert standard_normal(np.zeros(0, np.uint64), backend=backend).shape == (0,)
    with pytest.raises(InputError):
        standard_normal(np.zeros(3, np.int64), backend=backend)
