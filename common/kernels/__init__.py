"""The arithmetic that takes the time: ridge solves, exact item sums, PSD solves, Gaussian draws, top-k.

Every function takes ``backend``: "numpy" (the reference, needs no compiler) or "compiled"
(register-blocked loops over explicit vectors). For one backend the result does not depend on the
number of threads nor on how the rows are split over calls, bit for bit.
"""

from fedboard.common.kernels.backends import BACKENDS, choose_backend
from fedboard.common.kernels.draws import noisy_sums, standard_normal
from fedboard.common.kernels.solves import (
    left_out_errors,
    residuals_of_rows,
    solve_own_models,
    solve_psd,
    solve_ridge,
)
from fedboard.common.kernels.sums import (
    item_statistics,
    pair_sums,
)
from fedboard.common.kernels.top_k import top_k

__all__ = [
    "BACKENDS",
    "choose_backend",
    "item_statistics",
    "left_out_errors",
    "noisy_sums",
    "pair_sums",
    "residuals_of_rows",
    "solve_own_models",
    "solve_psd",
    "solve_ridge",
    "standard_normal",
    "top_k",
]
