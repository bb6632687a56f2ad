"""The private round in plain NumPy without any framework: a loop over users, noise from a fast generator."""

from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured
from plain_round import first_board, next_board, noised, rows_of, sums_of


def load() -> Any:
    return np


def prepare(_: Any, job: Job) -> Any:
    return job.row_bounds()


def fit(_: Any, job: Job, bounds: Any) -> tuple[Arrays, Told]:
    board, rng = first_board(job.spec, job.arrays), np.random.default_rng(job.spec["seed"])
    for number in range(1, job.spec["epochs"] + 1):
        sums = sums_of(rows_of(bounds, job.item, job.rating), board)
        board = next_board(board, *noised(sums, number, job.spec, rng))
    return {"items": board.factors}, {}


if __name__ == "__main__":
    measured("numpy", load, prepare, fit)
