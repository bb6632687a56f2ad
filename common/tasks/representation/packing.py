"""Symmetric matrices as rows of numbers that keep inner products, and back."""

import numpy as np

from fedboard.common.arrays import FloatArray

_ROOT_TWO = np.sqrt(2.0)


def packed_width(size: int) -> int:
    """Numbers of a packed symmetric matrix of that size."""
    return size * (size + 1) // 2


def pack(matrices: FloatArray) -> FloatArray:
    """Upper triangles, row-major, with off-diagonals times sqrt 2: the norm of a row is the Frobenius norm.

    Args:
        matrices: float64, shape (..., size, size), symmetric.

    Returns:
        float64, shape (..., size (size + 1) / 2).
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    packed: FloatArray = matrices[..., rows, columns] * np.where(rows == columns, 1.0, _ROOT_TWO)
    return packed


def unpack(packed: FloatArray, size: int) -> FloatArray:
    """The inverse of ``pack``; float64, shape (..., size, size)."""
    rows, columns = np.triu_indices(size)
    values = packed / np.where(rows == columns, 1.0, _ROOT_TWO)
    matrices = np.empty((*packed.shape[:-1], size, size))
    matrices[..., rows, columns] = values
    matrices[..., columns, rows] = values
    return matrices


def pack_kronecker(left: FloatArray, right: FloatArray) -> FloatArray:
    """``G (x) H`` of symmetric G and H by the packed forms of both: fewer numbers than the symmetric product has.

    Args:
        left: packed G, float64, shape (n, p).
        right: packed H, float64, shape (n, q).

    Returns:
        float64, shape (n, p q); its norm is ``|G| |H|``, that of the product.
    """
    return (left[:, :, None] * right[:, None, :]).reshape(left.shape[0], -1)


def unpack_kronecker(packed: FloatArray, left_size: int, right_size: int) -> FloatArray:
    """A sum of products ``G (x) H`` as a matrix; float64, shape (left_size right_size,) * 2.

    Row ``a right_size + p`` stands for entry (a, p).
    """
    by_left = packed.reshape(packed_width(left_size), packed_width(right_size))
    right = unpack(by_left, right_size)
    both = unpack(np.moveaxis(right, 0, -1), left_size)  # right, right, left, left
    size = left_size * right_size
    return both.transpose(2, 0, 3, 1).reshape(size, size)
