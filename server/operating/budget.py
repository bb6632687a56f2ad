"""What a ledger says of a run's budget, and the tables and the chart of it that every run has.

What is spent, what is left, and each release's share; tables are finished text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedboard.common.privacy.accounting.budget import planned_event
from fedboard.common.privacy.accounting.calibration import round_of_release
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.accounting.grouping import mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.reports.charts import Chart, Line, Scale, chart
from fedboard.common.reports.statement import ReleaseLine
from fedboard.common.reports.wording import Table, duration, number, number_or_none, percent, setting, spent

Rounds = Sequence[Sequence[str]]
"""Names of the releases of each round, in the order of the rounds. Public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A ledger as it was read. Public, all of it."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    plan: Mapping[str, Any]
    events: tuple[dict[str, Any], ...]
    spent: float | None
    """Epsilon; None where loss distributions would have to be composed: the run did it, and its log says so."""

    @staticmethod
    def of(ledger: Ledger) -> "Booked":
        """From a ledger that is open."""
        budget, events = ledger.budget, tuple(ledger.events())
        exact = not events or mechanisms_of(events).is_gaussian
        spent = (epsilon_of_events(events, budget.delta) if events else 0.0) if exact else None
        return Booked(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            plan=dict(ledger.plan or {}),
            events=events,
            spent=spent,
        )

    @property
    def names(self) -> set[str]:
        """Of what is booked."""
        return {str(event["name"]) for event in self.events}

    def in_order(self, rounds: Rounds) -> list[dict[str, Any]]:
        """What was and will be released, in the order of the rounds; the plan's own events for what is to come."""
        events = {str(event["name"]): event for event in self.events}
        order = [name for names in rounds for name in names] or [*events, *(set(self.plan) - set(events))]
        return [events.get(n) or self.planned(n) for n in order if n in events or n in self.plan]

    def planned(self, name: str) -> dict[str, Any]:
        """As it will be booked."""
        return planned_event(name, self.plan[name], self.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Of one budget; natural-log units, at its delta."""

    name: str
    epsilon: float
    delta: float
    spent: float
    reserved: float = 0.0
    """For other runs that are under way."""

    @property
    def left(self) -> float:
        """What is not spent."""
        return max(self.epsilon - self.spent, 0.0)


def next_round(booked: Booked, rounds: Rounds) -> Sequence[str]:
    """Names of the releases of the first round of which none is booked; empty where all are."""
    names = booked.names
    return next((of_round for of_round in rounds if not names & set(of_round)), ())


_WORDS = {"lost": "lost, its budget is spent", "next": "next", "booked": "booked, its board is to come"}


def round_table(
    rounds: Sequence[tuple[int, tuple[Sequence[str], str]]],
    lines: Mapping[int, Mapping[str, Any]],
    columns: Sequence[tuple[str, Mapping[int, str]]],
    *,
    seconds: bool,
) -> Table | None:
    """Each round with the board it ends with, its state, and what is known of it; None where there is none.

    Args:
        rounds: number, names of its releases, state.
        lines: of the log, by number.
        columns: further ones, by number.
        seconds: whether to say how long it took.
    """
    if not rounds:
        return None
    heads = ["Round", "Board", "State", "Epsilon so far"]
    heads += ["Time"] if seconds else []
    rows = []
    for place, (releases, state) in rounds:
        line = lines.get(place, {})
        epsilon = number_or_none(line.get("epsilon_spent"))
        stage = line.get("stage") or (round_of_release(releases[0]).replace("-", " ") if releases else "")
        row = [str(stage or f"round {place}"), str(place + 1), _WORDS.get(state, state)]
        row.append("–" if epsilon is None else spent(epsilon))
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
    booked: set[str] | None,
    *,
    most: int,
) -> Table:
    """Every release in order, with its part of the budget and the running epsilon.

    Args:
        releases: booked, certified or planned.
        booked: names; the others are planned. None: all are certified.
        most: so many rows at most, the last ones.
    """
    total = sum(release.mu_squared or 0.0 for release in releases)
    planned = [booked is not None and release.name not in booked for release in releases]
    rows = [
        _release_row(release, total, planned=is_planned)
        for release, is_planned in zip(releases, planned, strict=True)
    ]
    heads = ("Release", "Sensitivity", "Noise", "z = noise / sensitivity", "Share of mu²", "Epsilon so far")
    return Table(
        headers=heads,
        rows=tuple(rows[-most:]),
        states=tuple("planned" if is_planned else "booked-release" for is_planned in planned[-most:]),
    )


def _release_row(release: ReleaseLine, total: float, *, planned: bool) -> tuple[str, ...]:
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
