"""Table 1 and figure 7: how large the data sets are, and how unevenly their items are rated."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from research.shared.data_sets import (
    FEWEST_POSITIVES,
    POSITIVE_ABOVE,
    Pairs,
    all_pairs,
    each_ratings,
    positive_pairs,
)
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, draw_panels
from research.shared.ratings import data_of

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "ML10M": {"users": 69_878, "items": 10_677, "observations": 10_000_000},
    "ML20M": {"users": 136_677, "items": 20_108, "observations": 9_990_000, "top 10 % of items": 0.86},
    "MSD": {"users": 571_355, "items": 41_140, "observations": 33_630_000},
}
_POINTS = 101
_MOST_RANKS = 200


def table_1(setting: Setting) -> Outcome:
    """Users, items and observations, of all ratings and of what the list benchmarks count."""
    found = _statistics(setting)
    return Outcome(
        numbers={"statistics": found, "published": PUBLISHED},
        settings={
            "data": _sources(setting),
            "positives": f"above {POSITIVE_ABOVE}, of users with at least {FEWEST_POSITIVES}",
        },
        comparison=(
            "The paper: ML10M 69,878 users, 10,677 items, 10M observations; ML20M 136,677, 20,108, 9.99M; MSD "
            "571,355, 41,140, 33.63M. ML20M and MSD count positive feedback. Here: "
            + "; ".join(
                f"{name} {of['users']:,}, {of['items']:,}, {of['observations']:,}, of which the top 10 % of the "
                f"items have {100 * of['top 10 % of items']:.0f} %"
                for name, of in found.items()
            )
            + "."
        ),
        figures={},
    )


def task_skew(setting: Setting) -> Outcome:
    """Figure 7: ratings of an item against its rank, and which share falls on the most popular items.

    Raises:
        InputError: a data set has no positive feedback.
    """
    each = [positive_pairs(ratings, name) for name, ratings in each_ratings(setting)]
    for pairs in each:
        if not pairs.users.size:
            raise InputError(
                f"{pairs.name}: nobody has {FEWEST_POSITIVES} ratings above {POSITIVE_ABOVE}, so there is no "
                "positive feedback to count; leave it out"
            )
    counts = {pairs.name: pairs.item_counts[::-1] for pairs in each}
    curves = {name: _shares(own) for name, own in counts.items()}
    tops = {name: _top(own) for name, own in counts.items()}
    at = np.linspace(0.0, 1.0, _POINTS)
    return Outcome(
        numbers={
            "share_of_data": {
                name: {f"top {x:.0%}": y for x, y in zip(at[10::10], curve[10::10], strict=True)}
                for name, curve in curves.items()
            },
            "share_of_top_tenth": tops,
            "statistics": {name: _sizes(pairs) for name, pairs in zip(counts, each, strict=True)},
            "curve": curves,
            "sorted_counts": {name: own.tolist() for name, own in counts.items()},
        },
        settings={"data": [pairs.described for pairs in each], "positive_above": POSITIVE_ABOVE},
        comparison=(
            "The paper: on ML-20M the top 10 % of the movies account for 86 % of the training data. Here, of the "
            "positive feedback, they account for "
            + "; ".join(f"{100 * tops[pairs.name]:.0f} % on {pairs.described}" for pairs in each)
            + "."
        ),
        figures={"figure-7": draw_panels([_rank_panel(counts), _share_panel(curves, at.tolist())])},
    )


def _statistics(setting: Setting) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, ratings in each_ratings(setting):
        if not ratings.presence:
            found[f"{name}, ratings"] = _sizes(all_pairs(ratings, name))
        positives = positive_pairs(ratings, name)
        if positives.users.size:
            found[f"{name}, positives"] = _sizes(positives)
    return found


def _sources(setting: Setting) -> list[str]:
    return [data_of(own).source for own in setting.each_data()]


def _sizes(pairs: Pairs) -> dict[str, float]:
    items, users = pairs.item_counts[::-1], pairs.user_counts
    return {
        "users": users.size,
        "items": items.size,
        "observations": pairs.users.size,
        "density": pairs.users.size / (users.size * items.size),
        "median of an item": float(np.median(items)),
        "median of a user": float(np.median(users)),
        "top 10 % of items": _top(items),
        "Gini of items": _gini(items),
    }


def _shares(descending: IntArray) -> list[float]:
    """Share of the data on the most popular x of the items, x from 0 to 1 in hundredths."""
    shares = np.append(0.0, np.cumsum(descending) / descending.sum())
    curve: list[float] = np.interp(
        np.linspace(0.0, 1.0, _POINTS), np.linspace(0.0, 1.0, shares.size), shares
    ).tolist()
    return curve


def _top(descending: IntArray) -> float:
    return _shares(descending)[(_POINTS - 1) // 10]


def _gini(descending: IntArray) -> float:
    n = descending.size
    return float((2 * np.arange(n, 0, -1) - n - 1) @ descending / (n * descending.sum()))


def _rank_panel(counts: Mapping[str, IntArray]) -> Panel:
    longest = max(own.size for own in counts.values())
    ranks = np.unique(np.rint(np.geomspace(1, longest, _MOST_RANKS)).astype(int))
    lines: dict[str, list[float | None]] = {
        name: [float(own[r - 1]) if r <= own.size else None for r in ranks.tolist()]
        for name, own in counts.items()
    }
    return Panel(
        title="Positive ratings of an item",
        lines=lines,
        places=ranks.tolist(),
        across="rank of the item",
        up="ratings",
        log=True,
        log_across=True,
    )


def _share_panel(curves: Mapping[str, Any], places: list[float]) -> Panel:
    return Panel(
        title="Share of the data on the most popular items",
        lines=curves,
        places=places,
        across="share of the items, most popular first",
        up="share of the data",
    )
