"""Many runs as one page: how quality grows with epsilon. What ``fedboard sweep`` writes at its end."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fedboard.common.reports.charts import Chart, Line, Scale, chart
from fedboard.common.reports.wording import Table, fixed, setting
from fedboard.server.operating.run_report import render
from fedboard.simulations.evaluation.metrics.registry import main_metrics
from fedboard.simulations.reports.wording import (
    direction,
    lower_is_better,
    metric_label,
    reading_order,
)

NOT_PRIVATE = "not private: simulation only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run of a sweep. Its metrics are not private: simulation only."""

    algorithm: str
    epsilon: float | None
    """None for a model trained without privacy."""
    delta: float | None
    seed: int
    fold: int | None = None
    """None where there are none."""
    metrics: dict[str, float]
    sliced: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric name -> value per popularity bucket, tail to head; kept, not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One algorithm at one epsilon."""

    algorithm: str
    epsilon: float | None
    mean: float
    spread: float | None
    """Standard deviation over the seeds and folds (n - 1); None for a single run."""
    n_seeds: int


def metric_names(results: Sequence[Result]) -> list[str]:
    """All metrics that any result has, the one that decides first."""
    names = reading_order(name for result in results for name in result.metrics)
    chosen = next((name for name in main_metrics("test") if name in names), names[0])
    return [chosen, *(name for name in names if name != chosen)]


def algorithms(results: Sequence[Result]) -> list[str]:
    """Algorithms in order of appearance, those with a guarantee first."""
    private = [result.algorithm for result in results if result.epsilon is not None]
    return list(dict.fromkeys([*private, *(result.algorithm for result in results)]))


def epsilons(results: Sequence[Result]) -> list[float]:
    """All epsilons of the sweep, ascending."""
    return sorted({result.epsilon for result in results if result.epsilon is not None})


def summarise(results: Sequence[Result], metric: str) -> list[Summary]:
    """Mean and spread of a metric per algorithm and epsilon; without those that lack the metric."""
    values: dict[tuple[str, float | None], list[float]] = {}
    for result in results:
        if metric in result.metrics:
            values.setdefault((result.algorithm, result.epsilon), []).append(result.metrics[metric])
    return [
        Summary(
            algorithm=algorithm,
            epsilon=epsilon,
            mean=statistics.fmean(group),
            spread=statistics.stdev(group) if len(group) > 1 else None,
            n_seeds=len(group),
        )
        for (algorithm, epsilon), group in values.items()
    ]


def best_at(summaries: Sequence[Summary], metric: str, epsilon: float | None) -> Summary | None:
    """The best summary at that epsilon; None where there is none."""
    there = [summary for summary in summaries if summary.epsilon == epsilon]
    choose = min if lower_is_better(metric) else max
    return choose(there, key=lambda summary: summary.mean) if there else None


def metric_rows(results: Sequence[Result], metric: str) -> Table:
    """One row an algorithm, one column an epsilon: mean ± spread over the seeds.

    The best value with a guarantee is marked with an asterisk in each column.
    """
    summaries = summarise(results, metric)
    columns: list[float | None] = [*epsilons(results)]
    if any(summary.epsilon is None for summary in summaries):
        columns.append(None)
    named = {(summary.algorithm, summary.epsilon): summary for summary in summaries}
    best: dict[float | None, Summary | None] = {
        epsilon: best_at(summaries, metric, epsilon) for epsilon in columns if epsilon is not None
    }
    present = {summary.algorithm for summary in summaries}
    rows = tuple(
        (name, *(_cell(named.get((name, epsilon)), best.get(epsilon)) for epsilon in columns))
        for name in algorithms(results)
        if name in present
    )
    return Table(headers=("Algorithm", *(_heading(epsilon) for epsilon in columns)), rows=rows)


def caption(results: Sequence[Result], metric: str) -> str:
    """What a table or figure of this metric shows, in one line."""
    seeds = len({result.seed for result in results})
    deltas = sorted({result.delta for result in results if result.delta is not None})
    at_delta = f"; delta {', '.join(setting(delta) for delta in deltas)}" if deltas else ""
    folds = len({result.fold for result in results})
    named = [f"{count} {what}" for count, what in ((seeds, "seeds"), (folds, "folds")) if count > 1]
    over = f"mean ± standard deviation over up to {' and '.join(named)}" if named else "one seed"
    return f"{metric_label(metric)}, {direction(metric)}; {over}{at_delta}; {NOT_PRIVATE}"


def markdown(table: Table) -> str:
    """The table in Markdown; the first column is text, the others are set to the right."""
    lines = [table.headers, ("---", *("---:" for _ in table.headers[1:])), *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _heading(epsilon: float | None) -> str:
    return "non-private" if epsilon is None else f"epsilon {setting(epsilon)}"


def _cell(summary: Summary | None, best: Summary | None) -> str:
    if summary is None:
        return "–"
    spread = "" if summary.spread is None else f" ± {summary.spread:.4f}"
    return f"{fixed(summary.mean)}{spread}{' *' if summary is best else ''}"


def write_frontier(results: Sequence[Result], out_dir: Path) -> list[Path]:
    """Write frontier.md, frontier.json and frontier.html.

    Args:
        results: of all runs, each with metrics; at least one. The metric that decides is drawn, all are tabled.
        out_dir: made if it is not there.

    Returns:
        Paths of the three files.
    """
    names = metric_names(results)
    tables = [(caption(results, name), metric_rows(results, name)) for name in names]
    page = render(
        "fedboard.simulations.reports:charts.html",
        live=False,
        command="fedboard sweep",
        title="Privacy-utility frontier",
        told=f"{len(results)} runs.",
        held_out=True,
        charts=_charts(results, names[0]),
        tables=tables,
        note="* best with a guarantee at this epsilon.",
    )
    summary = [
        {"metric": name} | asdict(entry)
        for name in reading_order(names)
        for entry in summarise(results, name)
    ]
    parts = "\n".join(f"{label}\n\n{markdown(table)}\n" for label, table in tables)
    texts = {
        "frontier.md": f"# Privacy-utility frontier\n\n{parts}\n\\* best with a guarantee at this epsilon\n",
        "frontier.json": json.dumps(
            {"results": [asdict(one) for one in results], "summary": summary}, indent=2
        )
        + "\n",
        "frontier.html": page,
    }
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out_dir / name).write_text(text, encoding="utf-8")
    return [out_dir / name for name in texts]


def _charts(results: Sequence[Result], metric: str) -> list[Chart]:
    """The metric against epsilon; none where nothing has a guarantee."""
    places = epsilons(results)
    if not places:
        return []
    summaries = summarise(results, metric)
    lines = [
        Line(name=name, points=points)
        for name in algorithms(results)
        if (
            points := [
                (float(place), one.mean)
                for place, epsilon in enumerate(places)
                for one in summaries
                if (one.algorithm, one.epsilon) == (name, epsilon)
            ]
        )
    ]
    lines += [
        Line(name=f"{one.algorithm} (non-private)", points=[(0.0, one.mean)], level=True)
        for one in summaries
        if one.epsilon is None
    ]
    frontier = chart(
        lines,
        slug="frontier",
        title=f"{metric_label(metric)} against epsilon",
        reading=_reading(results, metric),
        held_out=True,
        x=Scale(label="epsilon, smaller is more private", names=[setting(epsilon) for epsilon in places]),
        y=Scale(label=f"{metric_label(metric)}, {direction(metric)}"),
    )
    return [replace(frontier, table=metric_rows(results, metric))]


def _reading(results: Sequence[Result], metric: str) -> str:
    summaries = summarise(results, metric)
    parts = []
    for epsilon in epsilons(results):
        best = best_at(summaries, metric, epsilon)
        if best is not None:
            parts.append(f"at epsilon {setting(epsilon)} {best.algorithm} is best with {fixed(best.mean)}")
    reference = best_at(summaries, metric, None)
    if reference is not None:
        parts.append(f"without privacy {reference.algorithm} reaches {fixed(reference.mean)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
