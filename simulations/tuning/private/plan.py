"""What a private choice fixes before anything is released: the candidates, and what each part may cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.protocols.registry import USUAL
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.config import SimulationConfig, overlay, parse_config
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.keys import nested
from fedboard.simulations.tuning.private.candidates import drawn, settings_of, space_of, told_of
from fedboard.simulations.tuning.software import software, source_digest
from fedboard.simulations.tuning.space import (
    Choice,
)
from fedboard.simulations.tuning.trials import for_trials

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
