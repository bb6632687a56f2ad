"""Where the benefit of adaptive weights for rare items begins: against mu, against the skew of the data, by recipe.

Not a figure of the paper, but its claim (section 5, appendix D.2) put to the test: the gain on the rarest and on
the most popular items over sampling and over even weights, on made-up sets of one size that differ in skew alone,
or on the user's own; beside it what the simplest private answers and ALS without privacy reach on the same items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedboard.common.algorithms.registry import floor_names
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations.reports.wording import lower_is_better, metric_label
from fedboard.simulations.sections import DataConfig
from research.krichene.benchmarks import (
    ALS_LINE,
    STATISTICS,
    Benchmark,
    BenchmarkAnswer,
    Method,
    with_exponent,
)
from research.shared.data_sets import distinct
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, as_text, draw_panels
from research.shared.shapes import SHAPES

MUS = (0.0, 1 / 4, 1 / 2, 1.0)
LEVELS = (0.3, 0.5, 0.7, 0.85)
"""Shares of the ratings on the top tenth of the items."""
USUAL_EPSILONS = (1.0, 5.0)
RECIPES = ("paper", "tuned")
_SHAPE_OF = {Feedback.EXPLICIT: "ml-10m", Feedback.IMPLICIT: "ml-20m"}
_ADAPTIVE, *SAMPLED = STATISTICS
_OF_ERRORS = (
    "The paper, on ML-10M at epsilon 1: at least 21.6 % better than tail sampling on the rarest fifth of the "
    "items. Best gain over tail sampling on that fifth here, by recipe: "
)
_OF_LISTS = (
    "The paper, on ML-20M and MSD, draws recall on fifths of the most popular tenth without numbers: the larger "
    "mu, the better the rarer two, the worse the most popular. Best recall on the rarest of these fifths here "
    "against that of tail sampling, by recipe: "
)
_SKEW = "share of the ratings on the top tenth of the items"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one data set gave at one epsilon. Not private: simulation only."""

    name: str
    top_tenth: float
    """Of the training data."""
    by_recipe: Mapping[str, Mapping[str, BenchmarkAnswer]]
    """Recipe, label."""
    rivals: Mapping[str, BenchmarkAnswer]
    """The floors, and ALS without privacy."""


def tail_against_skew(
    feedback: Feedback, *, levels: Sequence[float] = LEVELS, mus: Sequence[float] = MUS
) -> Callable[[Setting], Outcome]:
    """The experiment.

    Args:
        feedback: explicit for RMSE by popularity bucket, implicit for recall by bucket of the learnt tenth.
        levels: skews that are compared where no data are named.
        mus: exponents of the weights.
    """

    def run(setting: Setting) -> Outcome:
        epsilons = setting.epsilons_or(*USUAL_EPSILONS)
        by_epsilon: dict[float, list[Found]] = {epsilon: [] for epsilon in epsilons}
        settings: dict[str, Any] = {}
        for own in _family(setting, feedback, levels).each_data():
            bench = Benchmark(own, feedback)
            for epsilon, found in _measured(bench, epsilons, mus).items():
                by_epsilon[epsilon].append(found)
            settings[f"{len(settings)}: {bench.problem.name}"] = bench.settings
        by_epsilon = {epsilon: _in_order(found) for epsilon, found in by_epsilon.items()}
        metric = Benchmark(setting, feedback).metric
        return Outcome(
            numbers={f"epsilon {e:g}": _numbers(found, mus, metric) for e, found in by_epsilon.items()},
            settings=settings,
            comparison=_comparison(by_epsilon, mus, metric),
            figures={
                f"tail-epsilon-{e:g}": draw_panels(_panels(found, mus, metric))
                for e, found in by_epsilon.items()
            },
        )

    return run


def gain(better: float | None, than: float | None, metric: str) -> float | None:
    """By how much of ``than`` one value is better, e.g. 0.1 for a tenth less error; None where one is not there."""
    if better is None or not than:
        return None
    return 1.0 - better / than if lower_is_better(metric) else better / than - 1.0


def _family(setting: Setting, feedback: Feedback, levels: Sequence[float]) -> Setting:
    """The user's data, or made-up ones with the sizes of the paper's that differ in skew alone."""
    if setting.data is not None:
        return setting
    shape = SHAPES[_SHAPE_OF[feedback]]
    first, *others = (DataConfig(synthetic={**shape, "top_tenth": level}) for level in levels)
    return replace(setting, data=first, more_data=tuple(others))


def _measured(bench: Benchmark, epsilons: Sequence[float], mus: Sequence[float]) -> dict[float, Found]:
    methods = [*(with_exponent(_ADAPTIVE, mu) for mu in mus), *SAMPLED]
    answers = {
        recipe: _asked(bench, [replace(method, recipe=recipe) for method in methods], epsilons)
        for recipe in RECIPES
    }
    floors = [Method(label=name, algorithm=name) for name in _rivals(bench.feedback)]
    beside, als = _asked(bench, floors, epsilons), _bucketed(bench.ask_als())
    counts = np.sort(bench.problem.item_counts)[::-1].astype(np.float64)
    top = float(counts[: round(0.1 * counts.size)].sum() / max(counts.sum(), 1.0))
    return {
        epsilon: Found(
            name=bench.problem.name,
            top_tenth=top,
            by_recipe={
                recipe: {label: by[f"{epsilon:g}"] for label, by in of.items()}
                for recipe, of in answers.items()
            },
            rivals={
                **{label: by[f"{epsilon:g}"] for label, by in beside.items()},
                ALS_LINE.label: als,
            },
        )
        for epsilon in epsilons
    }


def _rivals(feedback: Feedback) -> tuple[str, ...]:
    """The floors; with ratings also the constant to which a vector of zeros falls back."""
    constant = ("mean-private",) if feedback is Feedback.EXPLICIT else ()
    return (*constant, *(name for name in floor_names(feedback) if name not in constant))


def _asked(
    bench: Benchmark, methods: Sequence[Method], epsilons: Sequence[float]
) -> dict[str, dict[str, BenchmarkAnswer]]:
    return {
        label: {epsilon: _bucketed(answer) for epsilon, answer in by.items()}
        for label, by in bench.ask(methods, epsilons).items()
    }


def _bucketed(answer: BenchmarkAnswer) -> BenchmarkAnswer:
    """Of lists the buckets of the learnt tenth: elsewhere recall is 0 whatever is done."""
    return replace(answer, sliced=answer.of_head) if answer.of_head else answer


def _in_order(found: Sequence[Found]) -> list[Found]:
    """By skew, each with a name of its own."""
    ordered = sorted(found, key=lambda one: one.top_tenth)
    return [
        replace(one, name=name)
        for one, name in zip(ordered, distinct([one.name for one in ordered]), strict=True)
    ]


def _gains(one: Found, recipe: str, mus: Sequence[float], metric: str, place: int) -> dict[str, float | None]:
    """Of each mu over tail sampling, in one bucket."""
    of = one.by_recipe[recipe]
    rival = of[SAMPLED[0].label].sliced[place]
    return {as_text(mu): gain(of[_label(mu)].sliced[place], rival, metric) for mu in mus}


def _label(mu: float) -> str:
    return with_exponent(_ADAPTIVE, mu).label


def _numbers(found: Sequence[Found], mus: Sequence[float], metric: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for one in found:
        columns = {f"{r}: {label}": a for r, of in one.by_recipe.items() for label, a in of.items()}
        told[one.name] = {
            "share of the top tenth": one.top_tenth,
            "results": {label: _row(answer) for label, answer in {**columns, **one.rivals}.items()},
            **{
                f"gain over {rival.label}, {recipe}, {where}": {
                    as_text(mu): gain(
                        one.by_recipe[recipe][_label(mu)].sliced[place],
                        one.by_recipe[recipe][rival.label].sliced[place],
                        metric,
                    )
                    for mu in mus
                }
                for rival in (*SAMPLED, with_exponent(_ADAPTIVE, 0.0))
                if rival.label in one.by_recipe[RECIPES[0]]
                for recipe in one.by_recipe
                for where, place in (("tail", 0), ("head", -1))
            },
        }
    return told


def _row(answer: BenchmarkAnswer) -> dict[str, float | None]:
    buckets = {f"bucket {place}": value for place, value in enumerate(answer.sliced)}
    return {"overall": answer.mean, "deviation": answer.deviation, **buckets}


def _panels(found: Sequence[Found], mus: Sequence[float], metric: str) -> list[Panel]:
    panels = [
        Panel(
            title=f"{where}: gain over tail sampling, {recipe}",
            lines={
                f"mu = {as_text(mu)}": [
                    _percent(_gains(one, recipe, mus, metric, place)[as_text(mu)]) for one in found
                ]
                for mu in mus
            },
            places=range(len(found)),
            ticks=_ticks(found),
            across=_SKEW,
            up="better than DPALS (tail), %",
        )
        for recipe in RECIPES
        for where, place in (("tail", 0), ("head", -1))
    ]
    return [
        *panels,
        _absolute(found, mus, metric, "tail", 0),
        _absolute(found, mus, metric, "all items", None),
    ]


def _absolute(
    found: Sequence[Found], mus: Sequence[float], metric: str, where: str, place: int | None
) -> Panel:
    """What is reached at all: the best mu of each recipe, tail sampling, the floors, no privacy."""

    def value(answer: BenchmarkAnswer) -> float | None:
        return answer.mean if place is None else answer.sliced[place]

    choose = min if lower_is_better(metric) else max
    lines: dict[str, list[float | None]] = {}
    for recipe in RECIPES:
        lines[f"best mu, {recipe}"] = [
            choose(
                (v for mu in mus if (v := value(one.by_recipe[recipe][_label(mu)])) is not None), default=None
            )
            for one in found
        ]
        lines[f"{SAMPLED[0].label}, {recipe}"] = [
            value(one.by_recipe[recipe][SAMPLED[0].label]) for one in found
        ]
    for label in found[0].rivals:
        lines[label] = [value(one.rivals[label]) for one in found]
    return Panel(
        title=f"{where}: what is reached",
        lines=lines,
        places=range(len(found)),
        ticks=_ticks(found),
        across=_SKEW,
        up=metric_label(metric),
    )


def _ticks(found: Sequence[Found]) -> list[str]:
    return [f"{one.top_tenth:.2f}" for one in found]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _told_gain(one: Found, recipe: str, mu: float, share: float, metric: str) -> str:
    """Of errors the share; of recall both numbers, since a share of next to nothing says little."""
    if lower_is_better(metric):
        return f"{100 * share:+.1f} %"
    best, rival = one.by_recipe[recipe][_label(mu)], one.by_recipe[recipe][SAMPLED[0].label]
    return f"{best.sliced[0]:.3f} against {rival.sliced[0]:.3f}"


def _comparison(by_epsilon: Mapping[float, Sequence[Found]], mus: Sequence[float], metric: str) -> str:
    told = []
    for epsilon, found in by_epsilon.items():
        for one in found:
            parts = []
            for recipe in one.by_recipe:
                gains = _gains(one, recipe, mus, metric, 0)
                known = {mu: g for mu in mus if (g := gains[as_text(mu)]) is not None}
                if known:
                    mu = max(known, key=lambda mu: known[mu])
                    told_gain = _told_gain(one, recipe, mu, known[mu], metric)
                    parts.append(f"{recipe} {told_gain} at mu = {as_text(mu)}")
            if parts:
                told.append(
                    f"epsilon {epsilon:g}, top tenth {one.top_tenth:.2f} ({one.name}): {', '.join(parts)}"
                )
    return (_OF_ERRORS if lower_is_better(metric) else _OF_LISTS) + "; ".join(told) + "."
