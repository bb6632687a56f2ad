"""Recompute the epsilon of a certificate without fedboard: by dp-accounting, and by the closed form with scipy.

usage: python recompute_epsilon.py certificate.json      # pip install dp-accounting scipy

It reads three things of the file: the plan (release name: noise multiplier), delta, and the epsilon that is
claimed. Exit code 1 if the claim is smaller than what either of the two finds.
"""

import json
import math
import sys
from pathlib import Path

from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.optimize import brentq
from scipy.stats import norm

STEP = 1e-4
"""Of the privacy losses that dp-accounting counts with; it rounds them up."""


def main(path):
    """Print three epsilons; 0 if the claim covers the other two."""
    certificate = json.loads(Path(path).read_text(encoding="utf-8"))
    plan, claim = certificate["commitment"]["plan"], certificate["claim"]
    if plan is None or not all(isinstance(multiplier, int | float) for multiplier in plan.values()):
        sys.exit(
            "this script knows plans of Gaussian releases in which everybody takes part; this is another"
        )

    accountant = PLDAccountant(value_discretization_interval=STEP)
    for multiplier in plan.values():
        accountant.compose(GaussianDpEvent(multiplier))
    by_library = accountant.get_epsilon(claim["delta"])

    mu = math.sqrt(sum(1 / multiplier**2 for multiplier in plan.values()))
    by_hand = brentq(
        lambda epsilon: (
            norm.cdf(mu / 2 - epsilon / mu)
            - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            - claim["delta"]
        ),
        0,
        100,
    )
    print(
        f"claimed          epsilon {claim['epsilon']:.6f} at delta {claim['delta']:g}, {claim['adjacency']}"
    )
    print(f"by hand          epsilon {by_hand:.6f}, mu {mu:.6f} of {len(plan)} planned releases")
    print(f"dp-accounting    epsilon {by_library:.6f}, losses rounded up to {STEP:g}")
    rounded = STEP * len(plan)
    return int(by_hand > claim["epsilon"] * (1 + 1e-6) or by_library > claim["epsilon"] + rounded)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
