"""Figure 1: how many items have how many ratings, and what a cache holds of them."""

from collections.abc import Mapping

import numpy as np

from fedboard.common.arrays import IntArray
from research.shared.data_sets import all_pairs, each_ratings
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Line, line_panels

_FEW = 100
_TIERS = (500, 4500)
"""Where the paper's tiers end, by rank: the first 500 items and the next 4000."""
_BINS_PER_DECADE = 8


def figure_1(setting: Setting) -> Outcome:
    """Items by their number of ratings, on logarithmic scales, a line for each data set."""
    each = [all_pairs(ratings, name) for name, ratings in each_ratings(setting)]
    counts = {pairs.name: pairs.item_counts for pairs in each}
    shares = {name: _summary(own) for name, own in counts.items()}
    lines = {name: _histogram(own) for name, own in counts.items()}
    return Outcome(
        numbers={
            "items": shares,
            "histogram": {
                name: {"ratings": list(places), "items": list(heights)}
                for name, (places, heights) in lines.items()
            },
        },
        settings={"data": [pairs.described for pairs in each], "bins_per_decade": _BINS_PER_DECADE},
        comparison=(
            "The paper plots Netflix and Yahoo: a power law, many items with 100 ratings or less, most ratings on "
            "few items; Netflix' top 500 movies have 44 % of its ratings. Here: "
            + "; ".join(
                f"{pairs.described}: {100 * own['share of items with at most 100']:.0f} % of the items have at "
                f"most 100 ratings, the top 500 have {100 * own['share of ratings on the top 500']:.0f} % of the "
                f"ratings, the next 4000 {100 * own['share of ratings on the next 4000']:.0f} %"
                for pairs, own in zip(each, shares.values(), strict=True)
            )
            + "."
        ),
        figures={
            "figure-1": line_panels(
                {"": lines}, across="ratings of an item", up="items with so many, per rating", log="xy"
            )
        },
    )


def _summary(ascending: IntArray) -> Mapping[str, float]:
    total = float(ascending.sum())
    descending = ascending[::-1]
    first, second = _TIERS
    return {
        "share of items with at most 100": float(np.mean(ascending <= _FEW)),
        "share of ratings on the top 500": float(descending[:first].sum() / total),
        "share of ratings on the next 4000": float(descending[first:second].sum() / total),
        "share of ratings on the rest": float(descending[second:].sum() / total),
        "largest": int(descending[0]),
    }


def _histogram(counts: IntArray) -> Line:
    """Items per whole number of ratings, over bins that widen with it; empty bins left out."""
    decades = np.log10(counts.max() + 1)
    edges = np.unique(
        np.rint(np.logspace(0, decades, 1 + int(np.ceil(decades * _BINS_PER_DECADE)))).astype(int)
    )
    edges[-1] = max(int(edges[-1]), int(counts.max()) + 1)
    found, _ = np.histogram(counts, bins=edges)
    density = found / np.diff(edges)
    places = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, 1))
    return places[found > 0].tolist(), density[found > 0].tolist()
