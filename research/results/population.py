"""Write ``research/population.md`` from what ``python research/run.py population`` printed.

usage: python research/results/population.py                          # writes the page
       python research/results/population.py --check  # exit code 1 if it is not what would be written
       python research/results/population.py --take FOLDER...  # keeps what runs left in their --out, then writes

Kept are ``population/curve.json`` and ``population/statistics.json``, each the ``numbers.json`` of a run, and the
curve beside the page: of made-up people, and aggregates of a public data set.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "population", HERE.parent / "population.md"
TEMPLATE, FIGURE = KEPT / "page.md.tmpl", PAGE.with_name("population.svg")
SHOWN = (
    *("ratings of a user, mean", "0.5 quantile over the mean", "0.95 quantile over the mean"),
    *("most active over the mean", "ratings on the top 0.01", "ratings on the top 0.1"),
    *("ratings on the top 0.5", "users who rate the most popular"),
    *("1 stars", "2 stars", "3 stars", "4 stars", "5 stars"),
    *("deviation of the ratings", "deviation of items' means", "deviation of users' means"),
    *("item's mean and popularity, correlation", "user's mean and activity, correlation"),
    *("deviation of users' own scatter", "less item means", "less levels of users"),
    *("taste, direction 1", "taste, direction 4", "taste, direction 16"),
    *("company, direction 1", "company, direction 8"),
)
"""Statistics on the page; all are in the file."""
ALL_BELOW = 10**8
Rows = Mapping[str, Mapping[str, Any]]


def page() -> str:
    """The whole page."""
    curve, likeness = (
        json.loads((KEPT / f"{name}.json").read_text("utf-8")) for name in ("curve", "statistics")
    )
    settings = curve["settings"]
    return TEMPLATE.read_text("utf-8").format(
        gap=curve["comparison"].split(". Of that gap")[0].split("Without privacy, ")[1].rstrip("."),
        needed=table(curve["people needed"], "", str) if "people needed" in curve else "There is no gap yet.",
        curves="\n\n".join(
            f"**{name[0].upper()}{name[1:]}**\n\n{table(rows, 'people', four)}"
            for name, rows in curve.items()
            if name.startswith("test RMSE")
        ),
        most=f"{settings['people'][-1]}",
        per_person=_cost_of_ten_thousand(curve),
        seeds=max(settings["seeds"].values()),
        source=settings["source"],
        delta=f"{settings['delta']:g}",
        none=f"{settings['epsilons'][-1]:g}",
        judged=spaced(settings["judged at most"]),
        plan=_seeds(settings),
        ends=_ends(settings),
        cost=table(curve["CPU seconds of a run"], "people", lambda value: f"{value:.0f}"),
        beside=_beside(curve),
        missing=_missing(settings),
        few_none=four(curve["test RMSE, epsilon none"]["10,000"]["residual"]),
        few_means=four(curve["test RMSE, epsilon none"]["10,000"]["item means, own bias"]),
        few_five=four(curve["test RMSE, epsilon 5"]["10,000"]["residual"]),
        likeness_seeds=likeness["settings"]["seeds"],
        comparison=likeness["comparison"],
        models=table(likeness["test RMSE without privacy"], "test RMSE without privacy", four),
        statistics=table({name: likeness["statistics"][name] for name in SHOWN}, "all ratings", four),
    )


def _ends(settings: Mapping[str, Any]) -> str:
    """How far the runs go, and how to go on."""
    most = settings["people"][-1]
    ends = f"**The runs on this page end at {spaced(most)} people**"
    more = " (the same command goes on to 10^8, part by part, with a larger `--most-users` and `--resume`)"
    return ends + (more if most < ALL_BELOW else "")


def _seeds(settings: Mapping[str, Any]) -> str:
    """How many of them which numbers of people have."""
    people = dict[int, list[str]]()
    for users, seeds in settings["seeds"].items():
        people.setdefault(seeds, []).append(users.replace(",", " "))
    return "; ".join(
        f"{seeds} for {', '.join(of[:-1])}{' and ' if of[1:] else ''}{of[-1]} people"
        for seeds, of in people.items()
    )


def _missing(settings: Mapping[str, Any]) -> str:
    """Why some of the largest runs are not there."""
    if settings["people"][-1] < ALL_BELOW:
        return ""
    near = settings["settled within"]
    return (
        "Of 10^8 people only that is run whose noise still costs at 10^7: an epsilon whose error there is more\n"
        f"than {near:g} above that of epsilon none. AdaDPALS is not: it takes a dozen passes over everybody.\n"
    )


def _cost_of_ten_thousand(curve: Mapping[str, Any]) -> float:
    """CPU seconds of ``residual``, by the largest run."""
    runs = curve["CPU seconds of a run"]
    users = [users for users in curve["settings"]["people"] if "residual" in runs.get(f"{users:,}", {})][-1]
    return 10_000 / users * float(runs[f"{users:,}"]["residual"])


def _beside(curve: Mapping[str, Any]) -> str:
    """Data sets and people like theirs, a column each; nothing where none was run."""
    if "beside data" not in curve:
        return ""
    rows: Rows = curve["beside data"]
    names = dict.fromkeys(name for row in rows.values() for name in row)
    turned = {name: {label: row.get(name) for label, row in rows.items()} for name in names}
    what = (
        "With `--data ml-1m-x12.npz`, too: `data` is that set, `like` are as many people of as many items who\n"
        "rate as much; what there is to learn of either differs, so look at how the rows lie to each other."
    )
    return f"**Beside data.** {what}\n\n{table(turned, 'test RMSE', four)}\n\n"


def spaced(number: int) -> str:
    """A number with a space between thousands."""
    return f"{number:,}".replace(",", " ")


def four(value: float | None) -> str:
    """Four digits."""
    return "" if value is None else f"{value:.4g}"


def table(rows: Rows, corner: str, told: Callable[[Any], str]) -> str:
    """Rows by name, of columns by name, in Markdown."""
    head = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [[name, *(told(row[key]) if key in row else "" for key in head)] for name, row in rows.items()]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in [[corner, *head], ["---"] * (len(head) + 1), *lines]
    )


def take(folders: Sequence[Path]) -> None:
    """Keep what runs left."""
    for folder in folders:
        record = json.loads((folder / "numbers.json").read_text("utf-8"))
        kept = {name: value for name, value in record.items() if name not in ("seconds", "peak_mib")}
        (KEPT / f"{record['figure']}.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        if record["figure"] == "curve":
            shutil.copy(folder / "population-curve.svg", FIGURE)


def main() -> None:
    """Take, check or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", type=Path, nargs="+", default=[], metavar="FOLDER")
    asked = parser.parse_args()
    if asked.check:
        sys.exit(PAGE.read_text("utf-8") != page())
    take(asked.take)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
