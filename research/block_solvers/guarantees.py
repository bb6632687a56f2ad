"""What a sample from the posterior guarantees: the reading in the limit, and the one after finitely many steps."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingGuarantee:
    """Two readings of one sample, never to be mixed up. Public."""

    kind: Literal["asymptotic"] = "asymptotic"
    user_epsilon: float
    """Of an exact sample, for adding or removing a user who has the whole bound B, as the paper states it."""
    rating_epsilon: float
    """Of an exact sample, for changing the value of one rating: user_epsilon rho / tau, at most user_epsilon."""
    rating_presence: bool
    """Whether the same holds for adding or removing a rating: only if no weight depends on the number of
    ratings."""
    finite_step_epsilon: float = math.inf
    """Of what was really computed: none."""
    statement: str

    def record(self) -> Mapping[str, Any]:
        """JSON-able; infinity as null."""
        known = asdict(self)
        known["finite_step_epsilon"] = None
        return known


def sampling_guarantee(
    epsilon: float, *, temperature: float, most_ratings: int, largest_weight: float
) -> SamplingGuarantee:
    """Read a sample from ``exp(-epsilon / (4 B temperature) F)``, whose likelihood is bounded by B for each user.

    A colder chain (temperature below 1, as the paper's zeta) samples another distribution: that of epsilon /
    temperature. Nothing here enters a ledger or a certificate: how far finitely many steps are from the
    distribution is not known, and single steps of the unclipped chain have no finite bound.

    Args:
        epsilon: of the paper's Algorithm 1, > 0.
        temperature: > 0.
        most_ratings: tau >= 1.
        largest_weight: rho > 0.

    Raises:
        InputError: an argument is out of its range.

    Reference: Liu, Wang and Smola (2015), theorems 1 and 2, sec. 6.7.
    """
    if not (0 < epsilon < math.inf and 0 < temperature < math.inf):
        raise InputError(f"epsilon and temperature must be finite and > 0, got {epsilon} and {temperature}")
    if most_ratings < 1 or not 0 < largest_weight < math.inf:
        raise InputError(f"tau must be >= 1 and rho > 0, got {most_ratings} and {largest_weight}")
    read = epsilon / temperature
    return SamplingGuarantee(
        user_epsilon=read,
        rating_epsilon=read * min(1.0, largest_weight / most_ratings),
        rating_presence=largest_weight <= 1.0,
        statement=(
            f"asymptotic: epsilon {read:g} for a user if the sample were exact. It is not: after finitely many "
            "steps of stochastic gradient Langevin dynamics without clipping no finite epsilon is known. For a "
            "guarantee that holds, and is booked, run --algorithm langevin."
        ),
    )


def personal_epsilons(epsilon: float, bounds: Any, total_bound: float) -> Any:
    """Each user's own epsilon of an exact sample: ``epsilon B_j / (2 B)``.

    Args:
        epsilon: of the sample.
        bounds: B_j = N_j w_j range^2, a number or an array, at most ``total_bound``.
        total_bound: B.

    Reference: Liu, Wang and Smola (2015), theorem 2.
    """
    return epsilon * bounds / (2 * total_bound)
