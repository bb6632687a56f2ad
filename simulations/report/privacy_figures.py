"""Where the privacy budget went: one row a release, its share of mu^2 and the epsilon spent so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedboard.simulations.drawing.figures import Plot, finish
from fedboard.simulations.drawing.svg import DASHES, INK, MARKERS, MUTED, SERIES, SURFACE, new_figure
from fedboard.simulations.drawing.table import Table
from fedboard.simulations.drawing.wording import fixed, number, percent, setting
from fedboard.simulations.report.guarantee import ReleaseLine, Statement

_MOST_ROWS = 30
_BACKING = {"facecolor": SURFACE, "edgecolor": "none", "pad": 0.8}
"""Behind a number that the line of the claim may cross."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spend:
    """One row of the figure: a release, or a run of consecutive releases where there are very many."""

    name: str
    share: float
    cumulative_epsilon: float


def budget_plot(statement: Statement) -> Plot | None:
    """Share of mu^2 per release beside the staircase of epsilon; None where mu cannot be recomputed."""
    spends = _spends(statement.releases)
    if not spends:
        return None
    figure = new_figure(7.4, 1.15 + 0.27 * len(spends))
    shares, staircase = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.25))
    _draw_shares(shares, spends)
    _draw_staircase(staircase, spends, statement.epsilon)
    return finish(
        figure,
        slug="budget",
        title="Privacy spent, release by release",
        reading=_reading(spends, statement),
        held_out=False,
        table=_table(spends),
    )


def _spends(releases: Sequence[ReleaseLine]) -> list[_Spend]:
    total = sum(release.mu_squared or 0.0 for release in releases)
    rows = _accounted_together(releases)
    if not total or not rows:
        return []
    size = -(-len(rows) // _MOST_ROWS)
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    groups = [[release for row in chunk for release in row] for chunk in chunks]
    return [
        _Spend(
            name=group[0].name if len(group) == 1 else f"{group[0].name} to {group[-1].name}",
            share=sum(release.mu_squared or 0.0 for release in group) / total,
            cumulative_epsilon=group[-1].cumulative_epsilon or 0.0,
        )
        for group in groups
    ]


def _accounted_together(releases: Sequence[ReleaseLine]) -> list[list[ReleaseLine]]:
    """The releases in rows that end where the cost is known: a sampled round has one cost. None without an end."""
    rows: list[list[ReleaseLine]] = []
    under_way: list[ReleaseLine] = []
    for release in releases:
        under_way.append(release)
        if release.cumulative_epsilon is not None:
            rows.append(under_way)
            under_way = []
    return [] if under_way else rows


def _draw_shares(axes: Axes, spends: Sequence[_Spend]) -> None:
    rows = np.arange(len(spends))
    values = [100 * spend.share for spend in spends]
    axes.barh(rows, values, height=0.62, color=SERIES[0])
    for row, (value, spend) in enumerate(zip(values, spends, strict=True)):
        axes.annotate(
            percent(spend.share), (value, row), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(rows, [spend.name for spend in spends])
    axes.set_ylim(len(spends) - 0.4, -0.6)
    axes.set_xlim(0, max(values) * 1.28)
    axes.set_title("Share of the budget")
    axes.set_xlabel("share of mu², %")
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)


def _draw_staircase(axes: Axes, spends: Sequence[_Spend], claim: float) -> None:
    rows = np.arange(len(spends))
    epsilons = np.array([spend.cumulative_epsilon for spend in spends])
    corners = np.repeat(np.concatenate([[0.0], epsilons]), 2)[1:-1]
    axes.plot(corners, np.repeat(rows, 2), color=SERIES[0], linewidth=1.4)
    axes.plot(epsilons, rows, color=SERIES[0], marker=MARKERS[0], linestyle="none")
    for row, epsilon in enumerate(epsilons):
        axes.annotate(
            number(float(epsilon), 3),
            (epsilon, row),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            bbox=_BACKING,
        )
    axes.axvline(claim, color=MUTED, linestyle=DASHES[1], linewidth=1.1)
    # On the left of the line and in the first row, where the staircase is still far away.
    axes.annotate(
        f"claimed {setting(claim)}",
        (claim, -0.45),
        (-4, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=8,
        color=INK,
    )
    axes.set_xlim(0, max(claim, float(epsilons[-1])) * 1.16)
    axes.set_title("Epsilon so far")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("epsilon at the claimed delta")
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")


def _reading(spends: Sequence[_Spend], statement: Statement) -> str:
    largest = max(spends, key=lambda spend: spend.share)
    final = spends[-1].cumulative_epsilon
    return (
        f"The largest part, {percent(largest.share)} of mu², went to {largest.name}; "
        f"all {len(statement.releases)} releases together spend epsilon {number(final)} "
        f"of the {setting(statement.epsilon)} claimed at delta {setting(statement.delta)}."
    )


def _table(spends: Sequence[_Spend]) -> Table:
    rows = tuple((spend.name, percent(spend.share, 2), fixed(spend.cumulative_epsilon)) for spend in spends)
    return Table(headers=("Release", "Share of mu²", "Epsilon so far"), rows=rows)
