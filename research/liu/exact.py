"""Algorithm 1 where an exact sample can be drawn: the exponential mechanism over a grid of item vectors.

Rank 1, few users and items. Given the item values v, users are independent, so that the density of v alone, summed
over each user's own value u on a fine grid, is a product with a factor for each user:

    Z_j(v) = sum over u with all u v_i in [low - kappa, high + kappa] of exp(-s L),
    L = w_j sum (y_ij - u v_i)^2 + lambda u^2,

s = epsilon / (4 B). "Sample again until all predictions are within" (lines 5 and 6) is that condition under the
sum. With every data set that a user may have at hand, the largest ``|log P(v) - log P'(v)|`` over all v is the
epsilon that the algorithm really has: no sampling, no bound. Neighbours as in the paper's definition 1 exchange one
user's ratings; as in its definition 2 they have them or not. There the user's own row stays, since otherwise the
condition alone, which narrows v for everybody who is there, would tell that she is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Line, line_panels

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 200.0)
_MOST_CELLS = 20_000_000

Row = tuple[float | None, ...]
"""A user's ratings, None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """The problem: sizes, grid and constants. Public."""

    n_users: int = 2
    n_items: int = 2
    points: int = 41
    """Of the grid, for each value; the users' is four times as fine."""
    largest: float = 3.0
    """End of the grid."""
    stars: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    kappa: float = 1.0
    ridge: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what cannot be enumerated.

        Raises:
            InputError: there are too many cells.
        """
        cells = len(self.rows()) * 4 * self.points ** (1 + self.n_items)
        if cells > _MOST_CELLS:
            raise InputError(
                f"{cells:,} cells of data, user and item values are more than {_MOST_CELLS:,}; the exact sample is "
                "for a few items on a coarse grid"
            )

    @property
    def bound(self) -> float:
        """B: tau (largest rating - least + kappa)^2, tau the number of items, all weights 1."""
        return self.n_items * (self.stars[-1] - self.stars[0] + self.kappa) ** 2

    def rows(self) -> list[Row]:
        """Everything that a user may have rated."""
        return list(product((None, *self.stars), repeat=self.n_items))

    def items(self) -> FloatArray:
        """All item vectors of the grid, shape (points ^ n_items, n_items)."""
        axis = np.linspace(-self.largest, self.largest, self.points)
        return np.stack(np.meshgrid(*[axis] * self.n_items, indexing="ij"), axis=-1).reshape(-1, self.n_items)

    def log_factors(self, epsilon: float) -> FloatArray:
        """Log Z(v) of a user with each of ``rows()``, shape (rows, vectors); -inf where no u is allowed."""
        scale, vectors = epsilon / (4.0 * self.bound), self.items()
        own = np.linspace(-self.largest, self.largest, 4 * self.points)
        predicted = own[None, :, None] * vectors[:, None, :]
        low, high = self.stars[0] - self.kappa, self.stars[-1] + self.kappa
        allowed = ((predicted >= low) & (predicted <= high)).all(axis=2)
        prior = np.where(allowed, -scale * self.ridge * own**2, -np.inf)
        found = np.empty((len(self.rows()), len(vectors)))
        for place, row in enumerate(self.rows()):
            losses = sum(
                ((predicted[:, :, i] - y) ** 2 for i, y in enumerate(row) if y is not None), np.zeros(())
            )
            found[place] = np.logaddexp.reduce(prior - scale * losses, axis=1)
        return found

    def log_density(self, factors: FloatArray, data: Sequence[int], epsilon: float) -> FloatArray:
        """Log P(v) of data given as one row number a user, shape (vectors,); sums to 1 where exponentiated."""
        scale = epsilon / (4.0 * self.bound)
        log = factors[list(data)].sum(axis=0) - scale * self.ridge * np.sum(self.items() ** 2, axis=1)
        found: FloatArray = log - np.logaddexp.reduce(log)
        return found


def measured(problem: Tiny, epsilon: float) -> dict[str, float]:
    """Largest log ratio over all data of the others, and all pairs of one user's."""
    factors, rows = problem.log_factors(epsilon), problem.rows()
    nobody = rows.index((None,) * problem.n_items)
    replaced = kept = left = 0.0
    for others in product(range(len(rows)), repeat=problem.n_users - 1):
        logs = np.stack([problem.log_density(factors, (own, *others), epsilon) for own in range(len(rows))])
        possible = logs[:, np.isfinite(logs[nobody])]
        replaced = max(replaced, float((possible.max(axis=0) - possible.min(axis=0)).max()))
        kept = max(kept, float(np.abs(possible - possible[nobody]).max()))
        without = problem.log_density(factors, others, epsilon)[np.isfinite(logs[nobody])]
        left = max(left, float(np.abs(possible - without).max()))
    return {"ratings exchanged": replaced, "ratings added or removed": kept, "her row removed": left}


PROBLEM = Tiny()


def algorithm_1(setting: Setting, *, problem: Tiny | None = None) -> Outcome:
    """The epsilon that the exact sampler has, against the one that it is given."""
    tiny = problem or PROBLEM
    found: dict[str, dict[str, float]] = {}
    epsilons = setting.epsilons_or(*EPSILONS)
    for done, epsilon in enumerate(epsilons):
        setting.on_progress("epsilons", done, len(epsilons))
        found[f"{epsilon:g}"] = measured(tiny, epsilon)
    shares = {e: {name: value / float(e) for name, value in of.items()} for e, of in found.items()}
    lines: dict[str, Line] = {
        name: (epsilons, [of[name] for of in found.values()]) for name in next(iter(found.values()))
    }
    return Outcome(
        numbers={"measured_epsilon": found, "over_epsilon": shares},
        settings={
            "users": tiny.n_users,
            "items": tiny.n_items,
            "rank": 1,
            "item_vectors": tiny.points**tiny.n_items,
            "data_sets_of_a_user": len(tiny.rows()),
            "kappa": tiny.kappa,
            "ridge": tiny.ridge,
            "B": tiny.bound,
        },
        comparison=_told(tiny, found, shares),
        figures={
            "algorithm-1": line_panels(
                {"": lines | {"as theorem 1 has it": (epsilons, list(epsilons))}},
                across="epsilon given to the sampler",
                up="largest log ratio",
                log="xy",
            )
        },
    )


def _told(
    tiny: Tiny, found: Mapping[str, Mapping[str, float]], shares: Mapping[str, Mapping[str, float]]
) -> str:
    worst = {name: max(of[name] for of in shares.values()) for name in next(iter(shares.values()))}
    first, epsilon = next(iter(found.values())), next(iter(found))
    return (
        "The paper: theorem 1, epsilon for an exact sample, which it never draws. Here it is drawn where every "
        f"case can be counted ({tiny.n_users} users, {tiny.n_items} items, rank 1, {tiny.points**tiny.n_items:,} "
        f"item vectors, {len(tiny.rows())} data sets of a user): the largest log ratio is at most "
        f"{worst['ratings exchanged']:.2f} epsilon where a user's ratings are exchanged and "
        f"{worst['ratings added or removed']:.2f} epsilon where she has them or not: theorem 1 holds, and is not "
        "tight. But 'sample again until all predictions are within' binds the row of everybody who is there: where "
        "her row goes with her, as in definition 2, the log ratio does not go to 0 with epsilon; it is "
        f"{first['her row removed']:.3g} at epsilon {epsilon}, where theorem 2 promises half of that epsilon. The "
        "solver here clips predictions instead, which binds nobody else."
    )
