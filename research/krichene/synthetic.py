"""Figure 5: many regressions of unequal size, what weighting them is worth and where the best weighting lies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fedboard.common.arrays import FloatArray
from research.krichene.regression import (
    Regressions,
    Sizes,
    Solver,
    draw_regressions,
    rmse_of,
    solve_descent,
    solve_statistics,
    step_count,
)
from research.shared.experiment import Outcome, Setting
from research.shared.panels import EXPONENTS, Panel, as_text, draw_panels

ALGORITHMS = {"AdaDPALS": solve_statistics, "AdaDPSGD": solve_descent}
SKEWS = (1.0, 2.0)
EPSILONS = (1.0, 2.0, 5.0, 10.0)
SOLVER, SIZES = Solver(epsilon=1.0), Sizes()
_PAPER = (
    "The paper plots RMSE against mu without numbers: poor at mu = 0, above all at small epsilon, much better as "
    "mu grows, with theory at mu = 1/2 and the best mu varying from case to case."
)


def figure_5(setting: Setting) -> Outcome:
    """Run appendix C at its full size."""
    return run_synthetic(setting, sizes=SIZES, epsilons=setting.epsilons_or(*EPSILONS))


def run_synthetic(
    setting: Setting, *, sizes: Sizes, epsilons: Sequence[float], solver: Solver = SOLVER
) -> Outcome:
    """The experiment at any size.

    Args:
        setting: seeds and progress; data is always drawn.
        sizes: of the problem.
        epsilons: claims to compare.
        solver: the settings that all runs share.
    """
    drawn: dict[float, list[Regressions]] = {skew: [] for skew in SKEWS}
    errors: dict[float, list[FloatArray]] = {skew: [] for skew in SKEWS}
    runs = [(skew, seed) for skew in SKEWS for seed in range(setting.seeds)]
    for done, (skew, seed) in enumerate(runs):
        setting.on_progress("regressions", done, len(runs))
        drawn[skew].append(draw_regressions(skew, seed, sizes))
        errors[skew].append(_errors(setting, drawn[skew][-1], epsilons, replace(solver, seed=seed)))
    setting.on_progress("regressions", len(runs), len(runs))
    rmse = {
        name: {f"{a:g}": _by_epsilon(np.mean(errors[a], axis=0)[place], epsilons) for a in SKEWS}
        for place, name in enumerate(ALGORITHMS)
    }
    summary = {name: {a: _summary(found) for a, found in by.items()} for name, by in rmse.items()}
    task_sizes = {f"{a:g}": np.sort(drawn[a][0].counts)[::-1].tolist() for a in SKEWS}
    return Outcome(
        numbers={"rmse": rmse, "at_smallest_epsilon": summary, "task_sizes": task_sizes},
        settings=_settings(setting, sizes, solver, drawn[SKEWS[0]][0], epsilons),
        comparison=f"{_PAPER} {_told(summary, epsilons)}",
        figures={"figure-5": draw_panels(_panels(rmse, task_sizes, epsilons))},
    )


def _settings(
    setting: Setting, sizes: Sizes, solver: Solver, problem: Regressions, epsilons: Sequence[float]
) -> dict[str, Any]:
    varied = ("epsilon", "exponent", "seed")
    steps = {f"{epsilon:g}": step_count(problem, replace(solver, epsilon=epsilon)) for epsilon in epsilons}
    shared = {key: value for key, value in asdict(solver).items() if key not in varied}
    return {**asdict(sizes), **shared, "seeds": setting.seeds, "gradient_steps": steps}


def _errors(setting: Setting, problem: Regressions, epsilons: Sequence[float], solver: Solver) -> FloatArray:
    """RMSE, float64, shape (algorithms, epsilons, exponents)."""
    found = np.empty((len(ALGORITHMS), len(epsilons), len(EXPONENTS)))
    for a, solve in enumerate(ALGORITHMS.values()):
        for e, epsilon in enumerate(epsilons):
            for x, exponent in enumerate(EXPONENTS):
                own = replace(solver, epsilon=epsilon, exponent=exponent)
                found[a, e, x] = rmse_of(problem, solve(problem, own, setting.scratch))
    return found


def _by_epsilon(errors: FloatArray, epsilons: Sequence[float]) -> dict[str, dict[str, float]]:
    return {
        f"{epsilon:g}": {as_text(exponent): float(errors[e, x]) for x, exponent in enumerate(EXPONENTS)}
        for e, epsilon in enumerate(epsilons)
    }


def _summary(by_epsilon: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """At the smallest epsilon: the unweighted error, the best, which mu has it, and the share gained."""
    errors = next(iter(by_epsilon.values()))
    best = min(errors, key=lambda exponent: errors[exponent])
    unweighted = errors[as_text(0.0)]
    return {
        "rmse_at_0": unweighted,
        "rmse_at_1/2": errors[as_text(0.5)],
        "best_rmse": errors[best],
        "best_exponent": best,
        "gain": 1.0 - errors[best] / unweighted,
    }


def _told(summary: Mapping[str, Any], epsilons: Sequence[float]) -> str:
    parts = [
        f"{name}, skew a = {a}: {100 * found['gain']:.0f} % below mu = 0 ({found['rmse_at_0']:.4f} to "
        f"{found['best_rmse']:.4f}), best mu {found['best_exponent']}"
        for name, by in summary.items()
        for a, found in by.items()
    ]
    at = f"at epsilon {min(epsilons):g}"
    return f"Here, on the same synthetic problem with exact counts, {at}: {'; '.join(parts)}."


def _panels(
    rmse: Mapping[str, Any], sizes: Mapping[str, Sequence[float]], epsilons: Sequence[float]
) -> list[Panel]:
    longest = range(max(len(values) for values in sizes.values()))
    first = Panel(
        title="(a) Size of the tasks",
        lines={f"a = {a}": values for a, values in sizes.items()},
        places=longest,
        across="tasks, largest first",
        up="training examples",
    )
    panels = [first]
    for letter, (name, a) in zip("bcde", [(n, a) for n in rmse for a in rmse[n]], strict=True):
        panels.append(
            Panel(
                title=f"({letter}) {name}, a = {a}",
                lines={
                    f"epsilon {epsilon:g}": list(rmse[name][a][f"{epsilon:g}"].values())
                    for epsilon in epsilons
                },
                places=EXPONENTS,
                ticks=[as_text(exponent) for exponent in EXPONENTS],
                across="exponent mu of the weights",
                up="test RMSE",
                log=True,
            )
        )
    return panels
