"""Many runs as one picture: how quality grows with epsilon. What ``fedboard sweep`` writes at its end."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fedboard.common.reports.charts import Chart
from fedboard.common.reports.wording import fixed, setting
from fedboard.server.operating.report.page import render
from fedboard.simulations.drawing.svg import finish, house_style, pictures
from fedboard.simulations.drawing.wording import metric_label
from fedboard.simulations.sweeps.frontier_data import (
    Result,
    best_at,
    epsilons,
    metric_names,
    primary_metric,
    read_results,
    sliced_metric,
    summarise,
)
from fedboard.simulations.sweeps.frontier_figures import frontier_figure
from fedboard.simulations.sweeps.frontier_tables import (
    NOT_PRIVATE,
    caption,
    markdown,
    metric_rows,
    slice_rows,
)


def frontier_table(results: Sequence[dict[str, Any]], *, metric: str | None = None) -> str:
    """Markdown table: a row per algorithm, a column per epsilon, mean ± standard deviation over the seeds.

    Args:
        results: one object per run: ``algorithm``, ``epsilon`` (None: trained without privacy), ``delta``,
            ``seed``, ``metrics`` {name: value}, ``sliced`` {name: [value per bucket]}.
        metric: which metric; None takes test RMSE, else Recall@20, else the first there is.

    Returns:
        Caption and table; the best private value of each column carries an asterisk.

    Raises:
        InputError: no results, or none with the metric.
    """
    read = read_results(results)
    chosen = metric or primary_metric(read)
    return f"{caption(read, chosen)}\n\n{markdown(metric_rows(read, chosen))}\n"


def write_frontier(
    results: Sequence[dict[str, Any]], out_dir: Path, *, metric: str | None = None
) -> list[Path]:
    """Write frontier.svg, frontier.png, frontier.md, frontier.json and frontier.html.

    Args:
        results: as in ``frontier_table``.
        out_dir: made if it is not there.
        metric: the metric that is drawn; all are in the tables.

    Returns:
        Paths of the five files.

    Raises:
        InputError: no results, or none with the metric.
    """
    read = read_results(results)
    chosen = metric or primary_metric(read)
    out_dir.mkdir(parents=True, exist_ok=True)
    with house_style():
        figure = frontier_figure(read, chosen)
        drawn = pictures(figure, out_dir / "frontier")
        plot = _plot(figure, read, chosen)
    texts = {
        "frontier.md": _markdown(read, chosen),
        "frontier.json": _json(results, read),
        "frontier.html": _page(plot, read, chosen),
    }
    for name, text in texts.items():
        (out_dir / name).write_text(text, encoding="utf-8")
    return [*drawn, *(out_dir / name for name in texts)]


def _plot(figure: Figure, results: Sequence[Result], metric: str) -> Chart:
    return finish(
        figure,
        slug="frontier",
        title=f"{metric_label(metric)} against epsilon",
        reading=_reading(results, metric),
        held_out=True,
        table=metric_rows(results, metric),
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


def _markdown(results: Sequence[Result], metric: str) -> str:
    parts = [f"{label}\n\n{markdown(table)}\n" for label, table in _tables(results, metric)]
    return (
        "# Privacy-utility frontier\n\n" + "\n".join(parts) + "\n\\* best with a guarantee at this epsilon\n"
    )


def _json(results: Sequence[dict[str, Any]], read: Sequence[Result]) -> str:
    summary = [
        {"metric": name} | asdict(entry) for name in metric_names(read) for entry in summarise(read, name)
    ]
    return json.dumps({"results": list(results), "summary": summary}, indent=2) + "\n"


def _page(plot: Chart, results: Sequence[Result], metric: str) -> str:
    return render(
        "fedboard.simulations.drawing:frontier.html",
        live=False,
        plot=plot,
        tables=_tables(results, metric),
        n_runs=len(results),
    )
