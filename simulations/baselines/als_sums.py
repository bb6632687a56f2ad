"""The item step of ALS from sums over users, so that no user's vector has to be kept. Float64, not private."""

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.kernels.packed import packed_size
from fedboard.simulations.baselines.als import AlsModel, labels_of
from fedboard.simulations.baselines.als_config import AlsConfig

MOST_BYTES = 2 << 30
"""Of one set of sums; a worker holds one."""
_PRODUCT_BYTES = 1 << 25
_ITEMS_AT_ONCE = 4096


def item_sum_shapes(model: AlsModel) -> dict[str, tuple[int, ...]]:
    """Of what ``add_item_sums`` adds to.

    Raises:
        InputError: a worker cannot hold them.
    """
    n_items, width = model.item_coordinates.shape
    needed = 8 * n_items * (packed_size(width) + width)
    if needed > MOST_BYTES:
        raise InputError(
            f"ALS on a stream keeps a matrix per item, {needed / 2**30:.1f} GiB for {n_items} items at width "
            f"{width}, and {MOST_BYTES / 2**30:.0f} GiB are allowed; fit it at a smaller rank"
        )
    shapes: dict[str, tuple[int, ...]] = {
        "products": (n_items, packed_size(width)),
        "linear": (n_items, width),
    }
    return {**shapes, "gram": (width, width)} if model.config.unobserved_weight > 0 else shapes


def add_item_sums(model: AlsModel, cohort: Cohort, sums: dict[str, FloatArray]) -> None:
    """Add, over the users x of each item, x x^T (packed upper triangles) and label x; and x x^T over all users.

    Args:
        model: whose items the users' vectors are solved on, here and now.
        cohort: private.
        sums: of ``item_sum_shapes``, added to in place.
    """
    users = model.fit_local(cohort).astype(np.float64)
    labels = labels_of(model, cohort).astype(np.float64)
    if "gram" in sums:
        sums["gram"] += users.T @ users
    if model.config.biases:
        labels = labels - users[cohort.user_of_entry(), 0]
        users[:, 0] = 1.0
    shape = (cohort.n_users, cohort.n_items)
    rated = csr_array((np.ones(cohort.items.size), cohort.items, cohort.indptr), shape=shape).T.tocsr()
    sums["linear"] += csr_array((labels, cohort.items, cohort.indptr), shape=shape).T @ users
    rows, columns = np.triu_indices(users.shape[1])
    at_once = max(1, _PRODUCT_BYTES // (8 * max(cohort.n_users, cohort.n_items)))
    for start in range(0, rows.size, at_once):
        some = slice(start, start + at_once)
        sums["products"][:, some] += rated @ (users[:, rows[some]] * users[:, columns[some]])


def solve_items(
    sums: dict[str, FloatArray], ridge: Float32Array, counts: FloatArray, config: AlsConfig
) -> Float32Array:
    """Every item's coordinates, float32, shape (n_items, width); zeros for an item that nobody rated.

    Args:
        sums: over all users.
        ridge: of each item, shape (n_items,).
        counts: ratings of each item, shape (n_items,).
        config: of the fit.
    """
    n_items, width = sums["linear"].shape
    rows, columns = np.triu_indices(width)
    added = config.unobserved_weight * sums["gram"] if "gram" in sums else np.zeros((width, width))
    solved = np.zeros((n_items, width), dtype=np.float32)
    for start in range(0, n_items, _ITEMS_AT_ONCE):
        some = slice(start, min(start + _ITEMS_AT_ONCE, n_items))
        matrices = np.empty((some.stop - start, width, width))
        matrices[:, rows, columns] = matrices[:, columns, rows] = sums["products"][some]
        matrices += added
        matrices[:, range(width), range(width)] += ridge[some, None]
        found = np.linalg.solve(matrices, sums["linear"][some, :, None])[..., 0]
        solved[some] = np.where(counts[some, None] > 0, found, 0.0)
    return solved
