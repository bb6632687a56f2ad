"""Few draws are made without the compiler: the same bits, and numba is loaded only where many are needed."""

import numpy as np
import pytest

from fedboard.common.arrays import BitArray
from fedboard.common.kernels import backends, noisy_sums
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.numpy import noise
from tests.common.kernels.conftest import COMPILED

TOP = np.uint64(1 << 63)


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
