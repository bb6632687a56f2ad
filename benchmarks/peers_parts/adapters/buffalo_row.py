"""``buffalo``: ALS, exactly (``ldlt``) or by conjugate gradients (``manual_cg``, its default).

Its alpha is what observed pairs get above the 1 of all: c - 1. It reads ratings from a file in HDF5 that it makes
of one in Matrix Market form: ``convert``.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured


def load() -> Any:
    from buffalo import ALS, ALSOption, MatrixMarketOptions, aux, set_log_level
    from buffalo.data.mm import MatrixMarket
    from scipy.io import mmwrite
    from scipy.sparse import csr_matrix

    set_log_level(0)
    return ALS, ALSOption, MatrixMarketOptions, MatrixMarket, aux, mmwrite, csr_matrix


def prepare(library: Any, job: Job) -> Any:
    _, _, options, matrix_market, aux, mmwrite, csr_matrix = library
    place = Path(tempfile.mkdtemp(prefix="buffalo-"))
    ones = np.ones(job.item.size, np.float32)
    rows = csr_matrix((ones, job.item, job.row_bounds()), shape=(job.n_users, job.n_items))
    mmwrite(str(place / "rows.mtx"), rows)
    option = options().get_default_option()
    option.input.main = str(place / "rows.mtx")
    option.data.tmp_dir, option.data.path = str(place), str(place / "rows.h5py")
    option.data.validation = aux.Option({})
    data = matrix_market(option)
    data.create()
    return data


def fit(library: Any, job: Job, data: Any) -> tuple[Arrays, Told]:
    als, options, *_ = library
    option = options().get_default_option()
    option.d, option.num_iters, option.num_workers = job.spec["rank"], job.spec["epochs"], job.threads
    option.reg_u = option.reg_i = float(job.spec["ridge"])
    option.alpha, option.optimizer = job.spec["confidence"] - 1.0, job.variant["optimizer"]
    option.compute_loss_on_training, option.early_stopping_rounds = False, 0
    np.random.seed(job.spec["seed"])  # noqa: NPY002
    model = als(option, data=data)
    model.initialize()
    model.train()
    return {"users": model.P, "items": model.Q}, {}


if __name__ == "__main__":
    measured("buffalo", load, prepare, fit)
