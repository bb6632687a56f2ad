"""What a private choice fixes before anything is released: the candidates, and what each part may cost.

Candidates are given before the first trial. No sampler that learns from scores has a place here: it would read
private ratings once per proposal, and the ledger books trials and one comparison, nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.protocols.registry import USUAL
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.tuning.trials import (
    SECTIONS,
    Choice,
    Value,
    for_trials,
    laid_over,
    software,
    source_digest,
)

MOST_CANDIDATES = 16
"""Each costs a share of the budget, so many are worse than few."""
TRIALS_SHARE, CHOICE_SHARE = 0.25, 0.03
"""Shares of mu^2 of the whole promise: of all trials together, each the same, and of what compares them."""
FINAL_SHARE = 1.0 - TRIALS_SHARE - CHOICE_SHARE
"""What is left trains the final board."""


class PrivateTuneRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is fixed, and written down, before the first release. All of it is public."""

    config: SimulationConfig
    """Of the whole: its epsilon and delta are promised for everything together."""
    candidates: tuple[dict[str, float | int | bool | str], ...]
    """What each lays over the configuration; the first nothing: the shipped settings."""
    software: str
    source: str
    """Digest of the code: releases of other code are not continued."""

    def epsilon_of_share(self, share: float) -> float:
        """What a part with this share of mu^2 costs by itself."""
        return epsilon_of(self.config.privacy.delta, mu=self._mu(share))

    def _mu(self, share: float) -> float:
        return math.sqrt(share) * mu_for(self.config.privacy.epsilon, self.config.privacy.delta)

    @property
    def trial_share(self) -> float:
        """Of one trial."""
        return TRIALS_SHARE / len(self.candidates)

    @property
    def choice_noise(self) -> float:
        """Noise deviation over sensitivity of the comparison."""
        return 1.0 / self._mu(CHOICE_SHARE)

    def trial(self, number: int) -> SimulationConfig:
        """What trial ``number`` runs; it judges nothing on held-out ratings."""
        quiet = {"baselines": False, "evaluate_rounds": False}
        changes = {"privacy": {"epsilon": self.epsilon_of_share(self.trial_share)}, "run": quiet}
        return laid_over(for_trials(self.config), self.candidates[number], changes)

    def final(self, number: int) -> SimulationConfig:
        """The final run with the settings of candidate ``number``."""
        changes = {"privacy": {"epsilon": self.epsilon_of_share(FINAL_SHARE)}}
        return laid_over(self.config, self.candidates[number], changes)


def plan_private_tuning(
    config: SimulationConfig, problem: Problem, *, candidates: Sequence[Choice]
) -> PrivateTuneRecord:
    """Fix everything that may be fixed, and refuse what could not be run to its end.

    Args:
        config: data, algorithm, and the promise for everything together.
        problem: of ``for_trials(config)``; only its public parts are read.
        candidates: settings to try beside the shipped ones.

    Raises:
        PrivacyError: something here is not accounted for.
        InputError: a candidate that cannot be run, or anything else out of its range.
    """
    require_supported(config)
    if not 2 <= len(candidates) + 1 <= MOST_CANDIDATES:
        raise InputError(
            f"a private choice is among 2 to {MOST_CANDIDATES} settings, the shipped ones included, got "
            f"{len(candidates) + 1}: each trial takes its share of the budget"
        )
    tried = [{}, *(dict(candidate) for candidate in candidates)]
    if any(one == other for place, one in enumerate(tried) for other in tried[:place]):
        raise InputError(
            "two candidates are the same, or one changes nothing; each trial costs, so leave it out"
        )
    record = PrivateTuneRecord(
        config=config, candidates=tuple(tried), software=software(), source=source_digest()
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
    if run.runtime != "engine" or run.protocol != USUAL:
        raise InputError(
            f"tune --private runs on the engine under protocol '{USUAL}': leave run.runtime and run.protocol as "
            "they are"
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
                build_task(
                    config,
                    rating_range=problem.rating_range,
                    backend="numpy",
                    features=problem.feature_values,
                )
            except InputError as error:
                told = "the shipped settings" if number == 0 else f"candidate {number} ({told_of(candidate)})"
                raise InputError(f"{told} cannot be run: {error}; nothing was spent") from error


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


def told_of(candidate: Choice) -> str:
    """A candidate in words: ``settings.rounds = 5, settings.user_ridge = 3``."""
    written = (
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in candidate.items()
    )
    return ", ".join(written) or "shipped settings"
