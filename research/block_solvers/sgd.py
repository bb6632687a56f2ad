"""C-SGD: matrix factorisation with biases by stochastic gradient descent, without privacy.

Minimises sum over ratings (y - mean - c_j - b_i - <u_j, v_i>)^2 + ridge (c_j^2 + b_i^2 + |u_j|^2 + |v_i|^2), a
row's ridge once for each of its ratings.

Reference: Liu, Wang and Smola (2015), eq. 3 and sec. 5.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError
from research.block_solvers.factorisation import Factorisation, Stream, start
from research.block_solvers.rating_sweep import SweepRates

_FIRST_NORM = 0.3
"""Typical norm of the first vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SgdConfig:
    """Options of one fit."""

    rank: int = 8
    passes: int = 30
    step: float = 0.05
    """eta of the first pass."""
    decay: float = 0.6
    """Pass t, from 1, takes the step eta / t^decay."""
    ridge: float = 0.03
    """Strength of the ridge for each rating."""
    biases: bool = True
    seed: int = 0
    threads: int = 1
    """With 1 the result is the same every time; with more, item rows are changed without locks."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        for name in ("rank", "passes", "threads"):
            require_whole(name, getattr(self, name))
        for name in ("step", "decay", "ridge"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be finite and >= 0, got {getattr(self, name)}")


def fit_sgd(
    stream: Stream,
    config: SgdConfig,
    *,
    on_progress: Callable[[int, Factorisation], None] | None = None,
) -> Factorisation:
    """Pass over the ratings again and again with falling steps.

    Args:
        stream: private.
        config: public.
        on_progress: called after each pass with its number, from 1, and the state so far.

    Returns:
        The last state. Not private: simulation only.
    """
    model = start(
        stream,
        rank=config.rank,
        deviation=_FIRST_NORM / np.sqrt(config.rank),
        mean=stream.head.mean,
        seed=config.seed,
        threads=config.threads,
    )
    order = np.random.default_rng([config.seed, 1])
    for number in range(1, config.passes + 1):
        model.sweep(sgd_rates(stream, config, number), order)
        if on_progress is not None:
            on_progress(number, model)
    return model


def sgd_rates(stream: Stream, config: SgdConfig, number: int) -> SweepRates:
    """Steps and pulls of pass ``number``, from 1."""
    head, step = stream.head, config.step / number**config.decay
    users, items = (np.zeros((n, 3), dtype=np.float32) for n in (head.n_users, head.n_items))
    for rates in (users, items):
        rates[:, :2] = step, step * config.ridge
    return SweepRates(
        weights=np.ones(head.n_users, dtype=np.float32),
        user_rates=users,
        item_rates=items,
        mean=head.mean,
        biased=config.biases,
        noisy=False,
    )
