"""The report of one run: one HTML file that needs nothing else."""

import math
from pathlib import Path

from fedboard.simulations.drawing.figures import Plot
from fedboard.simulations.drawing.json_values import number_or_none, numeric_entries
from fedboard.simulations.drawing.rendering import render
from fedboard.simulations.drawing.svg import house_style
from fedboard.simulations.drawing.wording import definitions, duration, fixed, listing, metric_label
from fedboard.simulations.judging.verdict import Verdict, verdict_of
from fedboard.simulations.report.distribution_figures import distribution_plots
from fedboard.simulations.report.guarantee import Statement, read_statement
from fedboard.simulations.report.head_and_tail import activity_plots, slice_plots
from fedboard.simulations.report.privacy_figures import budget_plot
from fedboard.simulations.report.round_figures import bytes_plot, metric_plot
from fedboard.simulations.report.run_files import Model, RunRecord, model_from_json, read_run
from fedboard.simulations.report.tables import (
    configuration_table,
    flatten,
    metric_table,
    release_table,
    round_table,
)
from fedboard.simulations.runs.round_names import rounds_told

_FACTS = {
    "Algorithm": ("algorithm", "task.name", "task"),
    "Feedback": ("feedback",),
    "Source": ("data.source", "data", "dataset.source", "dataset"),
    "Split": ("split.kind",),
    "Seed": ("seed",),
}


def write_report(run_dir: Path) -> Path:
    """Write ``report.html`` into a run directory from the files that are there.

    Args:
        run_dir: holds at least certificate.json; config.json, metrics.jsonl, baselines.json and
            distributions.json add their sections where they exist.

    Returns:
        Path of the report. It quotes held-out metrics, so it is no more public than they are.

    Raises:
        InputError: no such directory, no certificate, or a file that cannot be read as what it should be.
    """
    record = read_run(run_dir)
    statement = read_statement(record.certificate)
    run = _own_model(record, statement)
    page = render("report.html", **_sections(record, statement, run))
    path = run_dir / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _sections(record: RunRecord, statement: Statement, run: Model) -> dict[str, object]:
    with house_style():
        rounds, budget, traffic = metric_plot(record), budget_plot(statement), bytes_plot(record)
        slices = slice_plots(run, record.baselines, record.bucket_edges)
        activity = activity_plots(run, record.baselines, record.activity_edges)
        distributions = distribution_plots(record.distributions)
    return {
        "run_name": record.name,
        "statement": statement,
        "facts": _facts(record, statement),
        "verdict": _verdict(run, record),
        "page": record.page,
        "metrics": metric_table(run, (*record.beside, *record.baselines)) if run.metrics else None,
        "definitions": definitions(run.metrics),
        "round_definitions": definitions(_validation_metrics(record)),
        "simplest": _simplest(record),
        "round_plots": _present(rounds),
        "slice_plots": slices,
        "activity_plots": activity,
        "budget_plots": _present(budget),
        "distribution_plots": distributions,
        "byte_plots": _present(traffic),
        "releases": release_table(statement.releases) if statement.releases else None,
        "rounds": round_table(record.rounds) if record.rounds else None,
        "configuration": configuration_table(record.config) if record.config else None,
    }


def _own_model(record: RunRecord, statement: Statement) -> Model:
    """The run's final metrics, or those of its last round where it has none: nothing else is judged on those."""
    final = model_from_json("this run", record.final)
    last = numeric_entries(record.rounds[-1].get("metrics")) if record.rounds else {}
    return Model(
        name=final.name,
        epsilon=statement.epsilon,
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


def _validation_metrics(record: RunRecord) -> list[str]:
    return [name for entry in record.rounds for name in numeric_entries(entry.get("metrics"))]


def _simplest(record: RunRecord) -> str:
    """What the first reference without privacy reaches, as something to hold each round's metrics against."""
    model = next((model for model in record.baselines if model.metrics), None)
    if model is None:
        return ""
    reached = [f"{metric_label(name)} {fixed(value)}" for name, value in model.metrics.items()]
    return f"{model.name} without privacy reaches {listing(reached)}"


def _present(plot: Plot | None) -> list[Plot]:
    return [] if plot is None else [plot]


def _facts(record: RunRecord, statement: Statement) -> list[tuple[str, str]]:
    """What ran, in a few lines: the configuration's main names, then what the certificate states."""
    flat = flatten(record.config)
    facts = []
    for label, keys in _FACTS.items():
        value = next((flat[key] for key in keys if flat.get(key) is not None), None)
        if value is not None:
            facts.append((label, str(value)))
    if record.rounds:
        facts.append(("Rounds", rounds_told([str(entry.get("stage", "–")) for entry in record.rounds])))
    facts.append(("Releases", f"{len(statement.releases)}"))
    seconds = number_or_none(record.final.get("seconds_total"))
    if seconds is not None:
        facts.append(("Time", duration(seconds)))
    return facts + list(statement.facts)
