"""Tables 3 and 4: the items nearest to a few examples, by ALS without privacy and by two private models.

Nearest by the inner product, as the paper has it, and by the cosine: long vectors, which popular items have, come
first in most lists by the inner product.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.board import Catalogue
from fedboard.simulations.evaluation.metrics.neighbours import (
    cosine_neighbours,
    inner_product_neighbours,
    neighbour_overlap,
)
from research.krichene.benchmarks import STATISTICS, Benchmark, with_exponent
from research.krichene.slices import als_factors
from research.shared.experiment import Outcome, Setting

PRIVATE = (STATISTICS[1], with_exponent(STATISTICS[0], 1 / 3))
_EPSILON = 1.0
Nearness = Callable[..., IndexArray]
NEARNESS: Mapping[str, Nearness] = {"cosine": cosine_neighbours, "inner product": inner_product_neighbours}
_LENGTH = 6
_FEW = 20
QUERIES = {
    "3": (("Shawshank Redemption, The", 0.0), ("Pinocchio", 0.2)),
    "4": (("Harry Potter and the Half-Blood Prince", 0.3), ("Nausica", 0.4), ("Interstellar", 0.5)),
}
"""Start of the title, and where no such title is: rank of the item to take by popularity, as a share of all."""


def neighbour_table(table: str) -> Callable[[Setting], Outcome]:
    """The lists of one table; where the data lacks its examples, items of similar popularity stand in."""

    def run(setting: Setting) -> Outcome:
        bench, (epsilon,) = Benchmark(setting, Feedback.IMPLICIT), setting.epsilons_or(_EPSILON)
        bench.ask(PRIVATE, (epsilon,))
        counts, catalogue = bench.problem.item_counts, bench.problem.catalogue
        models = {"ALS": als_factors(bench)} | {
            method.label: np.asarray(bench.board(method, epsilon, 0).arrays["item_factors"], dtype=np.float64)
            for method in PRIVATE
        }
        learnt = np.flatnonzero(
            np.min([np.linalg.norm(factors, axis=1) for factors in models.values()], axis=0) > 0
        )
        queries: list[int] = []
        for start, rank in QUERIES[table]:
            queries.append(_query(start, rank, catalogue, counts, np.setdiff1d(learnt, queries)))
        titles = [_title(catalogue, q) for q in queries]
        lists = {
            name: {
                t: _lists(models, q, near, catalogue, counts) for t, q in zip(titles, queries, strict=True)
            }
            for name, near in NEARNESS.items()
        }
        shared = {name: _shared(models, queries, near) for name, near in NEARNESS.items()}
        return Outcome(
            numbers={
                "lists": lists["cosine"],
                "lists_by_inner_product": lists["inner product"],
                "training_count": dict(zip(titles, (int(counts[q]) for q in queries), strict=True)),
                "shared_with_als": dict(zip(titles, shared["cosine"], strict=True)),
                "shared_by_inner_product": dict(zip(titles, shared["inner product"], strict=True)),
                "median_count_of_neighbours": {
                    name: _median_counts(models, near, counts) for name, near in NEARNESS.items()
                },
            },
            settings=bench.settings | {"epsilon": epsilon, "neighbours": _LENGTH},
            comparison=_told(bench.described, epsilon, titles, shared),
            figures={},
        )

    return run


def _query(start: str, rank: float, catalogue: Catalogue, counts: IntArray, learnt: IntArray) -> int:
    """The item whose title starts so; else the learnt item at this rank by popularity."""
    for item in learnt.tolist():
        if _title(catalogue, item).startswith(start):
            return int(item)
    order = learnt[np.argsort(-counts[learnt], kind="stable")]
    return int(order[min(int(rank * order.size), order.size - 1)])


def _lists(
    models: Mapping[str, FloatArray], query: int, near: Nearness, catalogue: Catalogue, counts: IntArray
) -> dict[str, Any]:
    """By place and model, with training counts."""
    found: dict[str, dict[str, str]] = {}
    for label, factors in models.items():
        nearest = near(factors, k=min(_LENGTH, counts.size - 1))[query]
        for place, item in enumerate(nearest.tolist(), start=1):
            if item >= 0:
                found.setdefault(str(place), {})[label] = f"{_title(catalogue, item)} ({counts[item]})"
    return found


def _shared(
    models: Mapping[str, FloatArray], queries: Sequence[int], near: Nearness
) -> list[dict[str, float]]:
    """Share of each query's 20 nearest that ALS has too, by private model."""
    k = min(_FEW, next(iter(models.values())).shape[0] - 1)
    nearest = {label: near(factors, k=k) for label, factors in models.items()}
    overlaps = {
        label: neighbour_overlap(lists, nearest["ALS"]) for label, lists in nearest.items() if label != "ALS"
    }
    return [{label: float(values[query]) for label, values in overlaps.items()} for query in queries]


def _median_counts(models: Mapping[str, FloatArray], near: Nearness, counts: IntArray) -> dict[str, float]:
    """Median training count of the items in the lists of all learnt items, by model."""
    found = {}
    for label, factors in models.items():
        listed = near(factors, k=min(_LENGTH, counts.size - 1))
        found[label] = float(np.median(counts[listed[listed >= 0]]))
    return found


def _told(
    described: str,
    epsilon: float,
    titles: Sequence[str],
    shared: Mapping[str, Sequence[Mapping[str, float]]],
) -> str:
    parts = [
        f"{title}: "
        + ", ".join(
            f"{label} {100 * by_cosine[label]:.0f} % ({100 * by_product[label]:.0f} %)" for label in by_cosine
        )
        for title, by_cosine, by_product in zip(
            titles, shared["cosine"], shared["inner product"], strict=True
        )
    ]
    return (
        "The paper shows lists of ML-20M by the inner product, where those of AdaDPALS are nearer to those of ALS, "
        f"above all for rare items. On {described}, at epsilon {epsilon:g}, share of the {_FEW} nearest by cosine "
        f"(by inner product) that ALS has too: {'; '.join(parts)}. "
        "Training counts are in brackets; the examples are the paper's where all models have learnt them."
    )


def _title(catalogue: Catalogue, item: int) -> str:
    return f"item {catalogue.item_ids[item]}" if catalogue.titles is None else catalogue.titles[item]
