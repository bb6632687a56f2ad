"""The paper's recommendation benchmarks: which data stands for which, and the runs that several figures share.

Rating prediction (ML-10M): random 80/10/10 split of the ratings, RMSE. Lists (ML-20M, MSD): ratings above 3.5 count
as positive, whole users are held out, Recall@20.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard import Board
from fedboard.common.algorithms.registry import variant_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.tuned import TUNED, recipes_of
from fedboard.common.errors import InputError
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.evaluation.references import ALS
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.sections import RunConfig, SplitConfig
from fedboard.simulations.sweeps.cells import Cell, run_cells, shared_problem
from research.shared.experiment import Setting
from research.shared.panels import as_text
from research.shared.ratings import data_of

METRICS = {Feedback.EXPLICIT: "test_rmse", Feedback.IMPLICIT: "recall@20"}
_DELTA = 1e-5
_RECALL_OF_HEAD = "research.krichene.head:RECALL_OF_HEAD"
_HELD_OUT_OF_MANY = ((400_000, 50_000 / 571_355), (100_000, 10_000 / 136_677))
"""As in the published protocols: about 50 000 of MSD's users in each held-out part, 10 000 of ML-20M's; else a
tenth. The shares are those of the published sets, so that they do not move with the number of users at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """An algorithm as the paper names it."""

    label: str
    algorithm: str
    exponent: float | None = None
    """mu of its weights; None for that of the recipe."""
    recipe: str | None = None
    """Whose settings; None for the setting's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkAnswer:
    """What the runs of one method at one epsilon gave, over the seeds."""

    mean: float
    deviation: float
    sliced: tuple[float | None, ...]
    """By popularity bucket, tail to head; mean over seeds."""
    of_head: tuple[float | None, ...] = ()
    """Of lists: by bucket of the most popular tenth, which is what the published code slices; mean over seeds."""


ALS_LINE = Method(label="ALS (not private)", algorithm=ALS)
STATISTICS = (
    Method(label="AdaDPALS", algorithm="adadpals"),
    Method(label="DPALS (tail)", algorithm="dpals-tail"),
    Method(label="DPALS (uniform)", algorithm="dpals-uniform"),
)
GRADIENTS = (
    Method(label="AdaDPSGD", algorithm="adadpsgd"),
    Method(label="DPSGD (tail)", algorithm="dpsgd-tail"),
    Method(label="DPSGD (uniform)", algorithm="dpsgd-uniform"),
)


def with_exponent(method: Method, exponent: float) -> Method:
    """The same algorithm with another mu, named after it."""
    return Method(
        label=f"{method.label} (mu = {as_text(exponent)})", algorithm=method.algorithm, exponent=exponent
    )


class Benchmark:
    """One data set under one protocol, and the runs on it."""

    def __init__(self, setting: Setting, feedback: Feedback) -> None:
        self.setting, self.feedback = setting, feedback

    @cached_property
    def config(self) -> SimulationConfig:
        """What all runs share.

        Raises:
            InputError: the data cannot be read.
        """
        metrics = (_RECALL_OF_HEAD,) if self.feedback is Feedback.IMPLICIT else ()
        config = SimulationConfig(
            feedback=self.feedback,
            data=data_of(self.setting),
            privacy=PrivacyConfig(delta=_DELTA),
            run=RunConfig(workers=1, baselines=False, evaluate_rounds=False, metrics=metrics),
        )
        if self.feedback is Feedback.EXPLICIT:
            return config
        n_users = shared_problem(config).train.n_users
        held_out = next((share for least, share in _HELD_OUT_OF_MANY if n_users >= least), 0.1)
        return msgspec.structs.replace(
            config,
            split=SplitConfig(held_out_users=held_out),
            privacy=PrivacyConfig(delta=1.0 / n_users),
        )

    @property
    def metric(self) -> str:
        """Name of what is compared."""
        return METRICS[self.feedback]

    @property
    def problem(self) -> Problem:
        """The data; read once."""
        return shared_problem(self.config)

    @property
    def described(self) -> str:
        """Which data this is, in words."""
        problem = self.problem
        return (
            f"{problem.name} ({problem.train.n_users:,} users, {problem.train.n_items:,} items, "
            f"{problem.train.n_ratings:,} {'ratings' if self.feedback is Feedback.EXPLICIT else 'positives'} in "
            "training)"
        )

    @property
    def settings(self) -> dict[str, Any]:
        """For the record."""
        shared: dict[str, Any] = msgspec.to_builtins(self.config, str_keys=True)
        return {
            "seeds": self.setting.seeds,
            "configuration": shared,
            "overrides": f"presets per epsilon; recipe {self.setting.recipe}, where an algorithm has it",
        }

    def ask(
        self, methods: Sequence[Method], epsilons: Sequence[float]
    ) -> dict[str, dict[str, BenchmarkAnswer]]:
        """Run every method at every epsilon with every seed, unless it has run in this setting before.

        Returns:
            By label and epsilon.

        Raises:
            InputError: a run failed.
        """
        wanted = {
            (method.label, epsilon): [self._cell(method, epsilon, seed) for seed in range(self.setting.seeds)]
            for method in methods
            for epsilon in epsilons
        }
        finals = dict(self._run([cell for cells in wanted.values() for cell in cells]))
        found: dict[str, dict[str, BenchmarkAnswer]] = {}
        for (label, epsilon), cells in wanted.items():
            found.setdefault(label, {})[f"{epsilon:g}"] = self._answer([finals[cell.name] for cell in cells])
        return found

    def ask_als(self) -> BenchmarkAnswer:
        """The same of ALS without privacy, once."""
        cell = Cell(
            name=f"{self.feedback}-{ALS}", config=msgspec.structs.replace(self.config, algorithm=ALS, seed=0)
        )
        return self._answer([dict(self._run([cell]))[cell.name]])

    def board(self, method: Method, epsilon: float, seed: int) -> Board:
        """The last board of one run that ``ask`` made."""
        run = RunDirectory(self._folder / self._cell(method, epsilon, seed).name)
        return BoardStore(run.boards).latest()

    @property
    def _folder(self) -> Path:
        return self.setting.scratch / "cells"

    def _cell(self, method: Method, epsilon: float, seed: int) -> Cell:
        own = {} if method.exponent is None else {"weight_exponent": method.exponent}
        privacy = msgspec.structs.replace(self.config.privacy, epsilon=epsilon)
        config = msgspec.structs.replace(
            self.config,
            algorithm=method.algorithm,
            settings=own,
            recipe=self._recipe(method),
            privacy=privacy,
            seed=seed,
        )
        name = f"{self.feedback}-{method.algorithm}-{config.recipe}-eps{epsilon:g}-mu{method.exponent}-seed{seed}"
        return Cell(name=name, config=config)

    def _recipe(self, method: Method) -> str:
        """Whose settings: those asked for, of a method that has them."""
        asked = method.recipe or self.setting.recipe
        return asked if asked in recipes_of(variant_of(method.algorithm).algorithm) else TUNED

    def _run(self, cells: Sequence[Cell]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        phase, jobs = f"{self.feedback} runs", min(self.setting.workers, len(cells))
        self._folder.mkdir(exist_ok=True)
        self.setting.on_progress(phase, 0, len(cells))
        for done, outcome in enumerate(run_cells(cells, self._folder, jobs=jobs), start=1):
            if outcome.final is None:
                raise InputError(f"run {outcome.cell.name} failed: {outcome.error}")
            self.setting.on_progress(phase, done, len(cells))
            yield outcome.cell.name, outcome.final

    def _answer(self, finals: Sequence[Mapping[str, Any]]) -> BenchmarkAnswer:
        values = [float(final["metrics"][self.metric]) for final in finals]
        lists = self.feedback is Feedback.IMPLICIT
        name = "recall" if lists else self.metric
        sliced = _over_seeds([final["sliced"][name] for final in finals])
        return BenchmarkAnswer(
            mean=float(np.mean(values)),
            deviation=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
            sliced=sliced,
            of_head=_over_seeds([final["sliced"]["recall-of-head"] for final in finals]) if lists else (),
        )


def _over_seeds(sliced: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    buckets = zip(*sliced, strict=True)
    return tuple(None if None in bucket else float(np.mean(bucket)) for bucket in buckets)
