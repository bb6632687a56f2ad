"""The tables of a report that every run has, as finished text, and the chart of its budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.common.privacy.accounting.calibration import round_of_release
from fedboard.common.reports.charts import Chart, Line, Scale, chart
from fedboard.common.reports.json_values import number_or_none
from fedboard.common.reports.statement import ReleaseLine
from fedboard.common.reports.table import Table
from fedboard.common.reports.wording import duration, number, percent, setting, spent

_WORDS = {"lost": "lost, its budget is spent", "next": "next", "booked": "booked, its board is to come"}


def round_table(
    rounds: Sequence[tuple[int, tuple[Sequence[str], str]]],
    lines: Mapping[int, Mapping[str, Any]],
    columns: Sequence[tuple[str, Mapping[int, str]]],
    *,
    answers: bool,
    seconds: bool,
) -> Table | None:
    """Each round with the board it ends with, its state, and what is known of it; None where there is none.

    Args:
        rounds: number, names of its releases, state.
        lines: of the log, by number.
        columns: further ones, by number.
        answers: whether to say how many answered.
        seconds: whether to say how long it took.
    """
    if not rounds:
        return None
    heads = ["Round", "Board", "State", "Epsilon so far"]
    heads += ["Answers"] if answers else []
    heads += ["Time"] if seconds else []
    rows = []
    for place, (releases, state) in rounds:
        line = lines.get(place, {})
        epsilon = number_or_none(line.get("epsilon_spent"))
        stage = line.get("stage") or (round_of_release(releases[0]).replace("-", " ") if releases else "")
        row = [str(stage or f"round {place}"), str(place + 1), _WORDS.get(state, state)]
        row.append("–" if epsilon is None else spent(epsilon))
        row += [number(number_or_none(line.get("answers")))] if answers else []
        row += [duration(number_or_none(line.get("seconds")))] if seconds else []
        rows.append((*row, *(values.get(place, "–") for _, values in columns)))
    return Table(
        headers=(*heads, *(head for head, _ in columns)),
        rows=tuple(rows),
        text_columns=frozenset({0, 1, 2}),
        states=tuple(state for _, (_, state) in rounds),
    )


def release_table(
    releases: Sequence[ReleaseLine],
    costs: Sequence[tuple[float, bool] | None],
    booked: set[str] | None,
    *,
    most: int,
) -> Table:
    """Every release in order, with its part of the budget and the running epsilon.

    Args:
        releases: booked, certified or planned.
        costs: epsilon of each by itself, and whether that is exact; None: not computed.
        booked: names; the others are planned. None: all are certified.
        most: so many rows at most, the last ones.
    """
    total = sum(release.mu_squared or 0.0 for release in releases)
    planned = [booked is not None and release.name not in booked for release in releases]
    rows = [
        _release_row(release, cost, total, planned=is_planned)
        for release, cost, is_planned in zip(releases, costs, planned, strict=True)
    ]
    alone = any(cost is not None for cost in costs)
    heads = ("Release", "Sensitivity", "Noise", "z = noise / sensitivity", "Share of mu²")
    return Table(
        headers=(*heads, *(("Epsilon alone",) if alone else ()), "Epsilon so far"),
        rows=tuple((*row[:5], *(row[5:6] if alone else ()), row[6]) for row in rows[-most:]),
        states=tuple("planned" if is_planned else "booked-release" for is_planned in planned[-most:]),
    )


def _release_row(
    release: ReleaseLine, cost: tuple[float, bool] | None, total: float, *, planned: bool
) -> tuple[str, ...]:
    share = release.mu_squared / total if release.mu_squared is not None and total > 0 else None
    kind = [] if release.mechanism == "gaussian" else [release.mechanism]
    shape = [] if release.shape == "–" else [release.shape]
    covers = [release.covers] if release.covers else []
    notes = "; ".join([*(["planned"] if planned else []), *kind, *covers, *shape])
    cumulative = release.cumulative_epsilon
    return (
        f"{release.name}\n{notes}" if notes else release.name,
        number(release.sensitivity),
        number(release.noise),
        number(release.noise_multiplier),
        percent(share),
        "–" if cost is None else f"{'' if cost[1] else 'at most '}{spent(cost[0])}",
        "–" if cumulative is None else spent(cumulative),
    )


def epsilon_chart(releases: Sequence[ReleaseLine], claim: float) -> list[Chart]:
    """Epsilon after each release; none where it cannot be added up. A sampled round has one cost."""
    known = [
        (k, one.cumulative_epsilon) for k, one in enumerate(releases, 1) if one.cumulative_epsilon is not None
    ]
    total = sum(release.mu_squared or 0.0 for release in releases)
    if not known or not total or releases[-1].cumulative_epsilon is None:
        return []
    largest = max(releases, key=lambda release: release.mu_squared or 0.0)
    reading = (
        f"The largest part, {percent((largest.mu_squared or 0.0) / total)} of mu², is for {largest.name}; "
        f"all {len(releases)} releases together are epsilon {number(known[-1][1])} of {setting(claim)}."
    )
    lines = [
        Line(name="epsilon", points=[(0.0, 0.0), *((float(k), epsilon) for k, epsilon in known)]),
        Line(name=f"limit {setting(claim)}", points=[(0.0, claim)], level=True),
    ]
    return [
        chart(
            lines,
            slug="budget",
            title="Epsilon, release by release",
            reading=reading,
            held_out=False,
            x=Scale(label="release", whole=True),
            y=Scale(label="epsilon", zero=True),
        )
    ]
