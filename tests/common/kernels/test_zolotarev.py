import numpy as np
import pytest

from fedboard.common.kernels.backends import has_compiler

if not has_compiler():
    pytest.skip("numba is not installed", allow_module_level=True)

from fedboard.common.kernels.compiled.psd import N_POLES, SMALLEST, sign_coefficients


def test_fractions_used_for_the_projection_give_the_sign_within_1e_12():
    poles, weights = sign_coefficients(SMALLEST, N_POLES)
    x = np.geomspace(SMALLEST, 1.0, 50_001)[:, np.newaxis]

    values = np.sum(x * weights / (x**2 + poles**2), axis=1)

    assert np.abs(values - 1.0).max() < 1e-12
