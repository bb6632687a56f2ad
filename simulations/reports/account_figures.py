"""The privacy curve of releases: delta against epsilon, by each way of accounting."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget, budget_point
from fedboard.common.privacy.accounting.exact import epsilon_by_library, epsilon_of
from fedboard.common.privacy.accounting.grouping import is_installed, mechanisms_of
from fedboard.common.privacy.accounting.guarantee import composition_of, point_of
from fedboard.common.privacy.events import Event
from fedboard.common.reports.charts import Line, Scale, chart
from fedboard.common.reports.wording import listing, number, setting
from fedboard.server.operating.run_report import render

_POWERS = range(-9, -1)
"""Of ten: the deltas that are drawn."""
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
    """Draw the curves, on a page that needs nothing else.

    Args:
        events: sound, at least one.
        path: ends in .html.
        delta: what epsilon is told at.
        budget: as for ``account_curves``.

    Raises:
        InputError: another ending, no release, or a folder that does not exist.
        FedboardError: dp-accounting is not installed.
    """
    if not events or not path.parent.is_dir():
        what = "there is no release to draw" if not events else "its folder does not exist"
        raise InputError(f"{path}: {what}")
    if path.suffix != ".html":
        raise InputError(f"{path}: the curve is drawn on a page; name a file that ends in .html")
    deltas = sorted({*(float(f"1e{power}") for power in _POWERS), delta})
    curves = account_curves(events, deltas, budget=budget)
    largest, smallest = curves[-1].epsilons[0], curves[0].epsilons[0]
    apart = largest > _FAR_APART * smallest > 0
    at = deltas.index(delta)
    told = listing([f"{curve.label} {number(curve.epsilons[at], 4)}" for curve in curves])
    drawn = chart(
        [Line(name=curve.label, points=list(zip(deltas, curve.epsilons, strict=True))) for curve in curves],
        slug="account",
        title="Privacy curve of all releases together",
        reading=f"Epsilon at delta {setting(delta)}: {told}.",
        held_out=False,
        x=Scale(label="delta (logarithmic)", base=10.0, text=setting),
        y=Scale(label="epsilon", base=10.0, text=number) if apart else Scale(label="epsilon", zero=True),
    )
    page = render(
        "fedboard.simulations.reports:charts.html",
        live=False,
        command="fedboard account",
        title=drawn.title,
        told="What everything together costs at each delta, by each way of accounting.",
        charts=[drawn],
    )
    path.write_text(page, encoding="utf-8")
