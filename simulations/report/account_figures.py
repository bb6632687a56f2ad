"""The privacy curve of releases: delta against epsilon, by each way of accounting."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget, budget_point
from fedboard.common.privacy.accounting.exact import epsilon_by_library, epsilon_of
from fedboard.common.privacy.accounting.grouping import is_installed, mechanisms_of
from fedboard.common.privacy.accounting.guarantee import composition_of, point_of
from fedboard.common.privacy.events import Event
from fedboard.common.reports.wording import number, setting
from fedboard.simulations.drawing.svg import DASHES, MUTED, SERIES, house_style, new_figure, settle

_FORMATS = (".svg", ".png", ".pdf")
_DOTS_PER_INCH = 160
_SMALLEST, _LARGEST, _POINTS = -9.0, -2.0, 36  # powers of ten of delta
_FAR_APART = 20.0  # then epsilon needs a logarithmic axis


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCurve:
    """Epsilon at many deltas by one way of accounting."""

    label: str
    epsilons: tuple[float, ...]


def account_curves(
    events: Sequence[Event], deltas: Sequence[float], *, budget: Budget | None = None
) -> tuple[AccountCurve, ...]:
    """The curves of sound events, tightest first; the exact one only where there is a closed form.

    Args:
        events: sound, and fixed before the first was made.
        deltas: each in (0, 1).
        budget: where events were not fixed beforehand: the budget that they were held against. It is what is
            drawn then, because it is what is promised.

    Raises:
        FedboardError: dp-accounting is needed, since not all is Gaussian, and not installed.
    """
    if budget is not None:
        return _budget_curves(budget, deltas)
    points = [point_of(events, delta) for delta in deltas]
    exact = mechanisms_of(events).is_gaussian
    mu = composition_of(events, deltas[0]).mu
    curves = {
        "exact" if exact else "mu-GDP bound": [epsilon_of(d, mu=mu) for d in deltas],
        "loss distributions": _by_library(events, deltas),
        "Renyi orders": [point.epsilon_rdp for point in points],
        "zCDP" if exact else "zCDP bound": [point.epsilon_zcdp for point in points],
    }
    found = [AccountCurve(label=label, epsilons=tuple(values)) for label, values in curves.items() if values]
    return tuple(found if exact else [found[1], found[2], found[0], found[3]])


def _by_library(events: Sequence[Event], deltas: Sequence[float]) -> list[float]:
    """Nothing where dp-accounting is not installed, which an exact curve does not need."""
    return [epsilon_by_library(events, delta) for delta in deltas] if is_installed() else []


def _budget_curves(budget: Budget, deltas: Sequence[float]) -> tuple[AccountCurve, ...]:
    points = [budget_point(budget, delta) for delta in deltas]
    return (
        AccountCurve(label="the budget", epsilons=tuple(point.epsilon for point in points)),
        AccountCurve(label="Renyi orders", epsilons=tuple(point.epsilon_rdp for point in points)),
        AccountCurve(label="zCDP bound", epsilons=tuple(point.epsilon_zcdp for point in points)),
    )


def write_account_figure(
    events: Sequence[Event], path: Path, *, delta: float, budget: Budget | None = None
) -> None:
    """Draw the curves.

    Args:
        events: sound, at least one.
        path: its suffix decides the format: .svg, .png or .pdf.
        delta: is marked.
        budget: as for ``account_curves``.

    Raises:
        InputError: another suffix, no release, or a folder that does not exist.
        FedboardError: dp-accounting is not installed.
    """
    if path.suffix not in _FORMATS:
        raise InputError(f"{path}: a figure is written as one of {', '.join(_FORMATS)}")
    if not events or not path.parent.is_dir():
        what = "there is no release to draw" if not events else "its folder does not exist"
        raise InputError(f"{path}: {what}")
    deltas = np.logspace(_SMALLEST, _LARGEST, _POINTS)
    with house_style():
        curves = account_curves(events, deltas.tolist(), budget=budget)
        figure = _figure(curves, deltas.tolist(), delta)
        settle(figure)
        figure.savefig(path, facecolor="white", dpi=_DOTS_PER_INCH)


def _figure(curves: Sequence[AccountCurve], deltas: Sequence[float], delta: float) -> Figure:
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    for place, curve in enumerate(curves):
        at = float(np.interp(np.log(delta), np.log(deltas), curve.epsilons))
        axes.plot(
            curve.epsilons,
            deltas,
            color=SERIES[place],
            linestyle=DASHES[place],
            # Wide below and thin above, because exact curve and loss distributions lie on each other.
            linewidth=4.0 if place == 0 else 1.6,
            alpha=0.45 if place == 0 else 1.0,
            label=f"{curve.label}: {number(at, 4)}",
        )
    axes.axhline(delta, color=MUTED, linestyle=DASHES[1], linewidth=1.0)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: setting(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    if curves[-1].epsilons[0] > _FAR_APART * curves[0].epsilons[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: setting(value)))
    else:
        axes.set_xlim(left=0.0)
    axes.set_ylim(deltas[0], deltas[-1])
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta (logarithmic)")
    axes.set_title("Privacy curve of all releases together")
    axes.grid(visible=True, axis="x")
    axes.legend(
        loc="best",
        title=f"epsilon at delta {setting(delta)}",
        frameon=False,
        fontsize=8.5,
        title_fontsize=8.5,
    )
    return figure
