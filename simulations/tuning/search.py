"""The search: half of the trials spread over the space, half near the best so far, more noise seeds for the best.

Noise moves a metric as much as a setting does, so whoever wins with one seed has often been lucky. After each seed
about a quarter of the trials go on to the next one; the shipped settings always do, so that they are compared
fairly. Which trials are run depends on earlier results alone, not on how many run at a time.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from fedboard.common.checks import require_one_of
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.drawing.wording import lower_is_better
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.tuning.space import Choice, Space, Value, moved
from fedboard.simulations.tuning.trials import TrialRecord, read_trial, run_trial

_BATCH = 6
"""Trials near the best so far that are drawn at a time."""
_PARENTS = 3
_KEPT = 4
"""One trial in so many goes on to the next seed."""
_FEWEST_KEPT = 3

OnTrial = Callable[[TrialRecord], None]


@dataclass(slots=True, kw_only=True)
class Trial:
    """One choice of settings and what it gave so far."""

    number: int
    choice: Choice
    records: list[TrialRecord] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        """Of the metric, one a seed; empty where it failed."""
        return [record.metrics[metric] for record in self.records if metric in record.metrics]

    def mean(self, metric: str) -> float:
        """Over the seeds; NaN where it failed with any."""
        values = self.values(metric)
        return statistics.fmean(values) if values and len(values) == len(self.records) else math.nan

    def deviation(self, metric: str) -> float | None:
        """Over the seeds."""
        values = self.values(metric)
        return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched for; all of it public."""

    config: SimulationConfig
    """With a validation part."""
    space: Space
    metric: str
    n_trials: int
    """The shipped settings included."""
    seeds: tuple[int, ...]
    """Of the noise, the first for all trials."""
    search_seed: int = 0
    """Which settings are tried."""

    def better(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that did not fail, best first; of equals, the earlier one."""
        sign = 1.0 if lower_is_better(self.metric) else -1.0
        sound = [trial for trial in trials if not math.isnan(trial.mean(self.metric))]
        return sorted(sound, key=lambda trial: (sign * trial.mean(self.metric), trial.number))


def run_search(search: Search, folder: Path, *, jobs: int, on_trial: OnTrial | None = None) -> list[Trial]:
    """Run all trials that ``folder`` does not hold yet.

    Args:
        search: what to do.
        folder: a record per trial and seed; it exists.
        jobs: trials at a time.
        on_trial: told about each record, the kept ones included.

    Returns:
        All trials by number; those that have all seeds are the finalists.

    Raises:
        InputError: the shipped settings cannot be run, or lack the metric.
    """
    trials: list[Trial] = []
    with WorkerPool(jobs) as pool:
        runner = _Runner(search, folder, pool, on_trial)
        while len(trials) < search.n_trials:
            batch = _next_batch(search, trials)
            runner.run(batch, search.seeds[0])
            trials += batch
            _require_sound(search, trials[0])
        left = trials
        for seed in search.seeds[1:]:
            left = _survivors(search, left)
            runner.run(left, seed)
    return trials


def finalists(search: Search, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that were run with every seed, best first."""
    return search.better([trial for trial in trials if len(trial.records) == len(search.seeds)])


@dataclass(frozen=True, slots=True)
class _Runner:
    search: Search
    folder: Path
    pool: WorkerPool
    on_trial: OnTrial | None

    def run(self, trials: Sequence[Trial], seed: int) -> None:
        """Give each trial its record for this seed."""
        config = msgspec.structs.replace(self.search.config, seed=seed)
        kept = {trial.number: read_trial(self._path(trial, seed), trial.choice) for trial in trials}
        missing = [trial for trial in trials if kept[trial.number] is None]
        work = [
            partial(run_trial, config, trial.number, trial.choice, self._path(trial, seed))
            for trial in missing
        ]
        for record in kept.values():
            self._tell(record)
        told: set[int] = set()
        records = self.pool.run(work, lambda _: self._news(missing, seed, told))
        kept |= {trial.number: record for trial, record in zip(missing, records, strict=True)}
        for trial in trials:
            record = kept[trial.number]
            if record is not None:
                trial.records.append(record)

    def _news(self, trials: Sequence[Trial], seed: int, told: set[int]) -> None:
        """Tell of what was finished since the last time."""
        for trial in trials:
            record = None if trial.number in told else read_trial(self._path(trial, seed), trial.choice)
            if record is not None:
                told.add(trial.number)
                self._tell(record)

    def _tell(self, record: TrialRecord | None) -> None:
        if record is not None and self.on_trial is not None:
            self.on_trial(record)

    def _path(self, trial: Trial, seed: int) -> Path:
        return self.folder / f"{trial.number:04d}-seed{seed}.json"


def _next_batch(search: Search, trials: Sequence[Trial]) -> list[Trial]:
    """The shipped settings and trials all over the space first, then trials near the best so far."""
    start = len(trials)
    rng = np.random.default_rng([search.search_seed, start])
    spread = math.ceil(search.n_trials / 2)
    if start == 0:
        choices = [{}, *_spread_out(search.space, spread - 1, rng)]
    else:
        parents = search.better(trials)[:_PARENTS]
        number = min(_BATCH, search.n_trials - start)
        choices = [_near(search, parents[child % len(parents)], rng) for child in range(number)]
    return [Trial(number=start + place, choice=choice) for place, choice in enumerate(choices)]


def _spread_out(space: Space, number: int, rng: np.random.Generator) -> list[Choice]:
    """A Latin hypercube: in each dimension every trial has a slice of its own."""
    places = {key: (rng.permutation(number) + rng.random(number)) / max(number, 1) for key in space}
    return [
        {key: parameter.value_at(float(places[key][row])) for key, parameter in space.items()}
        for row in range(number)
    ]


def _near(search: Search, parent: Trial, rng: np.random.Generator) -> Choice:
    """About half of the settings moved a little."""
    values = {key: value_of(parent, key) for key in search.space}
    return {**parent.choice, **moved(search.space, values, rng)}


def value_of(trial: Trial, key: str) -> Value | None:
    """What a trial ran with, chosen or shipped; None for what is neither a number, a text nor a boolean."""
    record = trial.records[0]
    section, _, name = key.rpartition(".")
    found = (record.settings if section == "settings" else record.shares).get(name)
    return found if isinstance(found, bool | int | float | str) else None


def _survivors(search: Search, trials: Sequence[Trial]) -> list[Trial]:
    """The shipped settings, and the best quarter of the others."""
    shipped, others = trials[0], trials[1:]
    return [shipped, *search.better(others)[: max(_FEWEST_KEPT, math.ceil(len(others) / _KEPT))]]


def _require_sound(search: Search, shipped: Trial) -> None:
    record = shipped.records[0]
    if record.error is not None:
        raise InputError(f"the shipped settings cannot be run on this data: {record.error}")
    if search.metric not in record.metrics:
        require_one_of("metric", search.metric, sorted(record.metrics))
