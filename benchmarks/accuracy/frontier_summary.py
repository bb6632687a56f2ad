"""What the runs of the frontier benchmark say together: means, spreads, one table, one plot."""

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accuracy.frontier_cells import Measured, promised
from accuracy.frontier_plan import Plan
from fedboard.common.privacy.ledger.durable import settle
from fedboard.common.reports.table import Table
from fedboard.common.reports.wording import duration
from fedboard.simulations.drawing.wording import direction, metric_label
from fedboard.simulations.sweeps.frontier_data import (
    NOT_PRIVATE,
    Result,
    markdown,
    metric_rows,
    read_results,
    slice_rows,
)
from fedboard.simulations.sweeps.frontier_figures import draw_frontier, series_styles
from fedboard.simulations.tuning.software import software, source_digest
from research.shared.drawing import house_style, new_figure

METRICS = {"explicit": ("rmse", "test_rmse", "test_rmse"), "implicit": ("recall20", "recall@20", "recall")}
"""Feedback -> (key in the JSON, name of the metric, name of the metric by popularity)."""


def summary(
    plan: Plan, measured: Sequence[Measured], out: Path, *, cpu: float, wall: float
) -> dict[str, Any]:
    """The JSON object of the benchmark."""
    of_data = {
        data.name: _of_data([outcome for outcome in measured if outcome.run.data == data.name], out)
        for data in plan.data
    }
    first = of_data[plan.data[0].name]
    failed = {_name(outcome): outcome.error for outcome in measured if outcome.error is not None}
    return {
        **first,
        **({"data": of_data} if len(of_data) > 1 else {}),
        "cpu_seconds": cpu,
        "cpu_seconds_with_kept_runs": sum(outcome.cpu_seconds for outcome in measured),
        "wall_seconds": wall,
        "failed": failed,
        "asked": _asked(plan),
        "versions": _versions(),
    }


def _of_data(measured: Sequence[Measured], out: Path) -> dict[str, Any]:
    done = [outcome for outcome in measured if outcome.final is not None]
    private = [outcome for outcome in done if outcome.run.epsilon is not None]
    found: dict[str, Any] = {}
    for feedback, (key, metric, sliced) in METRICS.items():
        own = [outcome for outcome in private if outcome.run.feedback == feedback]
        if any(outcome.run.feedback == feedback for outcome in done):
            found[key] = _nested(own, partial(_mean, metric))
            found[f"{key}_std"] = _nested(own, partial(_spread, metric))
            found[f"{key}_by_popularity"] = _nested(own, partial(_mean_slices, sliced))
            found[f"cpu_seconds_per_run_{feedback}"] = _nested(
                own, lambda group: statistics.fmean(outcome.cpu_seconds for outcome in group)
            )
            found[f"promise_{feedback}"] = _nested(own, lambda group: promised(group[0], out))
    found["seeds"] = _nested(private, lambda group: sorted({o.run.cell.config.seed for o in group}))
    found["references"] = _references([outcome for outcome in done if outcome.run.epsilon is None])
    return found


def _nested(
    measured: Iterable[Measured], make: Callable[[Sequence[Measured]], Any]
) -> dict[str, dict[str, Any]]:
    """Algorithm -> epsilon as given -> what ``make`` says of its runs."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for outcome in measured:
        groups.setdefault((outcome.run.variant, outcome.run.epsilon or ""), []).append(outcome)
    nested: dict[str, dict[str, Any]] = {}
    for (variant, epsilon), group in groups.items():
        nested.setdefault(variant, {})[epsilon] = make(group)
    return nested


def _references(measured: Sequence[Measured]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for outcome in measured:
        key, metric, sliced = METRICS[outcome.run.feedback]
        found.setdefault(key, {})[outcome.run.variant] = _values([outcome], metric)[0]
        by_popularity = found.setdefault(f"{key}_by_popularity", {})
        by_popularity[outcome.run.variant] = _mean_slices(sliced, [outcome])
    return found


def _values(group: Sequence[Measured], metric: str) -> list[float]:
    return [outcome.final["metrics"][metric] for outcome in group if outcome.final is not None]


def _mean(metric: str, group: Sequence[Measured]) -> float:
    return statistics.fmean(_values(group, metric))


def _spread(metric: str, group: Sequence[Measured]) -> float | None:
    return statistics.stdev(_values(group, metric)) if len(group) > 1 else None


def _mean_slices(sliced: str, group: Sequence[Measured]) -> list[float | None]:
    rows = [outcome.final["sliced"][sliced] for outcome in group if outcome.final is not None]
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [statistics.fmean(column) if column else None for column in columns]


def _asked(plan: Plan) -> dict[str, Any]:
    return {
        "data": {data.name: {"feedback": list(data.feedbacks)} for data in plan.data},
        "variants": {
            variant.name: {"algorithm": variant.algorithm, "changes": dict(variant.changes)}
            | {"at": {f"{epsilon:g}": dict(changes) for epsilon, changes in variant.at.items()}}
            | {"assignments": list(variant.assignments)}
            for variant in plan.variants
        },
        "epsilon": list(plan.epsilons),
        "seeds": list(plan.seeds),
        "set": list(plan.assignments),
    }


def _versions() -> dict[str, Any]:
    packages = ("numpy", "scipy", "numba")
    return {
        "software": software(),
        "source": source_digest(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def results_of(measured: Sequence[Measured], feedback: str) -> list[dict[str, Any]]:
    """The runs as ``write_frontier`` takes them."""
    return [
        {
            "algorithm": outcome.run.variant,
            "epsilon": None if outcome.run.epsilon is None else float(outcome.run.epsilon),
            "delta": None if outcome.run.epsilon is None else outcome.run.cell.config.privacy.delta,
            "seed": outcome.run.cell.config.seed,
            "metrics": outcome.final["metrics"],
            "sliced": outcome.final.get("sliced", {}),
        }
        for outcome in measured
        if outcome.final is not None and outcome.run.feedback == feedback
    ]


def panels(plan: Plan, measured: Sequence[Measured]) -> list[tuple[str, str, list[Result]]]:
    """(data, feedback, results) of everything that gave any."""
    found = []
    for data in plan.data:
        own = [outcome for outcome in measured if outcome.run.data == data.name]
        for feedback in data.feedbacks:
            results = results_of(own, feedback)
            if results:
                found.append((data.name, feedback, read_results(results)))
    return found


def table(plan: Plan, measured: Sequence[Measured], *, cpu: float, wall: float) -> str:
    """One table with means and spreads, one by popularity, what it cost; Markdown."""
    shown = panels(plan, measured)
    kept = sum(outcome.kept for outcome in measured)
    parts = [
        "# Accuracy against epsilon",
        f"Mean ± standard deviation over seeds {_listed(plan.seeds)}; \\* best with a guarantee; {NOT_PRIVATE}.",
        markdown(_merged([_with_place(*panel) for panel in shown])),
        "## By item popularity, tail to head, mean over the seeds",
        markdown(_merged([_slices_with_place(*panel) for panel in shown])),
        f"{len(measured)} runs ({kept} of them from before), {duration(cpu)} of CPU time in "
        f"{duration(wall)}; {software()}, source {source_digest()}.",
    ]
    failed = [f"- {_name(outcome)}: {outcome.error}" for outcome in measured if outcome.error is not None]
    return "\n\n".join([*parts, *(["Failed:\n" + "\n".join(failed)] if failed else [])]) + "\n"


def _with_place(data: str, feedback: str, results: Sequence[Result]) -> Table:
    metric = METRICS[feedback][1]
    rows = metric_rows(results, metric)
    return _placed(rows, data, f"{metric_label(metric)}, {direction(metric)}")


def _slices_with_place(data: str, feedback: str, results: Sequence[Result]) -> Table:
    sliced = METRICS[feedback][2]
    return _placed(slice_rows(results, sliced), data, metric_label(sliced))


def _placed(rows: Table, data: str, metric: str) -> Table:
    return Table(
        headers=("Data", "Metric", *rows.headers), rows=tuple((data, metric, *row) for row in rows.rows)
    )


def _merged(tables: Sequence[Table]) -> Table:
    """One under the other; a column that a table lacks is a dash."""
    headers = list(dict.fromkeys(name for part in tables for name in part.headers))
    rows = []
    for part in tables:
        for row in part.rows:
            cells = dict(zip(part.headers, row, strict=True))
            rows.append(tuple(cells.get(name, "–") for name in headers))
    return Table(headers=tuple(headers), rows=tuple(rows))


def plot(plan: Plan, measured: Sequence[Measured], paths: Sequence[Path]) -> None:
    """A panel per data set and metric, with the models without privacy as lines."""
    shown = panels(plan, measured)
    styles = series_styles([result for _, _, results in shown for result in results])
    n_columns = min(2, len(shown))
    with house_style():
        figure = new_figure(6.6 * n_columns, 4.2 * math.ceil(len(shown) / n_columns))
        grid = figure.add_gridspec(math.ceil(len(shown) / n_columns), n_columns)
        for place, (data, feedback, results) in enumerate(shown):
            axes = figure.add_subplot(grid[divmod(place, n_columns)])
            metric = METRICS[feedback][1]
            draw_frontier(axes, results, metric, styles)
            axes.set_title(f"{data}: {metric_label(metric)}, {direction(metric)}")
        settle(figure)
        for path in paths:
            figure.savefig(path, facecolor="white", dpi=160, metadata=_undated(path))


def _undated(path: Path) -> dict[str, None] | None:
    return {"Date": None} if path.suffix == ".svg" else None


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _name(outcome: Measured) -> str:
    return f"{outcome.run.data} {outcome.run.feedback} {outcome.run.cell.name}"


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
