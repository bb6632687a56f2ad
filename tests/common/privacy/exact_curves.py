"""Privacy curves from first principles, by other means than the code under test."""

import math
from typing import Any

import mpmath
from scipy.integrate import quad
from scipy.special import ndtr


def gaussian(noise_multiplier: float, **fields: Any) -> dict[str, Any]:
    """A sound event with nothing in it but its noise."""
    event = {
        "mechanism": "gaussian",
        "name": "g",
        "covers": "a sum",
        "adjacency": "add-remove",
        "noise_multiplier": noise_multiplier,
        "rows": 1,
        "width": 1,
        "layout": "vector",
        "grid_step": 1.0,
        "l2_bound": 1,
        "same_sign": False,
        "release_shift": 0,
    }
    event |= fields
    factor = 1.0
    if event["adjacency"] == "replace":
        factor = math.sqrt(2.0) if event["same_sign"] else 2.0
    return {**event, "l2_sensitivity": factor, "noise_stddev": factor * noise_multiplier}


def laplace(noise_multiplier: float, **fields: Any) -> dict[str, Any]:
    """The same with Laplace noise."""
    return {
        "mechanism": "laplace",
        "name": "l",
        "covers": "a mean",
        "adjacency": "add-remove",
        "noise_multiplier": noise_multiplier,
        "l1_sensitivity": 2.0,
        "noise_scale": 2.0 * noise_multiplier,
    } | fields


def sampled(
    noise_multiplier: float, *, probability: float = 0.1, round_name: str = "round-1", **fields: Any
) -> dict[str, Any]:
    """A Gaussian of a round with Poisson participation."""
    participation = {"kind": "poisson", "probability": probability, "round": round_name}
    return gaussian(noise_multiplier, participation=participation, **fields)


def gaussian_delta(epsilon: Any, mu: Any) -> Any:
    """Curve of mu-GDP at 60 digits."""
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        upper = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
        lower = mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2
        return upper - mpmath.exp(epsilon) * lower


def gaussian_mu(noise_multipliers: Any) -> Any:
    """Mu of Gaussian releases together at 60 digits."""
    with mpmath.workdps(60):
        return mpmath.sqrt(mpmath.fsum(1 / mpmath.mpf(z) ** 2 for z in noise_multipliers))


def gaussian_epsilon(delta: float, mu: Any) -> float:
    """Where the curve of mu-GDP reaches delta, by bisection at 60 digits."""
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, mu) > delta else (low, middle)
    return float(high)


def sampled_delta(log_ratio: float, mu: float, probability: float, *, user_is: str) -> float:
    """``E[(dP/dQ - e^t)+]`` of one Poisson-subsampled Gaussian, t of any sign.

    P is the mixture ``(1 - q) N(0, 1) + q N(mu, 1)`` and Q is N(0, 1) if the user is removed; the other way round
    if she is added.
    """
    ratio = math.exp(log_ratio)
    if user_is == "removed":
        inner = (ratio - (1 - probability)) / probability
        if inner <= 0:
            return 1.0 - ratio
        cut = math.log(inner) / mu + mu / 2
        present = (1 - probability) * ndtr(-cut) + probability * ndtr(mu - cut)
        return float(present - ratio * ndtr(-cut))
    inner = (1 / ratio - (1 - probability)) / probability
    if inner <= 0:
        return 0.0
    cut = math.log(inner) / mu + mu / 2
    return float(ndtr(cut) - ratio * ((1 - probability) * ndtr(cut) + probability * ndtr(cut - mu)))


def two_rounds_delta(
    epsilon: float, first: tuple[float, float], second: tuple[float, float], *, user_is: str
) -> float:
    """Two (mu, q) rounds with coins of their own, by integrating over what the first one published."""
    mu, probability = first

    def loss(x: float) -> float:
        mixed = math.log1p(probability * math.expm1(mu * x - mu * mu / 2))
        return mixed if user_is == "removed" else -mixed

    def density(x: float) -> float:
        normal = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return normal * math.exp(loss(x)) if user_is == "removed" else normal

    def integrand(x: float) -> float:
        return density(x) * sampled_delta(epsilon - loss(x), second[0], second[1], user_is=user_is)

    return float(quad(integrand, -12, 12 + mu, limit=400, epsabs=1e-13, epsrel=1e-10)[0])


def smallest_epsilon(delta_at: Any, delta: float) -> float:
    """Where a falling curve reaches delta."""
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high
