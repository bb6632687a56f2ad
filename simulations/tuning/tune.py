"""From a question (which algorithm, on which public data) to a ``tuned.toml`` to run with, and its evidence."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.algorithms.shared.ratings_config import checked_options
from fedboard.common.checks import require_one_of, require_whole
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.simulations.config import SimulationConfig, TunedConfig, nested, overlay
from fedboard.simulations.data import SyntheticConfig
from fedboard.simulations.evaluation.metrics.registry import main_metric, metric_names
from fedboard.simulations.runs.calibrated import chosen_algorithm
from fedboard.simulations.sweeps.cells import RecordFile
from fedboard.simulations.tuning.search import OnTrial, Trial, TuneRecord, finalists, run_search, value_of
from fedboard.simulations.tuning.trials import (
    for_trials,
    software,
    source_digest,
    space_of,
)

SYNTHETIC = "synthetic"
_NOBODYS = "the ratings are made up by this program, nobody's data"

_HEADING = """\
# Settings that fedboard tune chose. Run with them on your own ratings:
#   fedboard simulate tuned.toml --data RATINGS --epsilon {epsilon:g}
# [tuned] says where they come from; it goes into the run's certificate.
"""


_RECORD = RecordFile(name="tune.json", kind=TuneRecord, what="a search")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """A finished search."""

    best: Trial
    shipped: Trial
    finalists: tuple[Trial, ...]
    """Best first."""
    record: TuneRecord
    tuned: Path
    files: tuple[Path, ...]
    """tuned.toml and trials.csv."""


def plan_tuning(
    config: SimulationConfig,
    *,
    public: str | None,
    trials: int = 40,
    seeds: tuple[int, ...] = (0, 1, 2),
    search_file: Path | None = None,
    metric: str | None = None,
) -> TuneRecord:
    """Check what is asked for.

    Guarantee: nothing is read but what is made up or said to be public by whoever asks; there is no default for
    that statement.

    Args:
        config: data, algorithm, feedback, epsilon, and settings that stay as they are.
        public: why the data need no protection; may be None for made-up data only.
        trials: settings to try, the shipped ones included; >= 2.
        seeds: of the noise; the later ones are for the best trials.
        search_file: a space in place of the default one.
        metric: name of a validation metric; RMSE or Recall@20 by default.

    Raises:
        PrivacyError: data that nobody said to be public.
        InputError: anything else that cannot be searched.
    """
    _require_public(config, public)
    chosen_algorithm(config.algorithm)  # refuses what is no private algorithm
    if config.privacy.noise != "seeded":
        raise InputError("tuning compares settings under repeatable noise: leave privacy.noise at 'seeded'")
    if trials < 2 or not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError("tuning needs at least 2 trials and different seeds >= 0")
    if metric is not None:
        require_one_of("metric", metric, metric_names(config.feedback, "validation"))
    return TuneRecord(
        config=for_trials(config),
        space=msgspec.convert(space_of(config, search_file), dict[str, dict[str, dict[str, list[Any]]]]),
        public=_NOBODYS if public is None else " ".join(public.split()),
        metric=metric or main_metric(config.feedback, "validation"),
        trials=trials,
        seeds=seeds,
        software=software(),
        source=source_digest(),
    )


def tune(
    record: TuneRecord, out: Path, *, jobs: int = 1, resume: bool = False, on_trial: OnTrial | None = None
) -> TuneResult:
    """Search, then write ``tuned.toml`` and ``trials.csv``.

    Args:
        record: from ``plan_tuning``.
        out: a record per trial goes to ``out/trials``.
        jobs: trials at a time, >= 1; never changes the result.
        resume: keep what is there.
        on_trial: told about each record.

    Raises:
        InputError: ``out`` is in use, or holds another search.
    """
    require_whole("jobs", jobs)
    _prepare(record, out, resume=resume)
    trials = run_search(record, out / "trials", jobs=jobs, on_trial=on_trial)
    ranked = finalists(record, trials)
    if not ranked:
        raise InputError(f"no trial could be run with every seed; {out / 'trials'} says why")
    best, shipped = ranked[0], trials[0]
    path, table = out / "tuned.toml", out / "trials.csv"
    write_atomically(path, tuned_toml(record, best, provenance(record, best, shipped)).encode())
    write_atomically(table, _table(record, trials).encode())
    return TuneResult(
        best=best,
        shipped=shipped,
        finalists=tuple(ranked),
        record=record,
        tuned=path,
        files=(path, table),
    )


def read_tune_record(out: Path) -> TuneRecord:
    """The record of the search in a directory.

    Raises:
        InputError: no search is there.
    """
    return _RECORD.read(out)


def provenance(record: TuneRecord, best: Trial, shipped: Trial) -> TunedConfig:
    """Where the best settings come from, for the runs that use them."""
    return TunedConfig(
        data=_described(record.config),
        public=record.public,
        algorithm=record.config.algorithm,
        epsilon=record.config.privacy.epsilon,
        metric=record.metric,
        mean=best.mean(record.metric),
        deviation=best.deviation(record.metric),
        shipped_mean=shipped.mean(record.metric),
        seeds=record.seeds,
        trials=record.trials,
        software=f"{record.software}, source {record.source}",
    )


def _require_public(config: SimulationConfig, public: str | None) -> None:
    if config.data.made_up:
        return
    if public is None or not public.strip():
        raise PrivacyError(
            f"choosing settings on {config.data.source} reads its ratings once per trial, a release that no ledger "
            "books: tune on --data synthetic or on ratings that are public anyway, and say with --public "
            '"..." why they are'
        )


def _described(config: SimulationConfig) -> str:
    """The data in public words: the name of a file, or the size of what is made up."""
    if config.data.source != SYNTHETIC:
        return config.data.source if config.data.made_up else Path(config.data.source).name
    made = checked_options(config.data.synthetic, SyntheticConfig, "data.synthetic")
    return f"{SYNTHETIC} ratings of {made.n_users} users and {made.n_items} items, seed {made.seed}"


def _prepare(record: TuneRecord, out: Path, *, resume: bool) -> None:
    if resume:
        earlier = read_tune_record(out)
        if earlier.source != source_digest():
            raise InputError(
                f"{out} was begun with other code, whose numbers do not compare; start anew, with another --out"
            )
        different = [
            name for name in record.__struct_fields__ if getattr(earlier, name) != getattr(record, name)
        ]
        if different:
            raise InputError(
                f"{out} holds a search with another {different[0]!r}; resume with the same, or give another --out"
            )
        return
    _RECORD.begin(out, record, room="trials")


def tuned_toml(search: TuneRecord, best: Trial, tuned: TunedConfig) -> str:
    """A configuration file with what was chosen, everything that was searched spelt out, and no data section."""
    config = search.config
    chosen = {"settings": dict(config.settings), "privacy": {"shares": dict(config.privacy.shares)}}
    for key in search.dimensions:
        if (value := value_of(best, key)) is not None:
            chosen = overlay(chosen, nested(key, value))
    tables = {
        "": {"algorithm": config.algorithm, "feedback": str(config.feedback)},
        "privacy": _promise(config),
        "privacy.shares": chosen["privacy"]["shares"],
        "settings": chosen["settings"],
        "tuned": msgspec.to_builtins(tuned),
    }
    heading = _HEADING.format(epsilon=config.privacy.epsilon)
    return "\n".join([heading, *(_toml_table(title, table) for title, table in tables.items())])


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


def _table(search: TuneRecord, trials: Sequence[Trial]) -> str:
    """A line per trial: metric, spread, seeds, values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("trial", f"{search.metric}", "deviation", "seeds", "error", *search.dimensions))
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
        values = (trial.choice.get(key, value_of(trial, key)) for key in search.dimensions)
        writer.writerow((*row, *("" if value is None else value for value in values)))
    return stream.getvalue()
