"""The pictures of an audit: what is claimed and what was shown, and what the board alone gives away."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedboard.common.reports.wording import setting
from fedboard.simulations.audit.attacks.board_games import FALSE_POSITIVES, BoardGame, highest_rate
from fedboard.simulations.audit.audit import AuditResult
from fedboard.simulations.drawing.svg import (
    DASHES,
    INK,
    MARKERS,
    MUTED,
    SERIES,
    house_style,
    new_figure,
    pictures,
)

_SMALLEST_RATE = 1e-3


def write_audit_figure(result: AuditResult, out_dir: Path) -> list[Path]:
    """Write audit.svg and audit.png.

    Left: claimed mu of each release and of all together, with the lower bound that the canaries showed, each at
    95 %; of many releases some exceed their claim by chance, marked are those that chance does not explain.
    Right: the board-only games' ROC curves under the curves that mu allows.

    Returns:
        Paths of the two files.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    with house_style():
        return pictures(audit_figure(result), out_dir / "audit")


def audit_figure(result: AuditResult) -> Figure:
    """Draw both panels; call under ``house_style``."""
    lines = len(result.releases) + 1
    figure = new_figure(9.6, max(4.2, 1.4 + 0.22 * lines))
    bounds, rates = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    _draw_bounds(bounds, result)
    _draw_rates(rates, result.board)
    return figure


def _draw_bounds(axes: Axes, result: AuditResult) -> None:
    game, lines = result.game, (*result.releases, result.game.whole)
    rows = np.arange(len(lines))
    claimed = np.array([line.mu for line in lines])
    shown = np.array([line.bound.sharp for line in lines])
    axes.hlines(rows, np.minimum(shown, claimed), claimed, color=MUTED, linewidth=1.0)
    axes.plot(claimed, rows, MARKERS[0], color=SERIES[0], label="claimed")
    broken = np.array([*(line.strict > line.mu for line in result.releases), game.violated])
    axes.plot(shown[~broken], rows[~broken], MARKERS[4], color=SERIES[2], label="shown, at least (95 %)")
    if broken.any():
        axes.plot(shown[broken], rows[broken], MARKERS[3], color=SERIES[1], label="shown, above the claim")
    axes.set_yticks(rows, [line.name for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlim(left=-0.02 * float(max(claimed.max(), shown.max())))
    shown_epsilon = f"{game.epsilon_lower_bound:.3g}"
    axes.set_title(f"Canaries: epsilon {setting(game.claimed)} claimed, at least {shown_epsilon} shown")
    axes.set_xlabel("mu")
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, fontsize=8)


def _draw_rates(axes: Axes, games: Sequence[BoardGame]) -> None:
    grid = np.geomspace(_SMALLEST_RATE, 1.0, 200)
    axes.plot(grid, grid, color=MUTED, linewidth=1.0, label="guessing")
    for place, game in enumerate(games):
        colour = SERIES[place % len(SERIES)]
        false_rates, true_rates = game.roc
        axes.plot(false_rates, true_rates, color=colour, label=f"{game.name}, AUC {game.auc:.2f}")
        allowed = highest_rate(grid, game.mu)
        label = f"allowed by mu {game.mu:.2f}"
        axes.plot(grid, allowed, color=colour, linestyle=DASHES[1], linewidth=1.1, label=label)
    axes.axvline(FALSE_POSITIVES, color=INK, linestyle=DASHES[3], linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.001, 0.01, 0.1, 1.0]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g} %"))
    axes.set_xlim(_SMALLEST_RATE, 1.0)
    axes.set_ylim(0.0, 1.02)
    axes.set_title("From the final board alone")
    axes.set_xlabel("false positives (logarithmic)")
    axes.set_ylabel("true positives")
    axes.legend(fontsize=7.5, loc="upper left", edgecolor="none", framealpha=0.9)
