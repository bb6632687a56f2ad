"""Configuration of a simulation: one TOML file, one command line, one record in the run directory."""

import math
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.shared.properties import shows_rows
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.run_config import RunConfig


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common to all sections: immutable, keyword-only, misspelt keys are errors."""


class DataConfig(_Section, frozen=True, kw_only=True):
    """Which ratings."""

    source: str = "synthetic"
    """A file, a folder or ``synthetic``."""
    format: str | None = None
    """Reader by name; found out from the file if not given."""
    columns: dict[str, str] | None = None
    """Column names of a generic table: keys ``user``, ``item``, ``rating``."""
    rating_range: tuple[float, float] | None = None
    """Public range of ratings; needed for generic tables."""
    titles: str | None = None
    """A file with item titles."""
    features: str | None = None
    """A public file with features of the items, such as genres, or ``titles`` for what the titles say; see
    ``fedboard.server.catalogue.features``. For algorithms that use them."""
    catalogue: Literal["rated", "listed", "declared"] = "rated"
    """``rated``: the items that somebody rated, which says so of each; ``listed``: every item of the titles
    file; ``declared``: the list that an npz file brings of its own, and you vouch that it is public. Secure noise
    needs one of the last two, and a list that stands apart from the ratings."""
    synthetic: dict[str, Any] = {}
    """Settings of the generator, see ``fedboard.simulations.datasets.SyntheticConfig``."""


class SplitConfig(_Section, frozen=True, kw_only=True):
    """What is held out for judging."""

    kind: Literal["auto", "ratings", "users"] = "auto"
    """``ratings``: a share of all ratings; ``users``: whole users (top-k); ``auto`` follows the feedback."""
    seed: int = 0
    """Of the coins; with its id and hers alone it decides about a rating."""
    validation: float | None = None
    """Share of the ratings that is expected; default 0.1, or none where the data set has its own test part."""
    test: float = 0.1
    """Share of the ratings that is expected (``ratings``)."""
    held_out_users: float = 0.1
    """Probability that a user is held out, for each of validation and test; in (0, 0.5) (``users``)."""
    positive_above: float = 3.5
    """Ratings above this count as positive (``users``)."""


class ParticipationConfig(_Section, frozen=True, kw_only=True):
    """Who takes part in a round, see ``fedboard.common.per_user.participation``."""

    kind: Literal["full", "poisson", "fixed-size", "shuffled-cohorts"] = "full"
    probability: float | None = None
    """Of ``poisson``: each user's coin; in (0, 1)."""
    size: int | None = None
    """Of ``fixed-size``: users per round."""
    cohorts: int | None = None
    """Of ``shuffled-cohorts``: how many take turns."""

    def __post_init__(self) -> None:
        """Check that the kind has its number and no other.

        Raises:
            ValueError: names the number.
        """
        needed = {"poisson": "probability", "fixed-size": "size", "shuffled-cohorts": "cohorts"}
        for name in needed.values():
            given = getattr(self, name) is not None
            if given != (needed.get(self.kind) == name):
                rule = "has no" if given else "needs"
                raise ValueError(f"participation {self.kind!r} {rule} {name}")
        if self.probability is not None and not 0 < self.probability < 1:
            raise ValueError(f"participation.probability must be in (0, 1), got {self.probability}")
        for name in ("size", "cohorts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"participation.{name} must be a whole number >= 1, got {value}")


class PersonalLevel(_Section, frozen=True, kw_only=True):
    """Some of the users want more privacy than the run gives."""

    epsilon: float
    """Theirs; > 0, at most the run's."""
    share: float
    """Of all users; in (0, 1]. Who they are is drawn by a coin of each user's id, whatever the ratings. Public."""


class PrivacyConfig(_Section, frozen=True, kw_only=True):
    """The promise."""

    epsilon: float = 5.0
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: Literal["seeded", "secure"] = "seeded"
    """``seeded`` repeats bit for bit and protects nobody; ``secure`` is for boards that leave the house."""
    shares: dict[str, float] = {}
    """Overrides of ``fedboard.common.tasks.adadpals.config.BudgetShares``."""
    participation: ParticipationConfig = ParticipationConfig()
    personal: tuple[PersonalLevel, ...] = ()
    """Users with a level of their own; the others have the run's epsilon."""
    population: str | None = None
    """Account file of the users whose data this is (``fedboard ledger create-population``): all runs that name
    it add up."""
    lineage: str | None = None
    """Id of the lineage in that account which this run counts with, because it builds on its boards; by default
    the run founds one of its own."""

    def __post_init__(self) -> None:
        """Check what is promised together.

        Raises:
            ValueError: sampling or personal levels that cannot be accounted.
        """
        if self.lineage is not None and self.population is None:
            raise ValueError(
                "privacy.lineage is an id in a population's account: give privacy.population too"
            )
        sampled = self.participation.kind == "poisson"
        if sampled and self.adjacency is not Adjacency.ADD_REMOVE:
            raise ValueError("participation 'poisson' is accounted under adjacency 'add-remove' only")
        displaces = self.participation.kind in ("fixed-size", "shuffled-cohorts")
        if displaces and self.adjacency is Adjacency.ADD_REMOVE:
            raise ValueError(
                f"participation {self.participation.kind!r} is not accounted under adjacency 'add-remove', where a "
                "user more takes the place of another: set privacy.adjacency to 'replace' (--adjacency), or take "
                "participation 'poisson' or 'full'"
            )
        if sampled and self.personal:
            raise ValueError("personal levels cannot be accounted together with participation 'poisson'")
        for level in self.personal:
            if not 0 < level.epsilon <= self.epsilon:
                raise ValueError(
                    f"personal.epsilon must be > 0 and at most the run's {self.epsilon:g}, got {level.epsilon}"
                )
            if not 0 < level.share <= 1:
                raise ValueError(f"personal.share must be in (0, 1], got {level.share}")
        if math.fsum(level.share for level in self.personal) > 1 + 1e-9:
            raise ValueError("the shares of personal levels must add to at most 1")


class TunedConfig(_Section, frozen=True, kw_only=True):
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


class SimulationConfig(_Section, frozen=True, kw_only=True):
    """Everything that a simulation is made of."""

    algorithm: str = "residual"
    feedback: Feedback = Feedback.EXPLICIT
    seed: int = 0
    """Fixes first factors, sampling and, where it is seeded, the noise."""
    data: DataConfig = DataConfig()
    split: SplitConfig = SplitConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    settings: dict[str, Any] = {}
    """Overrides of the algorithm's tuned defaults."""
    run: RunConfig = RunConfig()
    tuned: TunedConfig | None = None
    """Where the settings come from, if they were tuned."""

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a number is out of its range (``parse_config`` turns it into an InputError).
        """
        if not 0 < self.privacy.epsilon < math.inf:
            raise ValueError(f"privacy.epsilon must be a finite number > 0, got {self.privacy.epsilon}")
        if not 0 < self.privacy.delta < 1:
            raise ValueError(f"privacy.delta must be in (0, 1), got {self.privacy.delta}")
        if self.privacy.adjacency not in OF_TRAININGS:
            raise ValueError(
                f"privacy.adjacency must be {' or '.join(OF_TRAININGS)} for a training, "
                f"got '{self.privacy.adjacency}'"
            )
        if self.seed < 0:
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed}")
        if (
            self.privacy.noise == "secure"
            and self.data.catalogue == "rated"
            and self.data.source != "synthetic"
        ):
            raise ValueError(
                "secure noise needs a catalogue that does not depend on the ratings: set data.catalogue to "
                "'listed' (every item of the titles file), or to 'declared' if an npz file brings a public list"
            )
        present = self.privacy.participation.kind
        if present != "full" and not says(self.run.protocol, shows_rows):
            raise ValueError(
                f"participation {present!r} is drawn among rows, which only protocol '{names_where(shows_rows)}' "
                f"sees, got {self.run.protocol!r}"
            )
        if self.run.dropout > 0 and self.privacy.noise == "secure":
            raise ValueError(
                "dropout loses clients on purpose, by a draw among as many as there are, so that one user's "
                "presence decides about others: it is for simulations and needs privacy.noise 'seeded'"
            )
        if self.run.masks == "cancelled" and self.privacy.noise == "secure":
            raise ValueError("masks 'cancelled' is for simulations: it needs privacy.noise 'seeded'")

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
    """
    try:
        return msgspec.convert(raw, SimulationConfig)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{source}: {error}") from error


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file, unchecked, so that flags can be laid over it.

    Raises:
        InputError: no such file, or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: no configuration can be read there ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error


def overlay(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, section by section; neither is altered."""
    merged = dict(base)
    for key, value in changes.items():
        under = merged.get(key)
        merged[key] = overlay(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


__all__ = [
    "DataConfig",
    "ParticipationConfig",
    "PersonalLevel",
    "PrivacyConfig",
    "RunConfig",
    "SimulationConfig",
    "SplitConfig",
    "TunedConfig",
    "overlay",
    "parse_config",
    "read_config",
    "with_kernels",
]
