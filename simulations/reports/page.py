"""The report of a simulation: what every run has, and what is judged on held-out ratings, under its label."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedboard.common.reports.statement import Statement
from fedboard.common.reports.wording import (
    JsonObject,
    Table,
    byte_count,
    duration,
    fixed,
    listing,
    number_or_none,
    numeric_entries,
    object_or_empty,
    setting,
)
from fedboard.server.operating.run_files import RunFiles
from fedboard.server.operating.run_report import Lines, RunReport
from fedboard.simulations.evaluation.verdict import Verdict, verdict_of
from fedboard.simulations.reports.charts import (
    activity_charts,
    metric_charts,
    slice_charts,
)
from fedboard.simulations.reports.run_files import (
    Model,
    RunRecord,
    model_from_json,
    read_certificate,
    read_run,
    require_whole,
)
from fedboard.simulations.reports.wording import arrow, definitions, metric_label, reading_order
from fedboard.simulations.runs.directory import rounds_told

_FACTS = {
    "Algorithm": ("algorithm", "task.name", "task"),
    "Feedback": ("feedback",),
    "Source": ("data.source", "data", "dataset.source", "dataset"),
    "Split": ("split.kind",),
    "Seed": ("seed",),
}
_LONGEST_VALUE = 400


def write_report(run_dir: Path) -> Path:
    """Write ``report.html`` into a run directory from the files that are there.

    Args:
        run_dir: holds at least certificate.json; config.json, metrics.jsonl, ledger and boards, baselines.json
            and beside.json add their sections where they exist.

    Returns:
        Path of the report. It quotes held-out metrics, so it is no more public than they are.

    Raises:
        InputError: no such directory, no certificate, or a file that cannot be read as what it should be.
    """
    certificate = read_certificate(run_dir)
    require_whole(run_dir / "metrics.jsonl")
    report = RunReport(files=RunFiles(folder=run_dir), sections=simulation_sections)
    path = run_dir / "report.html"
    path.write_text(report.finished_page(certificate), encoding="utf-8")
    return path


def simulation_sections(files: RunFiles, lines: Lines, statement: Statement | None) -> dict[str, Any]:
    """What a simulation adds to its report, finished or not.

    Not private: for simulations only.

    Args:
        files: of the run.
        lines: of its log.
        statement: what its certificate says; None: there is none yet.

    Raises:
        InputError: a file that cannot be read as what it should be.
    """
    record = read_run(files.folder, lines)
    epsilon = None if statement is None else statement.certificate.claim.epsilon
    run = _own_model(record, epsilon)
    validation = [name for entry in record.rounds for name in numeric_entries(entry.get("metrics"))]
    return {
        "columns": _columns(record.rounds),
        "facts": _facts(record, statement),
        "verdict": _verdict(run, record),
        "page": record.page,
        "metrics": metric_table(run, (*record.beside, *record.baselines)) if run.metrics else None,
        "definitions": definitions(run.metrics),
        "round_definitions": definitions(validation),
        "simplest": _simplest(record),
        "round_charts": metric_charts(record.rounds, record.baselines),
        "slice_charts": slice_charts(run, record.baselines, record.bucket_edges),
        "activity_charts": activity_charts(run, record.baselines, record.activity_edges),
        "configuration": configuration_table(record.config) if record.config else None,
    }


def metric_table(run: Model, others: Sequence[Model]) -> Table:
    """Metrics of the run and of others, one row a model, the run first and emphasised."""
    models = (run, *others)
    names = reading_order(name for model in models for name in model.metrics)
    return Table(
        headers=("Model", "Epsilon", *(f"{metric_label(name)}\u00a0{arrow(name)}" for name in names)),
        rows=tuple(
            (
                model.name,
                "none" if model.epsilon is None else setting(model.epsilon),
                *(fixed(model.metrics.get(name)) for name in names),
            )
            for model in models
        ),
        emphasised_rows=frozenset({0}),
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


def _columns(rounds: Sequence[JsonObject]) -> list[tuple[str, dict[int, str]]]:
    """Of the table of rounds: a metric's label, and its value after each round; then the bytes of a client."""
    found = {int(number_or_none(one.get("round")) or 0): one for one in rounds}
    metrics = {place: object_or_empty(one.get("metrics")) for place, one in found.items()}
    columns = [
        (metric_label(name), {place: fixed(number_or_none(of.get(name))) for place, of in metrics.items()})
        for name in reading_order(name for of in metrics.values() for name in of)
    ]
    up = {place: object_or_empty(one.get("bytes_up_per_client")) for place, one in found.items()}
    sizes = {
        "Sent by half of the clients at most": {place: of.get("p50") for place, of in up.items()},
        "Sent by a client at most": {place: of.get("max") for place, of in up.items()},
        "Received by a client": {place: one.get("bytes_down_per_client") for place, one in found.items()},
    }
    for label, by_place in sizes.items():
        known = {
            place: byte_count(size)
            for place, value in by_place.items()
            if (size := number_or_none(value)) is not None
        }
        columns += [(label, known)] if known else []
    return columns


def _own_model(record: RunRecord, epsilon: float | None) -> Model:
    """The run's final metrics, or those of its last round where it has none: nothing else is judged on those."""
    final = model_from_json("this run", record.final)
    last = numeric_entries(record.rounds[-1].get("metrics")) if record.rounds else {}
    return Model(
        name=final.name,
        epsilon=epsilon,
        metrics=final.metrics or last,
        sliced=final.sliced,
        by_activity=final.by_activity,
    )


def _verdict(run: Model, record: RunRecord) -> Verdict | None:
    return verdict_of(
        run.metrics,
        epsilon=run.epsilon or math.nan,
        floors={model.name: model.metrics for model in record.beside if model.floor},
        references={model.name: model.metrics for model in record.baselines},
    )


def _simplest(record: RunRecord) -> str:
    """What the first reference without privacy reaches, as something to hold each round's metrics against."""
    model = next((model for model in record.baselines if model.metrics), None)
    if model is None:
        return ""
    reached = [f"{metric_label(name)} {fixed(value)}" for name, value in model.metrics.items()]
    return f"{model.name} without privacy reaches {listing(reached)}"


def _facts(record: RunRecord, statement: Statement | None) -> list[tuple[str, str]]:
    """What ran, in a few lines: the configuration's main names, then what the certificate states."""
    flat = flatten(record.config)
    facts = []
    for label, keys in _FACTS.items():
        value = next((flat[key] for key in keys if flat.get(key) is not None), None)
        if value is not None:
            facts.append((label, str(value)))
    if record.rounds:
        facts.append(("Rounds", rounds_told([str(entry.get("stage", "–")) for entry in record.rounds])))
    seconds = number_or_none(record.final.get("seconds_total"))
    if seconds is not None:
        facts.append(("Time", duration(seconds)))
    if statement is None:
        return facts
    return [*facts, ("Releases", f"{len(statement.releases)}"), *statement.facts]


def _shortened(value: object) -> str:
    if value is None:
        return "–"
    text = setting(value) if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} … ({len(text)} characters)"
