"""Figures 4, 8 and 10: what becomes of rare and of popular items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.simulations.baselines.als import AlsModel
from fedboard.simulations.evaluation.metrics.metric import N_BUCKETS
from fedboard.simulations.evaluation.metrics.neighbours import overlap_by_popularity
from fedboard.simulations.evaluation.references import ALS, Fitting, fit_reference
from fedboard.simulations.reports.wording import lower_is_better
from research.krichene.benchmarks import (
    STATISTICS,
    Benchmark,
    Method,
    with_exponent,
)
from research.shared.data_sets import distinct
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, draw_panels
from research.shared.ratings import data_of, fitting

COMPARED: tuple[Method, ...] = (
    *(with_exponent(STATISTICS[0], exponent) for exponent in (1.0, 1 / 2, 1 / 3, 1 / 4)),
    *STATISTICS[1:],
)
"""The lines of figures 4, 8 and 10."""
_BUCKETS = tuple(str(bucket) for bucket in range(N_BUCKETS))
_ACROSS = "items by training count, tail to head, equal parts"
_NEIGHBOURS = 20
_SLICED = {Feedback.EXPLICIT: "rmse", Feedback.IMPLICIT: "recall"}
_OF_HEAD = "recall_of_top_tenth"
_UP = {
    "rmse": "test RMSE (stars)",
    "recall": "recall of the first 100 (tail) to 20 (head)",
    _OF_HEAD: "the same, fifths of the top tenth alone",
}
_BOTH = (Feedback.EXPLICIT, Feedback.IMPLICIT)


def slices(
    figure: str, paper: str, *, usual: Sequence[float], feedbacks: Sequence[Feedback] = _BOTH
) -> Callable[[Setting], Outcome]:
    """RMSE and recall by popularity bucket.

    Args:
        figure: its number.
        paper: what the paper finds, as a sentence.
        usual: epsilons, a panel each, where nobody asks for others.
        feedbacks: a row of runs each, of those that the data can be read as.
    """

    def run(setting: Setting) -> Outcome:
        panels, found, told, settings = [], [], [], []
        epsilons = setting.epsilons_or(*usual)
        for own in setting.each_data():
            name, numbers = "", {}
            for feedback in fitting(data_of(own), *feedbacks):
                bench, metric = Benchmark(own, feedback), _SLICED[feedback]
                by_epsilon = _sliced(bench, epsilons)
                name = bench.problem.name
                told.append(f"{bench.described}: {_told(by_epsilon, metric)}")
                title = f"{name}, epsilon" if setting.more_data else "epsilon"
                panels += [_panel(f"{title} {e}", metric, lines) for e, lines in by_epsilon.items()]
                numbers[metric] = _by_bucket(by_epsilon)
                if feedback is Feedback.IMPLICIT:
                    of_head = _of_head(bench, epsilons)
                    numbers[_OF_HEAD] = _by_bucket(of_head)
                    panels += [_panel(f"{title} {e}", _OF_HEAD, lines) for e, lines in of_head.items()]
                settings.append((name, str(feedback), bench.settings))
            found.append((name, numbers))
        return Outcome(
            numbers=dict(zip(distinct([n for n, _ in found]), (of for _, of in found), strict=True))
            if setting.more_data
            else found[0][1],
            settings={f"{name} {feedback}": of for name, feedback, of in settings}
            if setting.more_data
            else {feedback: of for _, feedback, of in settings},
            comparison=f"{paper} On {'; on '.join(told)}.",
            figures={f"figure-{figure}": draw_panels(panels)},
        )

    return run


def _sliced(bench: Benchmark, epsilons: Sequence[float]) -> dict[str, dict[str, Sequence[float | None]]]:
    """By epsilon and label, values by bucket."""
    answers = bench.ask(COMPARED, epsilons)
    return {
        f"{epsilon:g}": {m.label: answers[m.label][f"{epsilon:g}"].sliced for m in COMPARED}
        for epsilon in epsilons
    }


def _of_head(bench: Benchmark, epsilons: Sequence[float]) -> dict[str, dict[str, Sequence[float | None]]]:
    """The same of lists, by bucket of the most popular tenth: what the published code draws."""
    answers = bench.ask(COMPARED, epsilons)
    return {
        f"{epsilon:g}": {m.label: answers[m.label][f"{epsilon:g}"].of_head for m in COMPARED}
        for epsilon in epsilons
    }


def _by_bucket(by_epsilon: Mapping[str, Any]) -> dict[str, Any]:
    return {
        e: {label: dict(zip(_BUCKETS, values, strict=False)) for label, values in lines.items()}
        for e, lines in by_epsilon.items()
    }


def overlap(setting: Setting, *, usual: float = 1.0) -> Outcome:
    """Figure 10: share of an item's 20 nearest neighbours that ALS without privacy finds too, by bucket."""
    bench, (epsilon,) = Benchmark(setting, Feedback.IMPLICIT), setting.epsilons_or(usual)
    bench.ask(COMPARED, (epsilon,))
    reference, counts = als_factors(bench), bench.problem.item_counts
    lines: dict[str, Sequence[float | None]] = {}
    for method in COMPARED:
        boards = [bench.board(method, epsilon, seed) for seed in range(setting.seeds)]
        found = [
            overlap_by_popularity(_factors(board.arrays["item_factors"]), reference, counts, k=_NEIGHBOURS)
            for board in boards
        ]
        lines[method.label] = np.mean(np.array(found, dtype=np.float64), axis=0).tolist()
    means = {m.label: float(np.mean(_known(lines[m.label]))) for m in COMPARED}
    best = max(means, key=lambda label: means[label] if label.startswith(STATISTICS[0].label) else -1.0)
    learnt = int(np.count_nonzero(bench.board(COMPARED[0], epsilon, 0).arrays["learnt"]))
    return Outcome(
        numbers={
            "overlap": {k: dict(zip(_BUCKETS, v, strict=False)) for k, v in lines.items()},
            "mean": means,
            "learnt_items": learnt,
        },
        settings=bench.settings,
        comparison=(
            "The paper: on ML-20M at epsilon 1 the lists of AdaDPALS overlap more with those of ALS than the lists "
            f"of DPALS do. On {bench.described}, of which the presets learn the {learnt} most popular, mean over "
            f"buckets: {best} {means[best]:.3f}, "
            f"{', '.join(f'{m.label} {means[m.label]:.3f}' for m in COMPARED if m in STATISTICS)}."
        ),
        figures={"figure-10": draw_panels([_panel(f"epsilon {epsilon:g}", "overlap@20", lines)])},
    )


def als_factors(bench: Benchmark) -> FloatArray:
    """Item vectors of ALS without privacy, float64, shape (n_items, rank).

    Raises:
        TypeError: never; for the type of the model.
    """
    model = fit_reference(ALS, Fitting.of(bench.problem, bench.feedback, backend="compiled"))
    if not isinstance(model, AlsModel):
        raise TypeError("ALS is an AlsModel")
    return _factors(model.item_factors)


def _factors(array: Float32Array) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _panel(title: str, metric: str, lines: Mapping[str, Sequence[float | None]]) -> Panel:
    n_buckets = max(len(values) for values in lines.values())
    return Panel(
        title=title,
        lines=lines,
        places=range(n_buckets),
        ticks=_BUCKETS[:n_buckets],
        across=_ACROSS,
        up=_UP.get(metric, metric),
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _told(by_epsilon: Mapping[str, Mapping[str, Any]], metric: str) -> str:
    """Tail bucket and head bucket of the best of ours and of tail sampling, at the first epsilon."""
    epsilon, lines = next(iter(by_epsilon.items()))
    choose = min if lower_is_better(metric) else max
    parts = []
    for name, place in (("tail", 0), ("head", -1)):
        known = {label: v[place] for label, v in lines.items() if v and v[place] is not None}
        ours = [label for label in known if label.startswith(STATISTICS[0].label)]
        if not ours:
            continue
        best = choose(ours, key=lambda label: float(known[label]))
        sampled = known.get(STATISTICS[1].label)
        other = "" if sampled is None else f" against {sampled:.3f} of {STATISTICS[1].label}"
        parts.append(f"{name} bucket {known[best]:.3f} by {best}{other}")
    return f"{metric} at epsilon {epsilon}: {', '.join(parts)}"
