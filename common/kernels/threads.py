"""A pool of threads over row ranges. Rows are independent, so the split never shows in a result."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray

# Parts per thread: enough that one heavy part does not leave the other threads idle at the end.
_PARTS_PER_THREAD: Final = 8


def for_row_ranges(work: Callable[[int, int], object], costs: FloatArray, *, threads: int) -> None:
    """Call ``work(start, stop)`` on ranges that cover all rows once, ``threads`` at a time.

    Args:
        work: must release the interpreter lock to gain from threads, and must write disjoint rows.
        costs: float64, shape (n_rows,), relative cost of each row, > 0; ranges cost about the same.
        threads: >= 1; with 1 everything runs in one call on the calling thread.
    """
    if threads <= 1 or costs.size < 2:
        work(0, costs.size)
        return
    bounds = _equal_cost_bounds(costs, parts=threads * _PARTS_PER_THREAD)
    with ThreadPoolExecutor(max_workers=threads) as pool:
        # list() so that an exception in a worker surfaces here.
        list(pool.map(work, bounds[:-1].tolist(), bounds[1:].tolist()))


def _equal_cost_bounds(costs: FloatArray, *, parts: int) -> IntArray:
    """Row numbers 0 = b_0 < b_1 < ... = n_rows between which the costs are about equal."""
    cumulative = np.cumsum(costs)
    cuts = np.searchsorted(cumulative, np.linspace(0.0, cumulative[-1], parts + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [costs.size]])).astype(np.int64)
