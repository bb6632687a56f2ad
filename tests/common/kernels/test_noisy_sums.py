import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import noisy_sums, standard_normal

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


def test_noise_far_in_the_tail_is_added_as_drawn(backend):
    words = np.arange(0, 40, dtype=np.uint64) << np.uint64(20)
    words |= np.where(np.arange(40) % 2, np.uint64(1 << 63), np.uint64(0))
    sums = np.zeros((10, 4), np.int64)

    noisy = noisy_sums(sums, words, stddevs=np.full(4, 1e6), shift=0, backend=backend)

    draws = standard_normal(words, backend=backend).reshape(10, 4)
    assert np.abs(draws).min() > 6
    assert np.array_equal(noisy, np.rint(draws * 1e6))


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
