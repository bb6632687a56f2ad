"""Are our models without privacy as good as ``implicit``? A ceiling that is too low flatters what is private.

usage: OPENBLAS_NUM_THREADS=1 python benchmarks/ceilings.py [--data DIR] [--sets A,B] [--json FILE]

Lists of held-out users (Recall@20 on the test users of split 0), by ``als-best`` and ``ease`` of ours and by
AlternatingLeastSquares of the package ``implicit``, which must be installed (``pip install implicit``; tried with
0.7.3). Each has its settings chosen on the same validation users by the same search: one parameter after the other.
``ratio.<set>``: the better of ours over implicit's.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accuracy.anywhere.cells import METRICS, Cell, run_cell
from accuracy.anywhere.sets import configuration, problem_for, sets_of
from scipy.sparse import csr_matrix

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines.ease import presence
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.judging.evaluation import judge
from fedboard.simulations.judging.references import Choice, search

OURS = ("ease", "als-best")
_GRID = {
    "alpha": (10.0, 3.0, 30.0, 100.0),
    "regularization": (1.0, 0.1, 10.0, 100.0),
    "factors": (64, 32, 128),
}


@dataclass(frozen=True)
class TheirModel:
    """A fitted model of ``implicit`` behind our evaluation; a user's vector is folded in from her history."""

    model: Any

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Scores of pairs. As in ``Predictor``."""
        scores: FloatArray = np.einsum("pd,pd->p", self._own(history)[users], self.model.item_factors[items])
        return scores

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by score. As in ``Predictor``."""
        scores = self._own(history) @ self.model.item_factors.T
        scores[history.user_of_entry(), history.items] = -np.inf
        order: IndexArray = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
        return order

    def _own(self, history: Cohort) -> FloatArray:
        rows = csr_matrix(presence(history), dtype=np.float32)
        found: FloatArray = self.model.recalculate_user(np.arange(history.n_users), rows)
        return found


def _fit_theirs(rows: csr_matrix, choice: Choice) -> TheirModel:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=int(choice["factors"]),
        regularization=choice["regularization"],
        alpha=choice["alpha"],
        iterations=15,
        num_threads=1,
        random_state=0,
    )
    model.fit(rows, show_progress=False)
    return TheirModel(model=model)


def main() -> None:
    """Run the sets one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="DIR", type=Path, help="folder of .npz sets with info.json")
    parser.add_argument("--sets", metavar="A,B", help="default: all that are judged by lists")
    parser.add_argument("--json", metavar="FILE", type=Path, help="the numbers")
    given = parser.parse_args()
    try:
        import implicit
    except ImportError:
        sys.exit("implicit is not installed: pip install implicit")
    found: dict[str, Any] = {"implicit": implicit.__version__, "recall": {}, "ratio": {}, "chosen": {}}
    for data in sets_of(given.data, tuple(given.sets.split(",")) if given.sets else ()):
        if data.feedback != "implicit":
            continue
        values = {
            name: run_cell(Cell(data=data, label=name, algorithm=name, epsilon=None, seed=0)) for name in OURS
        }
        scores = {name: line.get("value", float("nan")) for name, line in values.items()}
        config = configuration(data, algorithm="topk", epsilon=1.0, seed=0, settings={})
        problem = problem_for(data, config)
        rows = csr_matrix(presence(problem.train), dtype=np.float32)
        model, choice = search(lambda c, rows=rows: _fit_theirs(rows, c), _GRID, problem, config.feedback)
        with WorkerPool(1) as pool:
            metrics = judge(model, problem, part="test", pool=pool).metrics
        scores["implicit"] = float(metrics[METRICS["implicit"]])
        found["recall"][data.name], found["chosen"][data.name] = scores, choice
        found["ratio"][data.name] = np.nanmax([scores[name] for name in OURS]) / scores["implicit"]
        told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        print(f"{data.name}: {told}; ratio {found['ratio'][data.name]:.3f}; implicit at {choice}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
