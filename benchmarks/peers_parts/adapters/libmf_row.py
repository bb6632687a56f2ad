"""LIBMF: stochastic gradients over blocks of ratings, as many passes as others make sweeps.

A pass moves less than an exact sweep does: look at the error that was reached beside the seconds. Its ridge acts
once a rating, so that a row's grows with its ratings, as in the job.
"""

from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured


def load() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # comparisons by "is" in its bindings
        from libmf import mf

    return mf


def prepare(library: Any, job: Job) -> Any:
    centred = job.rating - np.float32(job.spec["mean"])
    return np.column_stack([job.user, job.item, centred]).astype(np.float32)


def fit(library: Any, job: Job, triples: Any) -> tuple[Arrays, Told]:
    ridge = float(job.spec["ridge"])
    model = library.MF(
        fun=library.P_L2_MFR,
        k=job.spec["rank"],
        nr_threads=job.threads,
        nr_iters=job.spec["epochs"],
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=ridge,
        lambda_q2=ridge,
        quiet=True,
    )
    model.fit(triples)
    users, items = model.p_factors(), model.q_factors()
    return {"users": users, "items": items}, {}


if __name__ == "__main__":
    measured("libmf", load, prepare, fit)
