"""What a private choice fixes before anything is released: the candidates, and what each part may cost.

Candidates are given, read from a file, or drawn near the shipped settings, all before the first trial. No sampler
that learns from scores has a place here: it would read private ratings once per proposal, and the ledger books
trials and one comparison, nothing else.
"""

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
from fedboard.simulations.runs.calibrated import build_task, training_of
from fedboard.simulations.runs.keys import nested
from fedboard.simulations.tuning.software import software, source_digest
from fedboard.simulations.tuning.space import SECTIONS, Choice, Space, Value, space_of
from fedboard.simulations.tuning.trials import for_trials

_TABLE = "candidate"
_CHANGED = 0.5
"""Probability that a setting changes between a trial and the one it was drawn near to."""
MOST_CANDIDATES = 16
"""Each costs a share of the budget, so many are worse than few."""


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
    """What each lays over the configuration in the final run; the first nothing: the shipped settings."""
    tried: tuple[dict[str, float | int | bool | str], ...]
    """The same in its trial: a drawn candidate is a step from what is shipped, and that depends on the budget."""
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
        return _epsilon(self.config, self.division.trials / len(self.candidates))

    @property
    def choice_epsilon(self) -> float:
        """What the comparison costs by itself."""
        return _epsilon(self.config, self.division.choice)

    @property
    def final_epsilon(self) -> float:
        """What the final run costs by itself."""
        return _epsilon(self.config, self.division.final)

    @property
    def choice_noise(self) -> float:
        """Noise deviation over sensitivity of the comparison."""
        return 1.0 / (math.sqrt(self.division.choice) * _mu(self.config))

    def trial(self, number: int) -> SimulationConfig:
        """What trial ``number`` runs; it judges nothing on held-out ratings."""
        quiet = {"run": {"baselines": False, "evaluate_rounds": False}}
        return _with(for_trials(self.config), self.tried[number], self.trial_epsilon, quiet)

    def final(self, number: int) -> SimulationConfig:
        """The final run with the settings of candidate ``number``."""
        return _with(self.config, self.candidates[number], self.final_epsilon, {})


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
    _require_number(len(candidates) + 1 if candidates else trials)
    if candidates:
        tried = finals = [{}, *(dict(candidate) for candidate in candidates)]
    else:
        space, of_trial = space_of(config, search_file), parts.trials / trials
        tried, finals = (
            [{}, *drawn(_at(config, share), problem, space, number=trials - 1, seed=search_seed)]
            for share in (of_trial, parts.final)
        )
    if any(one == other for place, one in enumerate(finals) for other in finals[:place]):
        raise InputError(
            "two candidates are the same, or one changes nothing; each trial costs, so leave it out"
        )
    record = PrivateTuneRecord(
        config=config,
        candidates=tuple(finals),
        tried=tuple(tried),
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
    if config.split.by_time:
        raise InputError(
            "tune --private compares on ratings that fell by coins, which each user's device throws again: leave "
            "out split.test_from and split.leave_last"
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


def _at(config: SimulationConfig, share: float) -> SimulationConfig:
    """The same run at a share of mu^2."""
    return _with(config, {}, _epsilon(config, share), {})


def _mu(config: SimulationConfig) -> float:
    return mu_for(config.privacy.epsilon, config.privacy.delta)


def _epsilon(config: SimulationConfig, share: float) -> float:
    return epsilon_of(config.privacy.delta, mu=math.sqrt(share) * _mu(config))


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


def drawn(
    config: SimulationConfig, problem: Problem, space: Space, *, number: int, seed: int
) -> list[dict[str, Value]]:
    """Settings near those that are shipped for this budget: the same steps from them for the same public seed.

    Args:
        config: public; its epsilon is that of the part.
        problem: only its public parts are read.
        space: what may move.
        number: of candidates.
        seed: >= 0. Public.

    Raises:
        InputError: the seed is negative.
    """
    if seed < 0:
        raise InputError(f"the seed of the search must be >= 0, got {seed}")
    stated, rng = settings_of(config, problem), np.random.default_rng([seed])
    values: dict[str, Value | None] = {}
    for key in space:
        found = stated.get(key.rpartition(".")[2])
        values[key] = found if isinstance(found, bool | int | float | str) else None
    return [dict(_moved(space, values, rng)) for _ in range(number)]


def _moved(space: Space, values: Mapping[str, Value | None], rng: np.random.Generator) -> Choice:
    """About half of the settings moved a little, at least one of them.

    Args:
        space: what may move.
        values: where it moves from; a value that is not known, None, is drawn anew.
        rng: decides.
    """
    moves = rng.random(len(space)) < _CHANGED
    moves[rng.integers(len(space))] = True
    return {
        key: parameter.value_at(rng.random())
        if (value := values[key]) is None
        else parameter.near(value, rng)
        for (key, parameter), chosen in zip(space.items(), moves, strict=True)
        if chosen
    }


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


def _candidate(tables: Mapping[str, Any], where: str) -> Choice:
    if not all(isinstance(table, dict) for table in tables.values()):
        raise InputError(f"{where}: needs tables {' and '.join(SECTIONS)}")
    return candidate_of({f"{s}.{name}": v for s, table in tables.items() for name, v in table.items()}, where)
