"""Random sets of items."""

import numpy as np

from fedboard.common.arrays import IndexArray


def random_supports(n_rows: int, size: int, n_items: int, rng: np.random.Generator) -> IndexArray:
    """Distinct items for each row, ascending, int32, shape (n_rows, size), each set equally likely."""
    if size == 0:
        return np.empty((n_rows, 0), dtype=np.int32)
    if size * size > n_items:  # drawing again until all are distinct would take for ever
        rows = [rng.permutation(n_items)[:size] for _ in range(n_rows)]
        return np.sort(np.array(rows, dtype=np.int32).reshape(n_rows, size), axis=1)
    # Drawn with repetition, and again where an item repeats: what remains is equally likely in every order.
    drawn = np.sort(rng.integers(0, n_items, (n_rows, size)), axis=1)
    while (clash := (np.diff(drawn, axis=1) == 0).any(axis=1)).any():
        drawn[clash] = np.sort(rng.integers(0, n_items, (int(clash.sum()), size)), axis=1)
    return drawn.astype(np.int32)
