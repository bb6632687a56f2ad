"""The numbers of a frontier as tables, for Markdown and for the page."""

from collections.abc import Sequence

from fedboard.common.reports.table import Table
from fedboard.common.reports.wording import fixed, setting
from fedboard.simulations.drawing.wording import direction, metric_label
from fedboard.simulations.sweeps.frontier_data import (
    Result,
    Summary,
    algorithms,
    best_at,
    epsilons,
    mean_slices,
    summarise,
)

NOT_PRIVATE = "not private: simulation only"


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


def slice_rows(results: Sequence[Result], metric: str) -> Table:
    """One row per algorithm and epsilon, one column per popularity bucket: mean over the seeds."""
    places: list[float | None] = [*epsilons(results), None]
    rows = [
        (
            algorithm,
            "non-private" if epsilon is None else setting(epsilon),
            *(fixed(value) for value in values),
        )
        for epsilon in places
        for algorithm, values in mean_slices(results, metric, epsilon).items()
    ]
    n_buckets = max((len(row) - 2 for row in rows), default=0)
    names = [f"{bucket}{_end(bucket, n_buckets)}" for bucket in range(n_buckets)]
    padded = tuple(row + ("–",) * (n_buckets + 2 - len(row)) for row in rows)
    return Table(headers=("Algorithm", "Epsilon", *names), rows=padded)


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


def _end(bucket: int, n_buckets: int) -> str:
    return " (tail)" if bucket == 0 else " (head)" if bucket == n_buckets - 1 else ""
