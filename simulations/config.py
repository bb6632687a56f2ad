"""Configuration of a simulation: one TOML file, one command line, one record in the run directory."""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.algorithms.registry import learns_from_examples, usual
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.tuned import TUNED
from fedboard.common.checks import sentence_of
from fedboard.common.errors import InputError, SettingError, UnsafeSettingError
from fedboard.common.files import read_file
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.run_spec import (
    ParticipationChoice,
    Promise,
    ProtocolChoice,
    Section,
    require_rows,
)
from fedboard.simulations.sections import DataConfig, RunConfig, SplitConfig


class PersonalLevel(Section, frozen=True, kw_only=True):
    """Some of the users want more privacy than the run gives."""

    epsilon: float
    """Theirs; > 0, at most the run's."""
    share: float
    """Of all users; in (0, 1]. Who they are is drawn by a coin of each user's id, whatever the ratings. Public."""


class PrivacyConfig(Section, frozen=True, kw_only=True):
    """The promise, see ``Promise``; ``SimulationConfig.promise`` checks it."""

    epsilon: float = 5.0
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: str = "seeded"
    """``seeded`` repeats bit for bit and protects nobody; ``secure`` is for boards that leave the house."""
    shares: dict[str, float] = msgspec.field(default_factory=dict)
    """Overrides of how the algorithm shares the budget among its releases; ``shares`` of its record."""
    participation: ParticipationChoice = ParticipationChoice()
    personal: tuple[PersonalLevel, ...] = ()
    """Users with a level of their own; the others have the run's epsilon."""
    population: str | None = None
    """Account file of the users whose data this is (``fedboard ledger create``): all runs that name
    it add up."""
    lineage: str | None = None
    """Id of the lineage in that account which this run counts with, because it builds on its boards; by default
    the run founds one of its own."""

    def __post_init__(self) -> None:
        """Check the levels.

        Raises:
            SettingError: levels that cannot be accounted.
        """
        if self.participation.kind == "poisson" and self.personal:
            raise SettingError("personal levels cannot be accounted together with participation 'poisson'")
        for level in self.personal:
            if not 0 < level.epsilon <= self.epsilon:
                raise SettingError(
                    f"personal.epsilon must be > 0 and at most the run's {self.epsilon:g}, got {level.epsilon}"
                )
            if not 0 < level.share <= 1:
                raise SettingError(f"personal.share must be in (0, 1], got {level.share}")
        if math.fsum(level.share for level in self.personal) > 1 + 1e-9:
            raise SettingError("the shares of personal levels must add to at most 1")


class TunedConfig(Section, frozen=True, kw_only=True):
    """Where settings and shares come from, as ``fedboard tune`` writes it down; nothing is computed from it."""

    data: str
    """What they were chosen on."""
    public: str
    """Why choosing on that data needs no budget, in the words of whoever chose."""
    algorithm: str
    epsilon: float
    metric: str
    """What was compared, on the validation part."""
    mean: float
    """Of the metric over the seeds."""
    deviation: float | None = None
    """Standard deviation over the seeds."""
    shipped_mean: float | None = None
    """Of the metric with the shipped settings, over the same seeds."""
    seeds: tuple[int, ...]
    """Of the noise."""
    trials: int
    """How many settings were compared."""
    software: str
    """Name and version of what ran."""

    @property
    def assumption(self) -> str:
        """The sentence for the certificate."""
        return (
            f"The configuration started from settings that fedboard tune chose for {self.algorithm} at epsilon "
            f"{self.epsilon:g} among {self.trials}, by {self.metric} on {self.data}; that needed no budget "
            f"because: {self.public.rstrip('.')}."
        )


class SimulationConfig(Section, frozen=True, kw_only=True):
    """Everything that a simulation is made of."""

    algorithm: str = ""
    """A name of the registry, or on the engine ``package.module:RECORD`` or ``path/to/file.py:RECORD``; empty for
    the usual one of the feedback."""
    feedback: Feedback = Feedback.EXPLICIT
    seed: int = 0
    """Fixes first factors, sampling and, where it is seeded, the noise."""
    data: DataConfig = DataConfig()
    split: SplitConfig = SplitConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Overrides of the algorithm's defaults."""
    recipe: str = TUNED
    """Whose defaults: ``tuned``, ours, or for AdaDPALS and DPALS ``paper``, the published ones."""
    run: RunConfig = RunConfig()
    tuned: TunedConfig | None = None
    """Where the settings come from, if they were tuned."""

    def __post_init__(self) -> None:
        """Name the algorithm where nobody did, and check ranges.

        Raises:
            SettingError: a number is out of its range (``parse_config`` says in which file).
        """
        if not self.algorithm:
            msgspec.structs.force_setattr(self, "algorithm", usual(self.feedback))
        if learns_from_examples(self.algorithm):
            self.require_examples()
        require_rows(self.promise, self.protocol)
        if ":" in self.algorithm and self.run.runtime != "engine":
            raise SettingError(
                f"an algorithm of your own needs run.runtime 'engine', got {self.run.runtime!r}: clients of a grid "
                "or a cluster take what is installed (docs/guide/extending.md)"
            )
        if (
            self.privacy.noise == "secure"
            and not learns_from_examples(self.algorithm)
            and self.data.catalogue == "rated"
            and not self.data.made_up
        ):
            raise UnsafeSettingError(
                "secure noise needs a list of items that stands apart from the ratings: take every item of the "
                "titles file with --set data.catalogue=listed (and data.titles=FILE where the data bring none), or "
                "the list of an npz file, where it is public, with --set data.catalogue=declared"
            )
        if self.run.dropout > 0 and self.privacy.noise == "secure":
            raise UnsafeSettingError(
                "dropout loses clients on purpose, by a draw among as many as there are, so that one user's "
                "presence decides about others: it is for simulations and needs privacy.noise 'seeded'"
            )

    def require_examples(self) -> None:
        """See that nothing is asked of examples that only ratings have; an own algorithm's name does not tell.

        Raises:
            SettingError: names the key.
        """
        if self.run.runtime == "ray":
            raise SettingError(
                f"{self.algorithm} learns from examples, and run.runtime 'ray' takes ratings: take run.runtime "
                "'engine'"
            )
        plain, split = DataConfig(source=self.data.source, synthetic=self.data.synthetic), SplitConfig()
        asked = [
            f"data.{key}" for key in plain.__struct_fields__ if getattr(self.data, key) != getattr(plain, key)
        ]
        of_examples = ("seed", "validation", "test")
        asked += [
            f"split.{key}"
            for key in split.__struct_fields__
            if key not in of_examples and getattr(self.split, key) != getattr(split, key)
        ]
        asked += ["feedback"] * (self.feedback is not Feedback.EXPLICIT)
        if asked:
            raise SettingError(
                f"{self.algorithm} learns from examples, features with a label: leave out {', '.join(asked)}"
            )

    @property
    def promise(self) -> Promise:
        """What every user is promised."""
        privacy = self.privacy
        return Promise(
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            adjacency=privacy.adjacency,
            noise=privacy.noise,
            seed=self.seed,
            participation=privacy.participation,
            population=privacy.population,
            lineage=privacy.lineage,
        )

    @property
    def protocol(self) -> ProtocolChoice:
        """How contributions become sums."""
        return ProtocolChoice(name=self.run.protocol, settings=self.run.protocol_settings)

    @property
    def split_kind(self) -> str:
        """``ratings`` or ``users``."""
        if self.split.kind != "auto":
            return self.split.kind
        return "users" if self.feedback is Feedback.IMPLICIT else "ratings"


def with_kernels(config: SimulationConfig, kernels: str) -> SimulationConfig:
    """The same configuration with the kernels written down, so that a resumed run takes the same."""
    return msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, kernels=kernels))


def parse_config(raw: dict[str, Any], *, source: str = "the configuration") -> SimulationConfig:
    """Check a configuration.

    Raises:
        InputError: an unknown key, a wrong type or a value out of range; the message gives its path.
        UnsafeSettingError: secure noise with what would make it worth less.
    """
    try:
        return msgspec.convert(_with_texts(raw), SimulationConfig)
    except (msgspec.ValidationError, ValueError) as error:
        refused = UnsafeSettingError if isinstance(error.__cause__, UnsafeSettingError) else InputError
        raise refused(f"{source}: {sentence_of(error, SimulationConfig)}") from error


def _with_texts(raw: Any) -> Any:
    """Dates of TOML as texts: as a run's record has them."""
    if isinstance(raw, dict):
        return {key: _with_texts(value) for key, value in raw.items()}
    return raw.isoformat() if isinstance(raw, date) else raw


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file, unchecked, so that flags can be laid over it.

    Raises:
        InputError: no such file, or not TOML.
    """
    try:
        return tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise InputError(f"{path}: no configuration can be read there ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        data = "" if path.suffix == ".toml" else f"; ratings are given by --data {path}"
        raise InputError(f"{path}: not valid TOML: {error}{data}") from error


def overlay(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, section by section; neither is altered."""
    merged = dict(base)
    for key, value in changes.items():
        under = merged.get(key)
        merged[key] = overlay(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


KEYS = {
    "data": "data.source",
    "data_format": "data.format",
    "columns": "data.columns",
    "rating_range": "data.rating_range",
    "titles": "data.titles",
    "item_features": "data.features",
    "feedback": "feedback",
    "algorithm": "algorithm",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
    "adjacency": "privacy.adjacency",
    "noise": "privacy.noise",
    "participation": "privacy.participation",
    "population": "privacy.population",
    "rank": "settings.rank",
    "rounds": "settings.rounds",
    "recipe": "recipe",
    "seed": "seed",
    "workers": "run.workers",
    "runtime": "run.runtime",
    "address": "run.address",
    "nodes": "run.nodes",
    "protocol": "run.protocol",
    "clients": "run.clients",
    "dropout": "run.dropout",
    "streamed": "run.streamed",
    "block_ratings": "run.block_ratings",
    "kernels": "run.kernels",
    "baselines": "run.baselines",
}
"""Short name -> key."""


def configured(
    base: Mapping[str, Any], settings: Iterable[tuple[str, Any]], *, source: str
) -> SimulationConfig:
    """Lay settings over a configuration, one after the other, and check the whole.

    Args:
        base: as read from a file.
        settings: key, with dots between sections, and value.
        source: what messages call the configuration.

    Raises:
        InputError: a key or value that is not one.
    """
    merged = dict(base)
    for key, value in settings:
        merged = overlay(merged, nested(key, value))
    return parse_config(merged, source=source)


def base_of(config_file: Path | None, place: Path | None, *, resume: bool) -> dict[str, Any]:
    """What settings are laid over: the file, or for a run to resume its own record, or nothing."""
    if config_file is not None:
        return read_config(config_file)
    if resume and place is not None and (place / "config.json").exists():
        stored: dict[str, Any] = json.loads((place / "config.json").read_text(encoding="utf-8"))
        return stored
    return {}


def nested(key: str, value: Any) -> dict[str, Any]:
    """``{"a": {"b": value}}`` for the key ``a.b``."""
    for part in reversed(key.split(".")):
        value = {part: value}
    whole: dict[str, Any] = value
    return whole
