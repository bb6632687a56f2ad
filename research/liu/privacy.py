"""Figure 7: test RMSE against epsilon, in both readings, with what each says about one rating."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fedboard.common.algorithms.langevin.algorithm import Langevin
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.simulations.baselines.als import default_als, fit_als
from fedboard.simulations.sections import RunConfig
from fedboard.simulations.sweeps.cells import Cell, run_cells
from research.block_solvers.factorisation import arrange
from research.block_solvers.sampling import DpmfConfig, sample_dpmf, trimmed
from research.liu.ratings import Rated, rated
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Line, line_panels

_ASYMPTOTIC = (1.0, 10.0, 100.0, 250.0, 1e3, 250 / 0.07, 1e4, 1e5)
FINITE = (1.0, 5.0, 20.0)
"""Of the runs that are booked; those at which nothing finite is promised stay the paper's."""
CHAIN: Mapping[str, Any] = {
    "most_ratings": 100,
    "kappa": 1.0,
    "largest_weight": 1.0,
    "rank": 16,
    "passes": 60,
    "step": 10.0,
    "precision": 15.0,
}
"""The sampler's options in this and in section 6.7."""
PAPER_TEMPERATURE = 0.07
_DELTA = 1e-5


def figure_7(setting: Setting) -> Outcome:
    """Samples at several epsilons, how the paper would label the same chains, and booked runs of ``langevin``."""
    data = rated(setting)
    sampled, finite = _samples(data, setting), setting.epsilons_or(*FINITE)
    booked = _booked(data, setting, finite)
    als = fit_als(
        data.train, default_als(Feedback.EXPLICIT, rating_range=data.rating_range, backend="compiled")
    )
    reference = data.error(als.predict(data.train, data.test.users, data.test.items))
    errors = [each["rmse"] for each in sampled.values()]
    lines: dict[str, Line] = {
        "asymptotic": (_ASYMPTOTIC, errors),
        "asymptotic, as labelled with zeta = 0.07": ([e * PAPER_TEMPERATURE for e in _ASYMPTOTIC], errors),
        "finite-step, booked": (finite, [each["rmse"] for each in booked.values()]),
        "ALS without privacy": ([min(finite), max(*finite, *_ASYMPTOTIC)], [reference] * 2),
    }
    return Outcome(
        numbers={"asymptotic": sampled, "finite_step": booked, "als_rmse": reference},
        settings={**CHAIN, "delta": _DELTA, "seeds": setting.seeds, "data": data.described},
        comparison=_comparison(data, sampled, booked, reference),
        figures={"figure-7": line_panels({"": lines}, across="epsilon of a user", up="test RMSE", log="x")},
    )


def _comparison(data: Rated, sampled: dict[str, Any], booked: dict[str, Any], reference: float) -> str:
    honest, relabelled = sampled["250"], sampled[f"{250 / PAPER_TEMPERATURE:g}"]
    at = "5" if "5" in booked else next(iter(booked))
    return (
        "The paper, on Netflix with tau = 100: near the error without privacy from epsilon 250 on, read as 2.5 for "
        "a rating. Its chains are colder than their epsilon says (zeta 0.07 and less) and sample what epsilon / "
        f"zeta names. Here, on {data.described}: {honest['rmse']:.3f} at epsilon 250; {relabelled['rmse']:.3f} at "
        f"{250 / PAPER_TEMPERATURE:.0f}, which zeta = 0.07 would label 250; without privacy {reference:.3f}. "
        "These are readings of an exact sample; what was computed has no finite epsilon. Booked finite-step runs "
        f"reach {booked[at]['rmse']:.3f} at epsilon {at}, where one changed rating costs "
        f"{booked[at]['rating_epsilon']:.1f}, not epsilon / tau."
    )


def _samples(data: Rated, setting: Setting) -> dict[str, dict[str, Any]]:
    stream = arrange(trimmed(data.train, most=CHAIN["most_ratings"], seed=0))
    found: dict[str, dict[str, Any]] = {}
    for done, epsilon in enumerate(_ASYMPTOTIC):
        setting.on_progress("samples", done, len(_ASYMPTOTIC))
        errors = []
        for seed in range(setting.seeds):
            config = DpmfConfig(
                epsilon=epsilon,
                rating_range=data.rating_range,
                seed=seed,
                threads=setting.workers,
                **CHAIN,
            )
            errors.append(data.local_error(sample_dpmf(stream, config)))
        record = dict(config.guarantee.record())
        record.pop("statement")
        found[f"{epsilon:g}"] = {
            "rmse": float(np.mean(errors)),
            "deviation": float(np.std(errors)),
            **record,
        }
    return found


def _booked(data: Rated, setting: Setting, epsilons: Sequence[float]) -> dict[str, dict[str, Any]]:
    folder = setting.scratch / "cells"
    folder.mkdir()
    cells = list(_cells(data, setting.seeds, epsilons))
    errors: dict[str, list[float]] = {}
    for done, outcome in enumerate(run_cells(cells, folder, jobs=min(setting.workers, len(cells)))):
        if outcome.final is None:
            raise InputError(f"run {outcome.cell.name} failed: {outcome.error}")
        setting.on_progress("booked runs", done + 1, len(cells))
        epsilon = f"{outcome.cell.config.privacy.epsilon:g}"
        errors.setdefault(epsilon, []).append(float(outcome.final["metrics"]["test_rmse"]))
    return {
        epsilon: {
            "rmse": float(np.mean(errors[epsilon])),
            "deviation": float(np.std(errors[epsilon])),
            "kind": "finite-step",
            "user_epsilon": float(epsilon),
            "rating_epsilon": epsilon_of(_DELTA, mu=2 * mu_for(float(epsilon), _DELTA)),
        }
        for epsilon in (f"{each:g}" for each in epsilons)
    }


def _cells(data: Rated, seeds: int, epsilons: Sequence[float]) -> Iterator[Cell]:
    for epsilon in epsilons:
        for seed in range(seeds):
            privacy = msgspec.structs.replace(data.config.privacy, epsilon=epsilon, delta=_DELTA)
            config = msgspec.structs.replace(
                data.config,
                algorithm=Langevin.NAME,
                privacy=privacy,
                seed=seed,
                run=RunConfig(workers=1, baselines=False, evaluate_rounds=False),
            )
            yield Cell(name=f"langevin-eps{epsilon:g}-seed{seed}", config=config)
