"""What each part that makes `residual` safe on sparse data is worth: each taken out alone, on sets of all shapes.

usage: python benchmarks/safety_ablation.py [--data DIR] [--sets A,B] [--epsilon E,F] [--seeds S,T] [--without A,B]
           [--json FILE]

Sets, DIR and splits are those of ``anywhere.py``. A part is taken out of the code itself, in this process, so that
the product needs no switch for what nobody should use:

- ``floor``: biases without factors are posterior means under the prior of the rounds, not the floor's own Bayes;
- ``search``: factors are measured in every round, whether or not noise lets them be seen;
- ``evidence``: the ridge on a user's vector stays what is configured, and useless factors are kept;
- ``edge``: the prior covariance is fitted by moments, the noise subtracted, and projected;
- ``memory``: each round's estimate of the biases stands alone;
- ``counts``: counts are taken as released, floored at 1;
- ``scale``: everything is in units of a fifth of the range, nothing of the released deviation;
- ``content``: a device has no content model of public item features (sets without features: no change).

FILE gets ``rmse.<set>.<part taken out>.<epsilon>`` (``nothing`` for the whole method) and ``change``, the same less
``nothing``; means over the seeds.
"""

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from accuracy.anywhere.cells import Cell, run_cell
from accuracy.anywhere.sets import sets_of
from anywhere import numbers, wholes, words

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.tasks.residual import algorithm as task
from fedboard.common.tasks.residual import rounds, update
from fedboard.common.tasks.residual.shrinkage import fit_prior_by_moments, posterior_means
from fedboard.common.tasks.shared.levels import LikelyCounts

NOTHING = "nothing"
_Exchanges = Mapping[tuple[Any, str], Any]


def _moments_alone(measured: Any, released: Any, settings: Any) -> Any:
    variances = 1.0 / measured.precisions
    variances += (
        settings.noise_variance * released.spread**2 * released.mean_weights / released.weighted_counts
    )
    estimates = update.Estimates(
        values=measured.values[:, None],
        covariance=lambda first, last: variances[first:last, None, None],
    )
    return posterior_means(estimates, update.fit_prior(estimates, None, ridge=settings.prior_ridge))


def _as_released(released: Any, *, stddev: float) -> LikelyCounts:
    return LikelyCounts(mean=np.maximum(released, 0.0), variance=np.full(released.shape, stddev**2))


def _fixed_scale(found: Callable[..., Any]) -> Callable[..., Any]:
    def level(released: Any, request: Any, shared: Any) -> Any:
        return dataclasses.replace(found(released, request, shared), spread=0.4 * shared.half_range)

    return level


PARTS: Mapping[str, tuple[_Exchanges, Mapping[str, Any]]] = {
    NOTHING: ({}, {}),
    "floor": ({(update, "_biases_alone"): _moments_alone}, {}),
    "search": ({(rounds, "worth_measuring"): lambda *_, **__: True}, {}),
    "evidence": ({}, {"ridge_evidence": False}),
    "edge": ({(update, "fit_prior"): fit_prior_by_moments}, {}),
    "memory": ({}, {"bias_memory": 0.0}),
    "counts": ({(rounds, "likely_counts"): _as_released}, {}),
    "scale": ({(rounds, "released_level"): _fixed_scale(rounds.released_level)}, {}),
    "content": ({(task, "content_of"): lambda _: None}, {}),
}
"""Name -> what stands in its place, and settings."""


@contextmanager
def without(part: str) -> Iterator[Mapping[str, Any]]:
    """The method with one part taken out of the code; gives the settings to run it with."""
    exchanges, settings = PARTS[part]
    with ExitStack() as stack:
        for (module, name), other in exchanges.items():
            stack.enter_context(patch.object(module, name, other))
        yield settings


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help="folder of .npz sets with info.json")
    add("--sets", type=words, default=(), metavar="A,B", help="default: all with ratings")
    add("--epsilon", type=numbers, default=(1.0, 5.0, 20.0), metavar="E,F", help="default: 1,5,20")
    add("--seeds", type=wholes, default=(0, 1), metavar="S,T", help="of the noise; default: 0,1")
    add("--without", type=words, default=tuple(PARTS)[1:], metavar="A,B", help="default: each in turn")
    add("--json", type=Path, metavar="FILE", help="the numbers; a table goes beside it")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """RMSE of every set, part and epsilon."""
    unknown = [part for part in options.without if part not in PARTS]
    if unknown:
        raise InputError(f"--without: unknown {unknown[0]!r}; there are {', '.join(tuple(PARTS)[1:])}")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for data in sets_of(options.data, options.sets):
        if data.feedback != "explicit":
            continue
        for part in (NOTHING, *options.without):
            for epsilon in options.epsilon:
                value = statistics.fmean(_rmse(data, part, epsilon, seed) for seed in options.seeds)
                found.setdefault(data.name, {}).setdefault(part, {})[f"{epsilon:g}"] = value
                print(
                    f"{data.name} without {part}, epsilon {epsilon:g}: {value:.4f}",
                    file=sys.stderr,
                    flush=True,
                )
    change = {
        name: {
            part: {at: value - parts[NOTHING][at] for at, value in values.items()}
            for part, values in parts.items()
            if part != NOTHING
        }
        for name, parts in found.items()
    }
    return {"rmse": found, "change": change, "seeds": list(options.seeds)}


def _rmse(data: Any, part: str, epsilon: float, seed: int) -> float:
    with without(part) as settings:
        cell = Cell(
            data=data, label=part, algorithm="residual", epsilon=epsilon, seed=seed, settings=settings
        )
        line = run_cell(cell)
    if line["error"] is not None:
        raise InputError(f"{data.name} without {part}: {line['error']}")
    return float(line["value"])


def table(found: Mapping[str, Any]) -> str:
    """Changes of RMSE, a line for each set and epsilon."""
    parts = list(dict.fromkeys(part for of_set in found["change"].values() for part in of_set))
    rows = [f"| set, epsilon | RMSE | {' | '.join(parts)} |", "|---" * (len(parts) + 2) + "|"]
    for name, of_set in found["rmse"].items():
        for epsilon, value in of_set[NOTHING].items():
            changes = " | ".join(f"{found['change'][name][part][epsilon]:+.4f}" for part in parts)
            rows.append(f"| {name}, {epsilon} | {value:.4f} | {changes} |")
    return "\n".join(rows)


def main() -> None:
    """Measure every set, part and epsilon, and print the table."""
    options = arguments()
    try:
        found = measured(options)
    except FedboardError as error:
        sys.exit(f"safety_ablation.py: {error}")
    print(table(found))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        options.json.with_suffix(".md").write_text(table(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
