"""``implicit``: AlternatingLeastSquares, exactly (``use_cg=False``) or by three steps of conjugate gradients."""

from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured


def load() -> Any:
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    return AlternatingLeastSquares, csr_matrix


def prepare(library: Any, job: Job) -> Any:
    _, csr_matrix = library
    ones = np.ones(job.item.size, np.float32)
    return csr_matrix((ones, job.item, job.row_bounds()), shape=(job.n_users, job.n_items))


def fit(library: Any, job: Job, rows: Any) -> tuple[Arrays, Told]:
    als, _ = library
    model = als(
        factors=job.spec["rank"],
        regularization=job.spec["ridge"],
        alpha=job.spec["confidence"],
        iterations=job.spec["epochs"],
        use_cg=job.variant["use_cg"],
        use_native=True,
        dtype=np.float32,
        num_threads=job.threads,
        random_state=job.spec["seed"],
    )
    model.fit(rows, show_progress=False)
    return {"users": model.user_factors, "items": model.item_factors}, {}


if __name__ == "__main__":
    measured("implicit", load, prepare, fit)
