"""Figures 4 and 6: what a table of Gaussians costs, and how SGLD converges, at rank 16."""

from dataclasses import replace

import numpy as np

from fedboard.common.arrays import Float32Array
from research.block_solvers.factorisation import Factorisation
from research.block_solvers.sampling import sample_dpmf
from research.block_solvers.sgd import SgdConfig, fit_sgd
from research.liu.ratings import Rated, rated
from research.liu.speed import posterior
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Line, line_panels

_RANK, _PASSES, _TABLE_PASSES = 16, 60, 30
_TABLE_SIZES = (100, 300, 1_000, 10_000, 100_000, 1_000_000)
_OVERFITTING = SgdConfig(rank=_RANK, passes=_PASSES, step=0.03, ridge=0.01, decay=0.3)


def figure_4(setting: Setting) -> Outcome:
    """Test RMSE of one sample against the size of the table that its noise is read from."""
    data = rated(setting)
    found: dict[str, list[float]] = {}
    jobs = [(size, seed) for size in (*_TABLE_SIZES, 0) for seed in range(setting.seeds)]
    for done, (size, seed) in enumerate(jobs):
        setting.on_progress("tables", done, len(jobs))
        found.setdefault(str(size) if size else "fresh", []).append(_sampled_from_table(data, size, seed))
    means = {size: float(np.mean(errors)) for size, errors in found.items()}
    from_tables = [means[str(size)] for size in _TABLE_SIZES]
    lines: dict[str, Line] = {
        "read from a table": (_TABLE_SIZES, from_tables),
        "drawn": (_TABLE_SIZES, [means["fresh"]] * len(_TABLE_SIZES)),
    }
    return Outcome(
        numbers={"rmse": means},
        settings={"rank": _RANK, "passes": _TABLE_PASSES, "seeds": setting.seeds, "data": data.described},
        comparison=(
            "The paper, on Netflix at rank 16: with more than 10 000 numbers the error is that of fresh draws. "
            f"Here, on {data.described}: {means['10000']:.4f} with 10 000 numbers, {means['fresh']:.4f} with fresh "
            "draws. A table has no privacy proof; nothing but this experiment uses one."
        ),
        figures={
            "figure-4": line_panels(
                {"rank 16": lines}, across="numbers in the table", up="test RMSE", log="x"
            )
        },
    )


def _sampled_from_table(data: Rated, size: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    table: Float32Array = rng.standard_normal(size, dtype=np.float32)
    config = posterior(data, _RANK, passes=_TABLE_PASSES, seed=seed)
    return data.joint_error(sample_dpmf(data.stream, config, table=table))


def figure_6(setting: Setting) -> Outcome:
    """Train and test RMSE after each pass: C-SGD overfits, SGLD does not."""
    data = rated(setting)
    setting.on_progress("solvers", 0, 2)
    sgd, sgld = _Trace(data), _Trace(data)
    fit_sgd(data.stream, replace(_OVERFITTING, threads=setting.workers), on_progress=sgd)
    setting.on_progress("solvers", 1, 2)
    config = posterior(data, _RANK, passes=_PASSES, threads=setting.workers)
    sample_dpmf(data.stream, config, on_progress=sgld)
    passes = list(range(1, _PASSES + 1))
    traces = {"C-SGD": sgd, "SGLD": sgld}
    rises = {name: trace.test[-1] - min(trace.test) for name, trace in traces.items()}
    return Outcome(
        numbers={
            "test_rmse": {name: trace.test for name, trace in traces.items()},
            "train_rmse": {name: trace.train for name, trace in traces.items()},
            "rise_after_best": rises,
        },
        settings={"rank": _RANK, "passes": _PASSES, "ridge": _OVERFITTING.ridge, "data": data.described},
        comparison=(
            "The paper, on Netflix at rank 16: C-SGD is best after some rounds and then overfits, SGLD burns in "
            f"and does not overfit. Here, on {data.described}: after its best pass the test RMSE of C-SGD rises by "
            f"{rises['C-SGD']:.4f}, that of SGLD by {rises['SGLD']:.4f}."
        ),
        figures={
            "figure-6": line_panels(
                {
                    "test": {name: (passes, trace.test) for name, trace in traces.items()},
                    "training": {name: (passes, trace.train) for name, trace in traces.items()},
                },
                across="passes",
                up="RMSE",
            )
        },
    )


class _Trace:
    def __init__(self, data: Rated) -> None:
        self._data = data
        self.test: list[float] = []
        self.train: list[float] = []

    def __call__(self, number: int, model: Factorisation) -> None:
        self.test.append(self._data.joint_error(model))
        self.train.append(self._data.train_error(model))
