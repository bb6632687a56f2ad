"""What exact accounting is worth: claims recomputed at 60 digits, noise saved, and the RMSE that it buys.

usage: python benchmarks/privacy/accounting.py [--plans 200] [--data PATH|synthetic] [--algorithm NAME]
                                       [--epsilon 1,5,20] [--seeds 0,1,2] [--workers N] [--json FILE]

Without --data only the claims are recomputed. With it, each run is made three times per seed: with the noise
that the exact curve asks for, with what Renyi orders (dp-accounting) and with what zCDP would have demanded for the
same claim. A run with more noise is a run at a smaller exact epsilon, so it is made at that epsilon; seeds, draws
and settings are the same. Test RMSE is not private: simulation only.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from scipy.optimize import brentq

from fedboard.common.certificate import certify
from fedboard.common.privacy.accounting.budget import Budget, planned_event, planned_events
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import (
    epsilon_by_library,
    epsilon_of,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    mu_for,
    rho_through,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.tasks.shared.ratings_config import with_noise
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.simulate import simulate

DIGITS = 60
DELTA = 1e-5


def exact_epsilon(noise_multipliers: Sequence[float], delta: float) -> mpmath.mpf:
    """Epsilon at 60 digits from the noise multipliers alone, by bisection on the Gaussian curve."""
    with mpmath.workdps(DIGITS):
        mu = mpmath.sqrt(mpmath.fsum(1 / mpmath.mpf(z) ** 2 for z in noise_multipliers))

        def spent(epsilon: mpmath.mpf) -> mpmath.mpf:
            above = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
            below = mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2
            return above - mpmath.exp(epsilon) * below

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while spent(high) > delta:
            low, high = high, 2 * high
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if spent(middle) > delta else (low, middle)
        return high


def check_plans(n_plans: int) -> Mapping[str, Any]:
    """Claims of random plans against their exact recomputation; differences in epsilon, upward is a violation."""
    differences, seconds = [], 0.0
    for seed in range(n_plans):
        rng = np.random.default_rng([7, seed])
        epsilon, delta = (
            float(np.exp(rng.uniform(np.log(0.05), np.log(30)))),
            float(10 ** rng.uniform(-9, -3)),
        )
        adjacency = Adjacency(rng.choice(["add-remove", "replace"]))
        parts = rng.dirichlet(np.full(int(rng.integers(1, 41)), rng.uniform(0.2, 5)))
        shares = {str(number): float(part) for number, part in enumerate(parts) if part > 1e-12}
        plan = noise_multipliers(epsilon, delta, shares)
        events = [event | SecureNoise().describe() for event in planned_events(plan, adjacency)]
        budget = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
        started = time.perf_counter()
        certificate = certify(
            events, commitment=Commitment.of(budget, plan), trust=[], assumptions=[], dataset="made up"
        )
        seconds += time.perf_counter() - started
        drawn = [e["noise_stddev"] / e["l2_sensitivity"] for e in certificate.releases]
        differences.append(float(exact_epsilon(drawn, delta) - mpmath.mpf(epsilon)))
    return {
        "plans": n_plans,
        "largest_upward": max(max(differences), 0.0),
        "largest_unspent": max(max(-difference for difference in differences), 0.0),
        "violations_above_1e-6": sum(difference > 1e-6 for difference in differences),
        "ms_per_certificate": 1e3 * seconds / n_plans,
    }


def total_noise(epsilon: float, delta: float) -> Mapping[str, float]:
    """Noise multiplier of all releases together (1 / mu) that each accounting demands for a claim."""

    def by_library(multiplier: float) -> float:
        event = planned_event("all", multiplier, Adjacency.ADD_REMOVE)
        return epsilon_by_library([event], delta, accountant="rdp") - epsilon

    exact = 1.0 / mu_for(epsilon, delta)
    return {
        "exact": exact,
        "rdp": float(brentq(by_library, exact, 2 * exact, xtol=1e-10)),
        "rdp_best_order": (2 * rho_through(epsilon_through_renyi, epsilon, delta)) ** -0.5,
        "zcdp": (2 * rho_through(epsilon_through_zcdp, epsilon, delta)) ** -0.5,
    }


def savings(epsilon: float, config: SimulationConfig, problem: Problem) -> Mapping[str, Any]:
    """Noise of the algorithm's own plan by each accounting, and the exact epsilon that it really buys."""
    totals = total_noise(epsilon, config.privacy.delta)
    task = build_task(config, rating_range=problem.rating_range, backend="numpy").task
    plan = task.settings.shared.noise_multipliers
    mu = math.sqrt(math.fsum(1 / z**2 for z in plan.values()))
    return {
        "releases": len(plan),
        "spends_all": mu * totals["exact"],
        "noise_multiplier_of_all": dict(totals),
        "noise_saved": {
            name: 1 - totals["exact"] / total for name, total in totals.items() if name != "exact"
        },
        "really_epsilon": {
            name: epsilon_of(config.privacy.delta, mu=1 / total) for name, total in totals.items()
        },
    }


def configuration(options: argparse.Namespace, epsilon: float, seed: int) -> SimulationConfig:
    return parse_config(
        {
            "data": {"source": options.data},
            "algorithm": options.algorithm,
            "privacy": {"epsilon": epsilon, "delta": DELTA},
            "seed": seed,
            "run": {"workers": options.workers, "baselines": False, "evaluate_rounds": False},
        }
    )


def same_settings(one: SimulationConfig, other: SimulationConfig, problem: Problem) -> None:
    """Both runs must differ in their noise alone."""
    first, second = (
        with_noise(build_task(c, rating_range=problem.rating_range, backend="numpy").task.settings, {})
        for c in (one, other)
    )
    if first != second:
        raise SystemExit(
            f"epsilon {other.privacy.epsilon:g} has other tuned settings than {one.privacy.epsilon:g}"
        )


def worth(
    options: argparse.Namespace, epsilon: float, really: Mapping[str, float], problem: Problem
) -> Mapping[str, Any]:
    """Test RMSE with the noise of each accounting: each seed's, mean, spread, and the paired difference."""
    claimed = configuration(options, epsilon, 0)
    found: dict[str, list[float]] = {}
    for name in ("exact", "rdp", "zcdp"):
        same_settings(claimed, configuration(options, really[name], 0), problem)
        found[name] = [rmse(options, really[name], seed, problem) for seed in options.seeds]
    result: dict[str, Any] = {}
    for name, values in found.items():
        costs = [value - exact for value, exact in zip(values, found["exact"], strict=True)]
        result[name] = {"test_rmse": values, **_summary("test_rmse", values), **_summary("cost", costs)}
    return result


def rmse(options: argparse.Namespace, epsilon: float, seed: int, problem: Problem) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(options, epsilon, seed)
        result = simulate(config, Path(folder) / "run", problem=problem)
        return float(result.final["metrics"]["test_rmse"])


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {f"{name}_mean": statistics.fmean(values), f"{name}_spread": spread}


def _told(epsilon: float, row: Mapping[str, Any]) -> str:
    saved, really = row["noise_saved"], row["really_epsilon"]
    lines = [
        f"epsilon {epsilon:g} ({row['releases']} releases): exact accounting needs {saved['rdp']:.2%} less noise "
        f"than Renyi orders and {saved['zcdp']:.2%} less than zCDP; their claim of {epsilon:g} is really "
        f"{really['rdp']:.4g} and {really['zcdp']:.4g}"
    ]
    for name, result in row["worth"].items():
        lines.append(
            f"  {name:6} test RMSE {result['test_rmse_mean']:.5f} +- {result['test_rmse_spread']:.5f}, "
            f"cost {result['cost_mean']:+.5f} +- {result['cost_spread']:.5f}"
        )
    return "\n".join(lines)


def _listed(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Recompute the claims; where data is named, also what exactness is worth on it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--data")
    parser.add_argument("--algorithm", default="adadpals")
    parser.add_argument("--epsilon", type=_listed, default=[1.0, 5.0, 20.0])
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in _listed(text)], default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"claims": check_plans(options.plans)}
    print(json.dumps(found["claims"]))
    if options.data is not None:
        found |= {"data": options.data, "algorithm": options.algorithm, "delta": DELTA, "epsilons": {}}
        problem = load_problem(configuration(options, options.epsilon[0], 0))
        for epsilon in options.epsilon:
            row = dict(savings(epsilon, configuration(options, epsilon, 0), problem))
            row["worth"] = worth(options, epsilon, row["really_epsilon"], problem)
            found["epsilons"][f"{epsilon:g}"] = row
            print(_told(epsilon, row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
