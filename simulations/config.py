"""Configuration of a simulation: one TOML file, one command line, one record in the run directory."""

import math
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.tasks.adadpals_config import Feedback


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
    catalogue: Literal["rated", "listed", "declared"] = "rated"
    """``rated``: the items that somebody rated, which says so of each; ``listed``: every item of the titles
    file; ``declared``: the rated ones, and you vouch that this list is public anyway. Secure noise needs one of
    the last two."""
    synthetic: dict[str, Any] = {}
    """Settings of the generator, see ``fedboard.simulations.datasets.SyntheticConfig``."""


class SplitConfig(_Section, frozen=True, kw_only=True):
    """What is held out for judging."""

    kind: Literal["auto", "ratings", "users"] = "auto"
    """``ratings``: a share of all ratings; ``users``: whole users (top-k); ``auto`` follows the feedback."""
    seed: int = 0
    validation: float | None = None
    """Share of the ratings; default 0.1, or none where the data set has its own test part."""
    test: float = 0.1
    held_out_users: float = 0.1
    """Share of the users in each of validation and test (``users``)."""
    positive_above: float = 3.5
    """Ratings above this count as positive (``users``)."""


class PrivacyConfig(_Section, frozen=True, kw_only=True):
    """The promise."""

    epsilon: float = 5.0
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: Literal["seeded", "secure"] = "seeded"
    """``seeded`` repeats bit for bit and protects nobody; ``secure`` is for boards that leave the house."""
    shares: dict[str, float] = {}
    """Overrides of ``fedboard.common.tasks.adadpals_config.BudgetShares``."""


class RunConfig(_Section, frozen=True, kw_only=True):
    """How it runs; never changes what is computed."""

    workers: int = 1
    kernels: Literal["auto", "numpy", "plain", "blocked"] = "auto"
    """Which code computes; versions agree to rounding, so resume with the same."""
    wire: Literal["factored", "dense"] = "factored"
    evaluate_rounds: bool = True
    """Metrics after each round, not only at the end."""
    baselines: bool = True
    """Fit the non-private baselines for comparison."""


class SimulationConfig(_Section, frozen=True, kw_only=True):
    """Everything that a simulation is made of."""

    algorithm: str = "adadpals"
    feedback: Feedback = Feedback.EXPLICIT
    seed: int = 0
    """Fixes first factors, sampling and, where it is seeded, the noise."""
    data: DataConfig = DataConfig()
    split: SplitConfig = SplitConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    settings: dict[str, Any] = {}
    """Overrides of the algorithm's tuned defaults."""
    run: RunConfig = RunConfig()

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a number is out of its range (``parse_config`` turns it into an InputError).
        """
        if not 0 < self.privacy.epsilon < math.inf:
            raise ValueError(f"privacy.epsilon must be a finite number > 0, got {self.privacy.epsilon}")
        if not 0 < self.privacy.delta < 1:
            raise ValueError(f"privacy.delta must be in (0, 1), got {self.privacy.delta}")
        if self.seed < 0:
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed}")
        if (
            self.privacy.noise == "secure"
            and self.data.catalogue == "rated"
            and self.data.source != "synthetic"
        ):
            raise ValueError(
                "secure noise needs a catalogue that does not depend on the ratings: set data.catalogue to "
                "'listed' (every item of the titles file), or to 'declared' if the list of rated items is public"
            )
        if self.run.workers < 1:
            raise ValueError(f"run.workers must be a whole number >= 1, got {self.run.workers}")

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
    "PrivacyConfig",
    "RunConfig",
    "SimulationConfig",
    "SplitConfig",
    "overlay",
    "parse_config",
    "read_config",
    "with_kernels",
]
