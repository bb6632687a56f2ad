"""What exact accounting is worth: claims recomputed at 60 digits, and the noise that it saves.

Claims of random plans are held against their recomputation. For each epsilon that is named: the noise multiplier of
all releases together that the exact curve, Renyi orders (dp-accounting) and zCDP ask for, and the epsilon that a
claim by each of them really is. A run with more noise is a run at a smaller exact epsilon: what it costs in RMSE is
said by `fedboard sweep --epsilon` with these numbers.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
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
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.releases.noise import SecureNoise

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
    differences = []
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
        certificate = certify(
            events, commitment=Commitment.of(budget, plan), trust=[], assumptions=[], dataset="made up"
        )
        drawn = [e["noise_stddev"] / e["l2_sensitivity"] for e in certificate.releases]
        differences.append(float(exact_epsilon(drawn, delta) - mpmath.mpf(epsilon)))
    return {
        "plans": n_plans,
        "largest_upward": max(max(differences), 0.0),
        "largest_unspent": max(max(-difference for difference in differences), 0.0),
        "violations_above_1e-6": sum(difference > 1e-6 for difference in differences),
    }


def total_noise(epsilon: float, delta: float) -> Mapping[str, float]:
    """Noise multiplier of all releases together (1 / mu) that each accounting demands for a claim."""

    def by_library(multiplier: float) -> float:
        event = planned_event("all", multiplier, Adjacency.ADD_REMOVE)
        return epsilon_by_library([event], delta, accountant="rdp") - epsilon

    def through(conversion: Callable[..., float]) -> float:
        return float(
            brentq(lambda z: conversion(delta, rho=0.5 / z**2) - epsilon, exact, 2 * exact, xtol=1e-10)
        )

    exact = 1.0 / mu_for(epsilon, delta)
    return {
        "exact": exact,
        "rdp": float(brentq(by_library, exact, 2 * exact, xtol=1e-10)),
        "rdp_best_order": through(epsilon_through_renyi),
        "zcdp": through(epsilon_through_zcdp),
    }


def savings(epsilon: float, delta: float) -> Mapping[str, Any]:
    """Noise of all releases by each accounting, and the exact epsilon that it really buys."""
    totals = total_noise(epsilon, delta)
    return {
        "noise_multiplier_of_all": dict(totals),
        "noise_saved": {
            name: 1 - totals["exact"] / total for name, total in totals.items() if name != "exact"
        },
        "really_epsilon": {name: epsilon_of(delta, mu=1 / total) for name, total in totals.items()},
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command line."""
    parser.add_argument("--plans", type=int, default=200, help="random ones whose claims are recomputed")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0, 20.0])


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Recompute the claims, and say what each accounting asks for."""
    claims = check_plans(given.plans)
    saved = {f"{epsilon:g}": savings(epsilon, DELTA) for epsilon in given.epsilon}
    return {"claims": claims, "delta": DELTA, "epsilons": saved, "holds": not claims["violations_above_1e-6"]}
