import numpy as np
import pytest
from scipy.special import ellipj, ellipkm1

from fedboard.common.kernels.backends import has_compiler

if not has_compiler():
    pytest.skip("numba is not installed", allow_module_level=True)

from fedboard.common.kernels.compiled.zolotarev import N_POLES, SMALLEST, sign_coefficients


def test_fractions_used_for_the_projection_give_the_sign_within_1e_12():
    poles, weights = sign_coefficients(SMALLEST, N_POLES)
    x = np.geomspace(SMALLEST, 1.0, 50_001)[:, np.newaxis]

    values = np.sum(x * weights / (x**2 + poles**2), axis=1)

    assert np.abs(values - 1.0).max() < 1e-12


@pytest.mark.parametrize("n_poles", [4, 9, 16])
def test_poles_are_those_of_the_elliptic_functions(n_poles):
    smallest = 1e-6
    argument = np.arange(1, 2 * n_poles, 2) / (2 * n_poles) * ellipkm1(smallest**2)
    sine, cosine, _, _ = ellipj(argument, 1.0 - smallest**2)

    poles, _ = sign_coefficients(smallest, n_poles)

    lower = slice(0, n_poles // 2)  # beyond, ellipj itself loses digits
    np.testing.assert_allclose(poles[lower], (smallest * sine / cosine)[lower], rtol=1e-6)


def test_error_swings_evenly_as_that_of_a_best_approximation():
    poles, weights = sign_coefficients(1e-6, 8)
    x = np.geomspace(1e-6, 1.0, 200_001)[:, np.newaxis]

    error = np.sum(x * weights / (x**2 + poles**2), axis=1) - 1.0

    inner = error[1:-1]
    turns = np.flatnonzero((inner - error[:-2]) * (error[2:] - inner) < 0) + 1
    extremes = np.concatenate([error[:1], error[turns], error[-1:]])
    assert extremes.size == 17  # one more than the 2 r numbers that were free to choose
    assert np.all(extremes[1:] * extremes[:-1] < 0)
    np.testing.assert_allclose(np.abs(extremes), np.abs(extremes[0]), rtol=1e-3)


def test_coefficients_are_made_once_in_a_process_and_nobody_changes_them():
    found = sign_coefficients(SMALLEST, N_POLES)

    assert sign_coefficients(SMALLEST, N_POLES) is found
    for array in found:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
