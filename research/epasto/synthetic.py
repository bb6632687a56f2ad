"""Figures 1 to 3: label-private regression on synthetic data."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from research.epasto.estimators import BEST_LIMIT, METHODS, NO_LIMIT, OURS, errors_of
from research.epasto.problems import synthetic_problem
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, draw_panels

ROWS = (600, 1200, 1800, 2400, 3000)
EXPONENTS = (1.1, 1.2, 1.4, 1.6, 1.8, 2.0)
ALPHA = 1.5
_LABELS = {OURS: "ours", BEST_LIMIT: "sample limit, best", NO_LIMIT: "sample limit, all rows"}

Numbers = dict[str, dict[str, float]]


def figure_1(setting: Setting) -> Outcome:
    """Error against the number of rows at epsilon 1."""
    (epsilon,) = setting.epsilons_or(1.0)
    errors = _by_rows(setting, epsilons=(epsilon,))[f"{epsilon:g}"]
    return Outcome(
        numbers={"error": errors},
        settings=_settings(setting, rows=ROWS, alpha=ALPHA, epsilon=epsilon),
        comparison=_verdict(errors, "every number of rows, even by orders of magnitude"),
        figures={"figure-1": _lines({f"epsilon {epsilon:g}": errors}, "rows")},
    )


def figure_2(setting: Setting) -> Outcome:
    """Error against the Zipf exponent at epsilon 1, n = 3000."""
    (epsilon,) = setting.epsilons_or(1.0)
    cells = list(product(EXPONENTS, range(setting.seeds)))
    found: dict[float, list[Mapping[str, float]]] = {alpha: [] for alpha in EXPONENTS}
    for done, (alpha, seed) in enumerate(cells):
        setting.on_progress("problems", done, len(cells))
        problem = synthetic_problem(ROWS[-1], alpha=alpha, seed=seed)
        found[alpha].append(errors_of(problem, epsilon=epsilon, seed=seed).of_method)
    errors = {f"{alpha:g}": _mean(of) for alpha, of in found.items()}
    return Outcome(
        numbers={"error": errors},
        settings=_settings(setting, rows=ROWS[-1], alpha=EXPONENTS, epsilon=epsilon),
        comparison=_verdict(errors, "every exponent, most of all for small ones (uneven contributions)"),
        figures={"figure-2": _lines({f"epsilon {epsilon:g}, 3000 rows": errors}, "Zipf exponent")},
    )


def figure_3(setting: Setting) -> Outcome:
    """Figure 1 at other epsilons."""
    epsilons = setting.epsilons_or(2.0, 3.0)
    errors = _by_rows(setting, epsilons=epsilons)
    together = {f"{epsilon}/{n}": numbers for epsilon, of in errors.items() for n, numbers in of.items()}
    return Outcome(
        numbers={"error": errors},
        settings=_settings(setting, rows=ROWS, alpha=ALPHA, epsilon=epsilons),
        comparison=_verdict(
            together, "every number of rows at epsilon 2 and 3, all errors falling with epsilon"
        ),
        figures={"figure-3": _lines({f"epsilon {epsilon}": of for epsilon, of in errors.items()}, "rows")},
    )


def _by_rows(setting: Setting, *, epsilons: Sequence[float]) -> dict[str, Numbers]:
    cells = list(product(epsilons, ROWS, range(setting.seeds)))
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {
        f"{epsilon:g}": {str(n): [] for n in ROWS} for epsilon in epsilons
    }
    for done, (epsilon, n, seed) in enumerate(cells):
        setting.on_progress("problems", done, len(cells))
        problem = synthetic_problem(n, alpha=ALPHA, seed=seed)
        found[f"{epsilon:g}"][str(n)].append(errors_of(problem, epsilon=epsilon, seed=seed).of_method)
    return {epsilon: {n: _mean(of) for n, of in by_rows.items()} for epsilon, by_rows in found.items()}


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {method: float(np.mean([errors[method] for errors in found])) for method in METHODS}


def _settings(setting: Setting, **others: Any) -> dict[str, Any]:
    return {
        **others,
        "seeds": setting.seeds,
        "noise": "averaged in closed form",
        "limits": "best of 14 log-spaced thresholds, 3 samples each",
        "label_range": "what the labels span, as if it were public",
    }


def _verdict(errors: Numbers, paper: str) -> str:
    over = [found[BEST_LIMIT] / found[OURS] for found in errors.values()]
    all_rows = [found[NO_LIMIT] / found[OURS] for found in errors.values()]
    return (
        f"Paper (bars without numbers): ours has the least error for {paper}. Here, on problems made in the same "
        f"way: the best sample limit has {min(over):.2g} to {max(over):.2g} times our error, all rows "
        f"{min(all_rows):.3g} to {max(all_rows):.3g} times."
    )


def _lines(panels: Mapping[str, Numbers], what: str) -> Figure:
    return draw_panels(
        [
            Panel(
                title=title,
                lines={
                    label: [found[method] for found in errors.values()] for method, label in _LABELS.items()
                },
                ticks=list(errors),
                across=what,
                up="average squared error",
                log=True,
            )
            for title, errors in panels.items()
        ]
    )
