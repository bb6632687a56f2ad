"""Few draws are made without the compiler: the same bits, and numba is loaded only where many are needed."""

import numpy as np
import pytest
from scipy.special import ndtri

from fedboard.common.arrays import BitArray
from fedboard.common.errors import InputError
from fedboard.common.kernels import backends, noisy_sums, standard_normal
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.numpy import noise
from tests.common.kernels.conftest import COMPILED

TOP = np.uint64(1 << 63)


def test_draws_agree_with_the_exact_quantile_from_the_centre_to_the_last_tail_word(backend):
    rng = np.random.default_rng(0)
    words = rng.integers(0, TOP, 20_000, dtype=np.uint64) >> rng.integers(0, 63, 20_000, dtype=np.uint64)
    words = np.concatenate([words, np.arange(100, dtype=np.uint64)])

    draws = standard_normal(words, backend=backend)

    expected = ndtri((words + np.uint64(1)).astype(np.float64) * 2.0**-64)
    np.testing.assert_allclose(draws, expected, rtol=1e-14)


def test_shape_is_kept_and_other_types_are_refused(backend):
    assert standard_normal(np.zeros((2, 3), np.uint64), backend=backend).shape == (2, 3)
    assert standard_normal(np.zeros(0, np.uint64), backend=backend).shape == (0,)
    with pytest.raises(InputError):
        standard_normal(np.zeros(3, np.int64), backend=backend)


SHAPES = ((1, 1), (700, 3), (40, 36), (3, 2080), (2, 5000), (0, 4), (4, 0))


def problem(shape, largest=2**45):
    rng = np.random.default_rng(shape[0])
    return {
        "sums": rng.integers(-largest, largest, shape),
        "bits": rng.integers(0, 2**64, shape[0] * shape[1], dtype=np.uint64),
        "stddevs": rng.uniform(0.1, 2.0**40, shape[1]),
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [0, 1, 20])
def test_sums_are_noised_rounded_and_coarsened_number_by_number(backend, shape, shift):
    given = problem(shape)

    noisy = noisy_sums(**given, shift=shift, backend=backend)

    draws = standard_normal(given["bits"], backend=backend).reshape(shape)
    noise = np.rint(draws * given["stddevs"]).astype(np.int64)
    assert np.array_equal(noisy, ((given["sums"] + noise) >> shift).astype(np.float64))


def test_a_split_over_rows_does_not_show(backend):
    given = problem((90, 70))
    whole = noisy_sums(**given, shift=3, backend=backend)

    parts = [
        noisy_sums(
            given["sums"][a:b],
            given["bits"][70 * a : 70 * b],
            stddevs=given["stddevs"],
            shift=3,
            backend=backend,
        )
        for a, b in ((0, 1), (1, 77), (77, 90))
    ]

    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sums", np.zeros((3, 2))),
        ("sums", np.zeros(6, np.int64)),
        ("bits", np.zeros(5, np.uint64)),
        ("bits", np.zeros(6, np.int64)),
        ("stddevs", np.ones(3)),
        ("shift", -1),
        ("shift", 63),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, name, value):
    given = {
        "sums": np.zeros((3, 2), np.int64),
        "bits": np.zeros(6, np.uint64),
        "stddevs": np.ones(2),
        "shift": 0,
    }

    with pytest.raises(InputError):
        noisy_sums(**(given | {name: value}), backend=backend)


def words() -> BitArray:
    """From the centre, from both tails to their last word, and from both sides of where they meet."""
    rng = np.random.default_rng(0)
    anywhere = rng.integers(0, 2**64, 400_000, dtype=np.uint64)
    tails = rng.integers(0, TOP, 200_000, dtype=np.uint64) >> rng.integers(0, 63, 200_000, dtype=np.uint64)
    meet = [noise.TAIL_BELOW, np.exp(-(noise.FAR_TAIL_FROM**2))]
    near = np.concatenate([np.uint64(u * 2.0**64) + np.arange(4000, dtype=np.uint64) for u in meet])
    positive = np.concatenate([tails, near, np.arange(1000, dtype=np.uint64), [TOP - np.uint64(1)]])
    return np.concatenate([anywhere, positive, positive | TOP])


@pytest.mark.slow
@COMPILED
def test_the_draws_are_those_of_the_compiled_kernel_bit_for_bit() -> None:
    bits = words()
    compiled, ours = np.empty(bits.size), np.empty(bits.size)

    implementation("compiled", "noise").fill_normal(bits, compiled)
    noise.fill_compiled_normal(bits, ours)

    assert np.array_equal(ours.view(np.uint64), compiled.view(np.uint64))
    implementation("numpy", "noise").fill_normal(bits, ours)  # another approximation is told apart
    assert not np.array_equal(ours.view(np.uint64), compiled.view(np.uint64))


@COMPILED
def test_noised_sums_are_those_of_the_compiled_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    given = {
        "sums": rng.integers(-(2**45), 2**45, (700, 36)),
        "bits": rng.integers(0, 2**64, 700 * 36, dtype=np.uint64),
        "stddevs": rng.uniform(0.1, 2.0**40, 36),
    }
    implementation("compiled", "noise")
    compiled = noisy_sums(**given, shift=3, backend="compiled")

    monkeypatch.setattr(backends, "_COMPILED_DRAWS", "nothing that is loaded")
    monkeypatch.setattr(backends, "_drawn", 0)
    ours = noisy_sums(**given, shift=3, backend="compiled")

    assert backends._drawn == given["sums"].size
    assert np.array_equal(ours, compiled)
