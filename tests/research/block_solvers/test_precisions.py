"""Precisions with a Gamma prior: drawn from the right conditional, from rows alone; the chain keeps its prior."""

import inspect
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedboard.common.cohort import cohort_from_triples
from fedboard.common.errors import InputError
from research.block_solvers import sampling
from research.block_solvers.factorisation import Factorisation, Stream, arrange
from research.block_solvers.rating_sweep import FactorRows
from research.block_solvers.sampling import DpmfConfig, GammaPrior, draw_precisions, sample_dpmf

N, RANK = 60, 3


def some_rows(seed: int) -> FactorRows:
    rows = FactorRows.zeros(N, RANK)
    rng = np.random.default_rng(seed)
    rows.factors[:] = rng.standard_normal((N, RANK)) * np.array([0.1, 1.0, 3.0])
    rows.biases[:] = 0.5
    return rows


def everybody(values: float, seed: int = 0) -> Stream:
    """Everybody rates everything; the ratings are the only difference between two of these."""
    users, items = np.divmod(np.arange(N * N, dtype=np.int32), np.int32(N))
    jitter = np.random.default_rng(seed).choice([-1.0, 1.0], users.size)
    return arrange(
        cohort_from_triples(users, items, (values + jitter).astype(np.float32), n_users=N, n_items=N)
    )


def settings(**changed: object) -> DpmfConfig:
    usual = {"epsilon": 1e-9, "rating_range": (1.0, 5.0), "most_ratings": N, "rank": RANK, "passes": 3}
    return DpmfConfig(**(usual | {"gamma_prior": GammaPrior()} | changed))  # type: ignore[arg-type]


def test_the_draw_is_from_the_conditional_of_a_normal_with_a_gamma_prior() -> None:
    rows, rng = some_rows(0), np.random.default_rng(1)
    drawn = np.array([draw_precisions(rows, GammaPrior(shape=2.0, rate=5.0), rng) for _ in range(4000)])

    # By Bayes' rule on a grid, from the two densities themselves.
    for column, values in enumerate([*rows.factors.T.astype(float), rows.biases.astype(float)]):
        grid = np.linspace(1e-3, drawn[:, column].max() * 1.5, 20_000)
        likelihood = stats.norm.logpdf(values[:, None], scale=grid[None, :] ** -0.5).sum(axis=0)
        density = np.exp(likelihood + stats.gamma.logpdf(grid, 2.0, scale=1 / 5.0) - likelihood.max())
        posterior = np.cumsum(density) / density.sum()
        found = stats.kstest(drawn[:, column], lambda x, g=grid, c=posterior: np.interp(x, g, c))
        assert found.pvalue > 1e-9
        wrong = stats.kstest(1.1 * drawn[:, column], lambda x, g=grid, c=posterior: np.interp(x, g, c))
        assert wrong.pvalue < 1e-9


def test_a_gibbs_step_is_given_rows_and_reads_no_rating(monkeypatch: pytest.MonkeyPatch) -> None:
    # What it takes: rows, the prior, and coins.
    assert list(inspect.signature(draw_precisions).parameters) == ["rows", "prior", "rng"]
    reading = {"open": True}
    real_step, real_draw = Factorisation._step, sampling.draw_precisions

    def step(*given: Any) -> None:
        assert reading["open"], "a Gibbs step read ratings"
        real_step(*given)

    def draw(rows: FactorRows, prior: GammaPrior, rng: np.random.Generator) -> object:
        reading["open"] = False
        before = rows.rows.copy()
        found = real_draw(rows, prior, rng)
        np.testing.assert_array_equal(rows.rows, before)
        # Somebody else with the same rows and coins gets the same, whatever the ratings were.
        reading["open"] = True
        return found

    monkeypatch.setattr(Factorisation, "_step", step)
    monkeypatch.setattr(sampling, "draw_precisions", draw)
    assert sample_dpmf(everybody(3.0), settings()).precisions is not None


def test_who_has_no_weight_leaves_the_precisions_as_they_are() -> None:
    """With all budget shares 0 the ratings pull at nothing: rows and precisions are the same to the last bit."""
    one, other = (
        sample_dpmf(everybody(v, seed=int(v)), settings(epsilon=1e4), budget_shares=np.zeros(N))
        for v in (2.0, 4.0)
    )

    np.testing.assert_array_equal(one.items.rows, other.items.rows)
    assert one.precisions is not None
    assert other.precisions is not None
    for a, b in zip(one.precisions, other.precisions, strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_evidence_rows_keep_the_spread_that_their_precisions_say() -> None:
    # Drawn precisions would follow a wrong pull and hide it; here they are given, and far apart.
    wanted = (np.array([4.0, 8.0, 16.0, 6.0]), np.array([5.0, 10.0, 4.0, 9.0]))

    def fixed(rows: FactorRows, prior: GammaPrior, rng: np.random.Generator) -> object:
        rng.random()
        fixed.side = 1 - fixed.side  # type: ignore[attr-defined]
        return wanted[fixed.side]  # type: ignore[attr-defined]

    fixed.side = 1  # type: ignore[attr-defined]
    squares = np.zeros((2, RANK))

    def add(number: int, model: Factorisation) -> None:
        if number > 40:
            for side, rows in enumerate((model.users, model.items)):
                squares[side] += np.mean(rows.factors.astype(float) ** 2, axis=0) / 160

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "draw_precisions", fixed)
        config = settings(passes=200, step=0.5, decay=0.0)
        sample_dpmf(everybody(3.0), config, on_progress=add)
    for side in (0, 1):
        assert squares[side] * wanted[side][:RANK] == pytest.approx(np.ones(RANK), abs=0.2)


@pytest.mark.parametrize("wrong", [{"shape": 0.0}, {"rate": -1.0}, {"rate": np.inf}])
def test_a_prior_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(wrong))} of a Gamma prior"):
        GammaPrior(**wrong)
