"""What a search leaves behind: ``tuned.toml`` to run with, ``trials.csv`` to compute with, a picture to look at."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.files import write_atomically
from fedboard.simulations.config import SimulationConfig, TunedConfig, overlay
from fedboard.simulations.tuning.figure import trials_figure
from fedboard.simulations.tuning.search import Search, Trial, value_of

_HEADING = """\
# Settings that fedboard tune chose. Run with them on your own ratings:
#   fedboard simulate {name} --data RATINGS --epsilon {epsilon:g}
# [tuned] says where they come from; it goes into the run's certificate.
"""


def write_outcome(
    out: Path, search: Search, trials: Sequence[Trial], best: Trial, tuned: TunedConfig
) -> tuple[Path, ...]:
    """Write the files of a finished search.

    Args:
        out: the directory of the search.
        search: what was asked.
        trials: all of them.
        best: whose settings go into tuned.toml.
        tuned: where they come from.

    Returns:
        Paths of tuned.toml, trials.csv, trials.svg and trials.png.
    """
    path, table = out / "tuned.toml", out / "trials.csv"
    write_atomically(path, tuned_toml(search, best, tuned, name=path.name).encode())
    write_atomically(table, _table(search, trials).encode())
    pictures = trials_figure(search, trials, best, out)
    return (path, table, *pictures)


def tuned_toml(search: Search, best: Trial, tuned: TunedConfig, *, name: str = "tuned.toml") -> str:
    """A configuration file with what was chosen, everything that was searched spelt out, and no data section."""
    config = search.config
    values = {key: value for key in search.space if (value := value_of(best, key)) is not None}
    chosen = {"settings": dict(config.settings), "privacy": {"shares": dict(config.privacy.shares)}}
    for key, value in values.items():
        section, _, parameter = key.rpartition(".")
        nested: dict[str, Any] = {parameter: value}
        for part in reversed(section.split(".")):
            nested = {part: nested}
        chosen = overlay(chosen, nested)
    tables = {
        "": {"algorithm": config.algorithm, "feedback": str(config.feedback)},
        "privacy": _promise(config),
        "privacy.shares": chosen["privacy"]["shares"],
        "settings": chosen["settings"],
        "tuned": msgspec.to_builtins(tuned),
    }
    heading = _HEADING.format(name=name, epsilon=config.privacy.epsilon)
    return heading + "\n" + "\n".join(_toml_table(title, table) for title, table in tables.items())


def _promise(config: SimulationConfig) -> dict[str, Any]:
    privacy = config.privacy
    plain = {"epsilon": privacy.epsilon, "delta": privacy.delta, "adjacency": str(privacy.adjacency)}
    if privacy.participation.kind == "full":
        return plain
    stated: dict[str, Any] = msgspec.to_builtins(privacy.participation)
    return plain | {"participation": {key: value for key, value in stated.items() if value is not None}}


def _toml_table(title: str, table: Mapping[str, Any]) -> str:
    lines = [f"[{title}]"] if title else []
    lines += [f"{key} = {_toml_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    """A value as TOML writes it; texts and lists are written as in JSON, which TOML reads alike."""
    if isinstance(value, float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml_value(entry)}" for key, entry in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(search: Search, trials: Sequence[Trial]) -> str:
    """A line per trial: metric, spread, seeds, values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("trial", f"{search.metric}", "deviation", "seeds", "error", *search.space))
    for trial in trials:
        mean, deviation = trial.mean(search.metric), trial.deviation(search.metric)
        errors = [record.error for record in trial.records if record.error]
        row = (
            trial.number,
            "" if math.isnan(mean) else mean,
            "" if deviation is None else deviation,
            len(trial.records),
            errors[0] if errors else "",
        )
        values = (trial.choice.get(key, value_of(trial, key)) for key in search.space)
        writer.writerow((*row, *("" if value is None else value for value in values)))
    return stream.getvalue()
