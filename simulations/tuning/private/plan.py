"""What a private choice fixes before anything is released: the candidates, and what each part may cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.protocols.registry import USUAL
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.server.calibrating import shares_of
from fedboard.simulations.config import SimulationConfig, overlay, parse_config, read_config
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm
from fedboard.simulations.runs.calibrated import build_task, training_of
from fedboard.simulations.runs.keys import nested
from fedboard.simulations.tuning.software import software, source_digest
from fedboard.simulations.tuning.space import (
    SECTIONS,
    Choice,
    Space,
    Value,
    default_space,
    moved,
    read_space,
    without,
)
from fedboard.simulations.tuning.trials import for_trials

MOST_CANDIDATES = 16
"""Each costs a share of the budget, so many are worse than few."""
_TABLE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How mu^2 of the whole promise is divided; what is left trains the final board. Public."""

    trials: float = 0.25
    """Of all trials together; each has the same."""
    choice: float = 0.03
    """Of the release that compares them."""

    def __post_init__(self) -> None:
        """Check the shares.

        Raises:
            InputError: one is not above 0, or nothing is left.
        """
        if not (self.trials > 0 and self.choice > 0 and self.trials + self.choice < 1):
            raise InputError(
                "the shares of trials and choice must be above 0 and leave something for the final run (below 1 "
                f"together), got {self.trials:g} and {self.choice:g}"
            )

    @property
    def final(self) -> float:
        """Of the final run."""
        return 1.0 - self.trials - self.choice


class PrivateTuneRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is fixed, and written down, before the first release. All of it is public."""

    config: SimulationConfig
    """Of the whole: its epsilon and delta are promised for everything together."""
    candidates: tuple[dict[str, float | int | bool | str], ...]
    """What each lays over the configuration; the first nothing: the shipped settings."""
    trials_share: float
    choice_share: float
    search_seed: int
    software: str
    source: str
    """Digest of the code: releases of other code are not continued."""

    @property
    def division(self) -> Division:
        """Of the budget."""
        return Division(trials=self.trials_share, choice=self.choice_share)

    @property
    def trial_epsilon(self) -> float:
        """What one trial costs by itself."""
        return self._epsilon(self.division.trials / len(self.candidates))

    @property
    def choice_epsilon(self) -> float:
        """What the comparison costs by itself."""
        return self._epsilon(self.division.choice)

    @property
    def final_epsilon(self) -> float:
        """What the final run costs by itself."""
        return self._epsilon(self.division.final)

    @property
    def choice_noise(self) -> float:
        """Noise deviation over sensitivity of the comparison."""
        return 1.0 / (math.sqrt(self.division.choice) * self._mu)

    def trial(self, number: int) -> SimulationConfig:
        """What trial ``number`` runs; it judges nothing on held-out ratings."""
        quiet = {"run": {"baselines": False, "evaluate_rounds": False}}
        return _with(for_trials(self.config), self.candidates[number], self.trial_epsilon, quiet)

    def final(self, number: int) -> SimulationConfig:
        """The final run with the settings of candidate ``number``."""
        return _with(self.config, self.candidates[number], self.final_epsilon, {})

    @property
    def _mu(self) -> float:
        return mu_for(self.config.privacy.epsilon, self.config.privacy.delta)

    def _epsilon(self, share: float) -> float:
        return epsilon_of(self.config.privacy.delta, mu=math.sqrt(share) * self._mu)


def plan_private_tuning(
    config: SimulationConfig,
    problem: Problem,
    *,
    trials: int = 4,
    candidates: Sequence[Choice] = (),
    search_file: Path | None = None,
    search_seed: int = 0,
    division: Division | None = None,
) -> PrivateTuneRecord:
    """Fix everything that may be fixed, and refuse what could not be run to its end.

    Guarantee: the candidates follow from the arguments and from public facts of the problem alone.

    Args:
        config: data, algorithm, and the promise for everything together.
        problem: of ``for_trials(config)``; only its public parts are read.
        trials: how many settings are tried, the shipped ones included; only where ``candidates`` is empty.
        candidates: settings to try beside the shipped ones; none: drawn near those.
        search_file: a space in place of the default one, to draw from.
        search_seed: of that draw; >= 0.
        division: of the budget.

    Raises:
        PrivacyError: something here is not accounted for.
        InputError: a candidate that cannot be run, or anything else out of its range.
    """
    require_supported(config)
    parts = division or Division()
    if candidates and search_file is not None:
        raise InputError("candidates are given or drawn from a search space, not both; leave out one")
    if not candidates:
        _require_number(trials)
        candidates = _drawn(config, problem, search_file, number=trials - 1, seed=search_seed)
    _require_number(len(candidates) + 1)
    tried: tuple[dict[str, Value], ...] = ({}, *(dict(candidate) for candidate in candidates))
    if any(one == other for place, one in enumerate(tried) for other in tried[:place]):
        raise InputError(
            "two candidates are the same, or one changes nothing; each trial costs, so leave it out"
        )
    record = PrivateTuneRecord(
        config=config,
        candidates=tried,
        trials_share=parts.trials,
        choice_share=parts.choice,
        search_seed=search_seed,
        software=software(),
        source=source_digest(),
    )
    require_runnable(record, problem)
    return record


def require_supported(config: SimulationConfig) -> None:
    """Refuse what is not accounted for in a private choice, or what it cannot compare.

    Raises:
        PrivacyError: who takes part is drawn, or some have a level of their own.
        InputError: no ratings to compare on, or other clients than the engine's under the trusted protocol.
    """
    privacy, run = config.privacy, config.run
    if privacy.participation.kind != "full" or privacy.personal:
        raise PrivacyError(
            "a private choice of settings is accounted for full participation, and for users who all have the same "
            "epsilon: leave privacy.participation at 'full' and privacy.personal empty"
        )
    if config.feedback is not Feedback.EXPLICIT:
        raise InputError(
            "tune --private compares errors of predicted ratings, and implicit feedback has none: tune without "
            "--private, on made-up or public data"
        )
    if run.runtime != "engine" or run.protocol != USUAL or run.wire != "factored":
        raise InputError(
            f"tune --private runs on the engine under protocol '{USUAL}': leave run.runtime, run.protocol and "
            "run.wire as they are"
        )
    if config.split.validation == 0:
        raise InputError("tune --private compares on validation ratings: set split.validation above 0")


def require_runnable(record: PrivateTuneRecord, problem: Problem) -> None:
    """See that every trial, and the final run with every candidate, can be run: before anything is spent.

    Args:
        record: public.
        problem: of the trials.

    Raises:
        InputError: names the candidate.
    """
    for number, candidate in enumerate(record.candidates):
        for config in (record.trial(number), record.final(number)):
            try:
                settings_of(config, problem)
            except InputError as error:
                told = "the shipped settings" if number == 0 else f"candidate {number} ({told_of(candidate)})"
                raise InputError(f"{told} cannot be run: {error}; nothing was spent") from error


def settings_of(config: SimulationConfig, problem: Problem) -> dict[str, Any]:
    """Settings and shares by name, as a run of this configuration has them.

    Args:
        config: public.
        problem: only its public parts are read.

    Raises:
        InputError: it cannot be run.
    """
    calibrated = build_task(
        config, rating_range=problem.rating_range, backend="numpy", features=problem.feature_values
    )
    return {**asdict(shares_of(training_of(config))), **calibrated.task.config}


def told_of(candidate: Choice) -> str:
    """A candidate in words: ``settings.rounds = 5, settings.user_ridge = 3``."""
    written = (
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in candidate.items()
    )
    return ", ".join(written) or "shipped settings"


def read_candidates(path: Path) -> tuple[Choice, ...]:
    """The candidates of a TOML file: a table ``[[candidate]]`` for each, with tables ``settings`` and ``shares``.

    Raises:
        InputError: unreadable, or not that.
    """
    tables = read_config(path)
    found = tables.pop(_TABLE, None)
    if tables or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{path}: needs tables [[{_TABLE}]] and nothing else")
    return tuple(_candidate(one, f"{path}: candidate {number}") for number, one in enumerate(found, start=1))


def candidate_of(values: Mapping[str, Any], where: str) -> Choice:
    """A candidate from keys such as ``settings.rounds``, ``shares.counts`` or plainly ``rounds``.

    Raises:
        InputError: a key of another section, or a value that is no number, text or boolean.
    """
    found: dict[str, Value] = {}
    for key, value in values.items():
        section, dot, name = key.rpartition(".")
        section = section.removeprefix("privacy.") if dot else "settings"
        if section not in SECTIONS or not name:
            raise InputError(f"{where}: only {' and '.join(SECTIONS)} are chosen, got {key!r}")
        if not isinstance(value, bool | int | float | str):
            raise InputError(f"{where}: {key} must be a number, a text or a boolean, got {value!r}")
        found[f"{SECTIONS[section]}.{name}"] = value
    return found


def _candidate(tables: Mapping[str, Any], where: str) -> Choice:
    if not all(isinstance(table, dict) for table in tables.values()):
        raise InputError(f"{where}: needs tables {' and '.join(SECTIONS)}")
    return candidate_of({f"{s}.{name}": v for s, table in tables.items() for name, v in table.items()}, where)


def _drawn(
    config: SimulationConfig, problem: Problem, search_file: Path | None, *, number: int, seed: int
) -> list[Choice]:
    """Settings near the shipped ones, by a public seed."""
    if seed < 0:
        raise InputError(f"the seed of the search must be >= 0, got {seed}")
    space = _space(config, search_file)
    stated, rng = settings_of(config, problem), np.random.default_rng([seed])
    values: dict[str, Value | None] = {}
    for key in space:
        found = stated.get(key.rpartition(".")[2])
        values[key] = found if isinstance(found, bool | int | float | str) else None
    return [moved(space, values, rng) for _ in range(number)]


def _space(config: SimulationConfig, search_file: Path | None) -> Space:
    if search_file is None:
        space = default_space(chosen_algorithm(config.algorithm), config.feedback)
    else:
        space = read_space(search_file)
    left = without(space, {"settings": config.settings, "privacy.shares": config.privacy.shares})
    if not left:
        raise InputError("the configuration sets everything that would be tried; nothing is left to choose")
    return left


def _with(
    config: SimulationConfig, choice: Choice, epsilon: float, changes: dict[str, Any]
) -> SimulationConfig:
    plain = overlay(msgspec.to_builtins(config, str_keys=True), {"privacy": {"epsilon": epsilon}})
    for key, value in choice.items():
        plain = overlay(plain, nested(key, value))
    return parse_config(overlay(plain, changes), source="a candidate")


def _require_number(number: int) -> None:
    if not 2 <= number <= MOST_CANDIDATES:
        raise InputError(
            f"a private choice is among 2 to {MOST_CANDIDATES} settings, the shipped ones included, got {number}: "
            "each trial takes its share of the budget"
        )
