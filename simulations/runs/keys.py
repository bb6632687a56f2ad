"""The short names of a configuration's keys, which flags of the command line and keywords of Python share."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedboard.simulations.config import SimulationConfig, overlay, parse_config, read_config

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
