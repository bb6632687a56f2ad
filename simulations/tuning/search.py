"""The search: trials that optuna's sampler proposes from earlier results, more noise seeds for the best.

The sampler (TPE, a tree of Parzen estimators) learns from the scores of trials, so it is for public data alone. A
private choice never comes here: its candidates are fixed before any trial (``private_plan``), since each
look at a score there is a release that has to be booked.

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
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedboard.common.checks import require_one_of
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.reports.wording import lower_is_better
from fedboard.simulations.tuning.trials import (
    Choice,
    Parameter,
    Space,
    TrialRecord,
    Value,
    parse_space,
    read_trial,
    rounded,
    run_trial,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_BATCH = 6
"""Trials that are proposed at a time; the same however many run at a time."""
_AT_RANDOM = 12
"""Trials, the shipped settings included, after which the sampler learns; never more than half of them."""
_KEPT = 4
"""One trial in so many goes on to the next seed."""
_FEWEST_KEPT = 3

OnTrial = Callable[[TrialRecord, bool], None]
"""Told each record, and whether it was there before."""


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


class TuneRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is searched for, as it is written down to be resumed; all of it public."""

    config: SimulationConfig
    """With a validation part; its seed decides which settings are tried."""
    space: dict[str, dict[str, dict[str, list[float | int | bool | str]]]]
    """As in a search file, without what the configuration sets."""
    public: str
    """Why the data may be searched on."""
    metric: str
    trials: int
    """The shipped settings included."""
    seeds: tuple[int, ...]
    """Of the noise, the first for all trials."""
    software: str
    source: str
    """Digest of the code: numbers of different code are not compared."""

    @property
    def dimensions(self) -> Space:
        """What varies."""
        return parse_space(self.space, source="tune.json")

    def better(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that did not fail, best first; of equals, the earlier one."""
        sign = 1.0 if lower_is_better(self.metric) else -1.0
        sound = [trial for trial in trials if not math.isnan(trial.mean(self.metric))]
        return sorted(sound, key=lambda trial: (sign * trial.mean(self.metric), trial.number))


def run_search(
    search: TuneRecord, folder: Path, *, jobs: int, on_trial: OnTrial | None = None
) -> list[Trial]:
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
        while len(trials) < search.trials:
            batch = _next_batch(search, trials)
            _run(search, batch, search.seeds[0], folder, pool, on_trial)
            trials += batch
            _require_sound(search, trials[0])
        left = trials
        for seed in search.seeds[1:]:
            left = _survivors(search, left)
            _run(search, left, seed, folder, pool, on_trial)
    return trials


def runs_of(search: TuneRecord) -> int:
    """How many runs a search has in all, if no trial fails."""
    number = together = search.trials
    for _ in search.seeds[1:]:
        number = 1 + _kept(number - 1)
        together += number
    return together


def finalists(search: TuneRecord, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that were run with every seed, best first."""
    return search.better([trial for trial in trials if len(trial.records) == len(search.seeds)])


def _run(
    search: TuneRecord,
    trials: Sequence[Trial],
    seed: int,
    folder: Path,
    pool: WorkerPool,
    on_trial: OnTrial | None,
) -> None:
    """Give each trial its record for this seed, from ``folder`` where it is there."""
    tell = on_trial or (lambda record, kept: None)
    config = msgspec.structs.replace(search.config, seed=seed)
    paths = [folder / f"{trial.number:04d}-seed{seed}.json" for trial in trials]
    records = [read_trial(path, trial.choice) for path, trial in zip(paths, trials, strict=True)]
    missing = [place for place, record in enumerate(records) if record is None]
    for record in records:
        if record is not None:
            tell(record, True)
    work = [
        partial(run_trial, config, trials[place].number, trials[place].choice, paths[place])
        for place in missing
    ]
    for number, record in pool.answers(work):
        records[missing[number]] = record
        tell(record, False)
    for trial, record in zip(trials, records, strict=True):
        assert record is not None  # kept or run
        trial.records.append(record)


def _next_batch(search: TuneRecord, trials: Sequence[Trial]) -> list[Trial]:
    """The shipped settings and a few trials all over the space first, then what the sampler proposes."""
    start, spread = len(trials), min(_AT_RANDOM, math.ceil(search.trials / 2))
    study = _study(search, trials, spread)
    space = {key: _distribution(parameter) for key, parameter in search.dimensions.items()}
    number = spread - 1 if start == 0 else min(_BATCH, search.trials - start)
    proposed = [study.ask(space).params for _ in range(number)]
    choices: list[Choice] = [{}] if start == 0 else []
    choices += [
        {
            key: found[key] if parameter.kind == "choice" else rounded(found[key])
            for key, parameter in search.dimensions.items()
        }
        for found in proposed
    ]
    return [Trial(number=start + place, choice=choice) for place, choice in enumerate(choices)]


def _study(search: TuneRecord, trials: Sequence[Trial], spread: int) -> "Study":
    """What the sampler knows; made anew for each batch, so that a search goes on as if it had never stopped."""
    import optuna  # an extra: only a search needs it

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = int(np.random.default_rng([search.config.seed, len(trials)]).integers(2**32))
    sampler = optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=spread, multivariate=True, constant_liar=True
    )
    lower = lower_is_better(search.metric)
    study = optuna.create_study(sampler=sampler, direction="minimize" if lower else "maximize")
    study.add_trials([known for trial in trials if (known := _known(search, trial)) is not None])
    return study


def _known(search: TuneRecord, trial: Trial) -> "FrozenTrial | None":
    """A trial as optuna has it, a failed one counted as bad; None if shipped settings are no place in the space."""
    from optuna.trial import TrialState, create_trial

    params = {}
    for key, parameter in search.dimensions.items():
        value = trial.choice.get(key, value_of(trial, key))
        place = None if value is None else parameter.inside(value)
        if place is None:
            return None
        params[key] = place
    mean = trial.mean(search.metric)
    failed = math.isnan(mean)
    return create_trial(
        params=params,
        distributions={key: _distribution(parameter) for key, parameter in search.dimensions.items()},
        value=None if failed else mean,
        state=TrialState.PRUNED if failed else TrialState.COMPLETE,
    )


def _distribution(parameter: Parameter) -> "BaseDistribution":
    """A dimension as optuna has it."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.kind == "choice":
        return CategoricalDistribution(parameter.values)
    low, high = (float(value) for value in parameter.values)
    if parameter.kind == "int":
        return IntDistribution(int(low), int(high))
    return FloatDistribution(low, high, log=parameter.kind == "log")


def value_of(trial: Trial, key: str) -> Value | None:
    """What a trial ran with, chosen or shipped; None for what is neither a number, a text nor a boolean."""
    record = trial.records[0]
    section, _, name = key.rpartition(".")
    found = (record.settings if section == "settings" else record.shares).get(name)
    return found if isinstance(found, bool | int | float | str) else None


def _survivors(search: TuneRecord, trials: Sequence[Trial]) -> list[Trial]:
    """The shipped settings, and the best quarter of the others."""
    shipped, others = trials[0], trials[1:]
    return [shipped, *search.better(others)[: _kept(len(others))]]


def _kept(others: int) -> int:
    return min(others, max(_FEWEST_KEPT, math.ceil(others / _KEPT)))


def _require_sound(search: TuneRecord, shipped: Trial) -> None:
    record = shipped.records[0]
    if record.error is not None:
        raise InputError(f"the shipped settings cannot be run on this data: {record.error}")
    if search.metric not in record.metrics:
        require_one_of("metric", search.metric, sorted(record.metrics))
