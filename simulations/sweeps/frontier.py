"""Many runs as one page: how quality grows with epsilon. What ``fedboard sweep`` writes at its end."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fedboard.common.reports.charts import Chart, Line, Scale, chart
from fedboard.common.reports.wording import fixed, setting
from fedboard.server.operating.run_report import render
from fedboard.simulations.reports.wording import bucket_names, direction, metric_label
from fedboard.simulations.sweeps.frontier_data import (
    NOT_PRIVATE,
    Result,
    algorithms,
    best_at,
    caption,
    epsilons,
    markdown,
    mean_slices,
    metric_names,
    metric_rows,
    primary_metric,
    slice_rows,
    sliced_metric,
    summarise,
)


def write_frontier(results: Sequence[Result], out_dir: Path, *, metric: str | None = None) -> list[Path]:
    """Write frontier.md, frontier.json and frontier.html.

    Args:
        results: of all runs; at least one.
        out_dir: made if it is not there.
        metric: the one that is drawn, all are in the tables; None: test RMSE, else Recall@20, else the first.

    Returns:
        Paths of the three files.

    Raises:
        InputError: none has the metric.
    """
    chosen = metric or primary_metric(results)
    tables = _tables(results, chosen)
    page = render(
        "fedboard.simulations.reports:charts.html",
        live=False,
        command="fedboard sweep",
        title="Privacy-utility frontier",
        told=f"{len(results)} runs.",
        held_out=True,
        charts=_charts(results, chosen),
        tables=tables,
        note="* best with a guarantee at this epsilon.",
    )
    summary = [
        {"metric": name} | asdict(entry)
        for name in metric_names(results)
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
    """The metric against epsilon, and by popularity at each epsilon; none where nothing has a guarantee."""
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
    sliced = sliced_metric(results, metric)
    by_popularity = [] if sliced is None else [_slices(results, sliced, epsilon) for epsilon in places]
    return [
        replace(frontier, table=metric_rows(results, metric)),
        *(one for one in by_popularity if one is not None),
    ]


def _slices(results: Sequence[Result], metric: str, epsilon: float) -> Chart | None:
    """The metric from tail to head at one epsilon, those without a guarantee beside it."""
    own = mean_slices(results, metric, epsilon)
    if not own:
        return None
    shown = own | {name: row for name, row in mean_slices(results, metric, None).items() if name not in own}
    lines = [
        Line(name=name, points=[(float(k), value) for k, value in enumerate(row) if value is not None])
        for name, row in shown.items()
    ]
    return chart(
        [line for line in lines if line.points],
        slug=f"slices-{setting(epsilon)}",
        title=f"By item popularity at epsilon {setting(epsilon)}",
        reading=f"{metric_label(metric)} of as many items in each bucket, {direction(metric)}.",
        held_out=True,
        x=Scale(label="items by popularity", names=bucket_names([], max(map(len, shown.values())))),
        y=Scale(label=metric_label(metric)),
    )


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


def _tables(results: Sequence[Result], metric: str) -> list[tuple[str, Any]]:
    """(caption, table) of every metric, the chosen one first, then the slices."""
    names = [metric, *(name for name in metric_names(results) if name != metric)]
    tables = [(caption(results, name), metric_rows(results, name)) for name in names]
    sliced = sliced_metric(results, metric)
    if sliced is not None:
        label = f"{metric_label(sliced)} by item popularity, mean over the seeds; {NOT_PRIVATE}"
        tables.append((label, slice_rows(results, sliced)))
    return tables
