"""Precisions of the prior that are learnt along: one for each coordinate, with a Gamma prior, drawn by Gibbs steps.

    v_i ~ N(0, Lambda^-1),   Lambda = diag(lambda_1 .. lambda_d),   lambda_k ~ Gamma(shape, rate)

so that, given all rows v, ``lambda_k ~ Gamma(shape + n / 2, rate + sum_i v_ik^2 / 2)``. A draw looks at rows and at
nothing else: no rating, no count. Where the rows are released, on a board, it is post-processing and costs no
privacy; in a chain it changes the prior part of the target alone, and the bound on a user's part of the likelihood,
which the guarantee of an exact sample rests on, holds whatever the precisions are.

Reference: Liu, Wang and Smola (2015), sec. 2.1, 5.4 and 6.3 (shape 1, rate 100); Salakhutdinov and Mnih (2008).
"""

import math
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.errors import InputError
from research.block_solvers.rating_sweep import FactorRows


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaPrior:
    """Of each precision. Public."""

    shape: float = 1.0
    """alpha > 0."""
    rate: float = 100.0
    """beta > 0: one over the scale."""

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            InputError: one is not finite and > 0.
        """
        for name in ("shape", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} of a Gamma prior must be finite and > 0, got {getattr(self, name)}")


def draw_precisions(rows: FactorRows, prior: GammaPrior, rng: np.random.Generator) -> FloatArray:
    """One Gibbs step: a precision for each factor, then for the bias; float64, shape (rank + 1,).

    Pure but for ``rng``: it reads the rows and the prior alone.

    Args:
        rows: of one side, settled.
        prior: public.
        rng: of this chain's Gibbs steps alone.
    """
    squares = np.append(
        np.einsum("nk,nk->k", rows.factors, rows.factors, dtype=np.float64),
        np.einsum("n,n->", rows.biases, rows.biases, dtype=np.float64),
    )
    n_rows = rows.clocks.size
    drawn: FloatArray = rng.gamma(prior.shape + n_rows / 2, 1.0 / (prior.rate + squares / 2))
    return drawn


def pull_apart(rows: FactorRows, precisions: FloatArray, steps: FloatArray) -> None:
    """Half a pass of what the precisions pull beyond the least of them; in place.

    The sweep pulls all coordinates of a row alike, by the least precision. The rest acts by itself, half before and
    half after the sweep: ``exp(-(eta / 2) (lambda_k - least) / 2)``, with an error of second order in the step.

    Args:
        rows: of one side.
        precisions: float64, shape (rank + 1,).
        steps: eta of each row for a whole pass, float64, shape (n,).
    """
    beyond = (precisions - precisions.min()) / 4
    rows.factors[:] *= _decay(steps, beyond[:-1])
    rows.biases[:] *= _decay(steps, beyond[-1:])[:, 0]


def _decay(steps: FloatArray, beyond: FloatArray) -> Float32Array:
    found: Float32Array = np.exp(-np.outer(steps, beyond)).astype(np.float32)
    return found
