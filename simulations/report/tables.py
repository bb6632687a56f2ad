"""The tables of a report, as rows of finished text."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.simulations.drawing.json_values import JsonObject, number_or_none, object_or_empty
from fedboard.simulations.drawing.table import Table
from fedboard.simulations.drawing.wording import (
    arrow,
    duration,
    fixed,
    metric_label,
    number,
    percent,
    reading_order,
    setting,
)
from fedboard.simulations.report.guarantee import ReleaseLine
from fedboard.simulations.report.run_files import Model

_LONGEST_VALUE = 400


def metric_table(run: Model, baselines: Sequence[Model]) -> Table:
    """Metrics of the run and its baselines, one row a model, the run first and emphasised."""
    models = (run, *baselines)
    names = reading_order(name for model in models for name in model.metrics)
    return Table(
        headers=("Model", "Epsilon", *(f"{metric_label(name)}\u00a0{arrow(name)}" for name in names)),
        rows=tuple(
            (model.name, _epsilon(model), *(fixed(model.metrics.get(n)) for n in names)) for model in models
        ),
        emphasised_rows=frozenset({0}),
    )


def release_table(releases: Sequence[ReleaseLine]) -> Table:
    """Every release of the certificate, in order, with its part of the budget and the running epsilon."""
    total = sum(release.mu_squared or 0.0 for release in releases)
    return Table(
        headers=(
            "Release",
            "What it covers",
            "Numbers",
            "Sensitivity",
            "Noise stddev",
            "z = noise / sensitivity",
            "Share of mu²",
            "Epsilon so far",
        ),
        rows=tuple(_release_row(release, total) for release in releases),
        text_columns=frozenset({0, 1}),
    )


def round_table(rounds: Sequence[JsonObject]) -> Table:
    """What ran: each round with the board it ended with, releases, epsilon spent, time, validation metrics."""
    names = reading_order(name for entry in rounds for name in object_or_empty(entry.get("metrics")))
    return Table(
        headers=(
            "Board",
            "Round",
            "Releases",
            "Epsilon spent",
            "Time",
            *(metric_label(name) for name in names),
        ),
        rows=tuple(_round_row(entry, names) for entry in rounds),
        text_columns=frozenset({0, 1, 2}),
    )


def configuration_table(config: JsonObject) -> Table:
    """The resolved configuration, nested keys joined with dots."""
    rows = tuple((key, _shortened(value)) for key, value in flatten(config).items())
    return Table(headers=("Setting", "Value"), rows=rows, text_columns=frozenset({0, 1}))


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as one level: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _epsilon(model: Model) -> str:
    return "none" if model.epsilon is None else setting(model.epsilon)


def _release_row(release: ReleaseLine, total: float) -> tuple[str, ...]:
    share = release.mu_squared / total if release.mu_squared is not None and total > 0 else None
    name = release.name if release.mechanism == "gaussian" else f"{release.name} ({release.mechanism})"
    return (
        name,
        release.covers,
        release.shape,
        number(release.sensitivity),
        number(release.noise),
        number(release.noise_multiplier),
        percent(share),
        fixed(release.cumulative_epsilon),
    )


def _round_row(entry: JsonObject, names: Sequence[str]) -> tuple[str, ...]:
    metrics = object_or_empty(entry.get("metrics"))
    releases = entry.get("releases")
    return (
        number(board_number(entry)),
        str(entry.get("stage", "–")),
        ", ".join(str(name) for name in releases) if isinstance(releases, list) else "–",
        fixed(number_or_none(entry.get("epsilon_spent"))),
        duration(number_or_none(entry.get("seconds"))),
        *(fixed(number_or_none(metrics.get(name))) for name in names),
    )


def board_number(entry: JsonObject) -> float | None:
    """Of the board that a round ended with; round 0 ends with board 1."""
    place = number_or_none(entry.get("round"))
    return None if place is None else place + 1


def _shortened(value: object) -> str:
    if value is None:
        return "–"
    text = setting(value) if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} … ({len(text)} characters)"
