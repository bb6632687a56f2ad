"""Packed matrices keep norms, and come back as they were."""

import numpy as np
import pytest

from fedboard.common.tasks.representation.local import (
    pack,
    pack_kronecker,
    packed_width,
    unpack,
    unpack_kronecker,
)


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    matrix = rng.standard_normal((size, size))
    return matrix + matrix.T


def test_a_packed_matrix_has_the_norm_of_the_matrix_and_unpacks_to_it() -> None:
    matrix = symmetric(np.random.default_rng(0), 5)

    packed = pack(matrix)

    assert packed.shape == (packed_width(5),)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(unpack(packed, 5), matrix)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_packed_product_has_the_norm_of_the_product_and_unpacks_to_it(rank: int) -> None:
    rng = np.random.default_rng(rank)
    left, right = symmetric(rng, 4), symmetric(rng, rank)

    packed = pack_kronecker(pack(left)[None], pack(right)[None])[0]

    whole = np.kron(left, right)
    assert packed.size <= packed_width(4 * rank)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(whole))
    np.testing.assert_allclose(unpack_kronecker(packed, 4, rank), whole, atol=1e-12)


def test_the_packed_product_is_that_of_vectorised_outer_products() -> None:
    rng = np.random.default_rng(7)
    x, v = rng.standard_normal(4), rng.standard_normal(2)
    along = np.outer(x, v).ravel()

    packed = pack_kronecker(pack(np.outer(x, x))[None], pack(np.outer(v, v))[None])[0]

    np.testing.assert_allclose(unpack_kronecker(packed, 4, 2), np.outer(along, along), atol=1e-12)
