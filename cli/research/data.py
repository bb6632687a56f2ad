"""``fedboard data``: what is in a data set, for its owner; and its users in cohorts, for gateways."""

from pathlib import Path
from typing import Any

import click

from fedboard.cli.columns import COLUMNS, column_mapping
from fedboard.cli.research.configuration import format_option, parse_range
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.style.groups import Commands
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError


@click.group(cls=Commands)
def data() -> None:
    """Look at data sets, cut them for gateways."""


@data.command(epilog="Example: fedboard data info ml-1m.zip")
@click.argument("path")
@format_option
@COLUMNS
@click.option("--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables.")
@click.option("--titles", metavar="FILE", help="Item titles.")
@click.option("--times", is_flag=True, help="Tell also when they were given.")
@JSON
def info(
    path: str,
    data_format: str | None,
    columns: str | None,
    rating_range: str | None,
    titles: str | None,
    times: bool,
    as_json: bool,
) -> None:
    """Print size, density and skew of the ratings at PATH (or `synthetic`).

    Exact statistics of the raw data: for its owner, not for publication.
    """
    from fedboard.simulations.datasets import describe, find_data, load_ratings

    ratings = load_ratings(
        find_data(path),
        format=data_format,
        columns=column_mapping(columns),
        rating_range=None if rating_range is None else parse_range(rating_range),
        titles=titles,
        times=times,
    )
    facts = describe(ratings)
    document(facts) if as_json else click.echo(_text(facts))


@data.command()
@JSON
def formats(as_json: bool) -> None:
    """List the formats of ratings that can be read."""
    from fedboard.simulations.datasets.readers import READERS

    if as_json:
        known = [
            {"name": reader.name, "what": reader.what, "rating_range": reader.rating_range}
            for reader in READERS
        ]
        document({"formats": known})
        return
    rows = [(reader.name, reader.what.replace("`", ""), _scale(reader.rating_range)) for reader in READERS]
    click.echo(aligned(("format", "what", "ratings"), rows))


def _scale(rating_range: tuple[float, float] | None) -> str:
    return "--rating-range" if rating_range is None else "{:g} to {:g}".format(*rating_range)


@data.command(epilog="Example: fedboard data cohort ml-1m.zip gateway-a/cohort --users 0:3000")
@click.argument("path")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--users", metavar="FIRST:LAST", default=":", help="Which users, counted from 0; LAST is not one."
)
@format_option
@COLUMNS
@click.option("--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables.")
def cohort(
    path: str,
    folder: Path,
    users: str,
    data_format: str | None,
    columns: str | None,
    rating_range: str | None,
) -> None:
    """Write the ratings of many users from PATH to FOLDER, for the gateway that hosts them.

    A device's configuration names the folder: `[ratings] cohort = "FOLDER"`. It holds raw ratings and is
    readable by its owner alone.
    """
    from fedboard.client.ratings.cohort_file import write_cohort
    from fedboard.simulations.datasets import find_data, load_ratings

    if (folder / "cohort.json").exists():
        raise InputError(f"{folder}: there is a cohort already; delete that folder, or choose another one")
    scale = None if rating_range is None else parse_range(rating_range)
    ratings = load_ratings(
        find_data(path), format=data_format, columns=column_mapping(columns), rating_range=scale
    )
    first, last = _slice(users, ratings.n_users)
    rows = ratings.cohort().rows(first, last)
    write_cohort(folder, rows, tuple(ratings.item_ids.tolist()))
    click.echo(f"{last - first:,} users with {rows.n_ratings:,} ratings in {folder}")


def _slice(text: str, n_users: int) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        bounds = (int(first or 0), int(last or n_users))
    except ValueError:
        bounds = (0, 0)
    if not colon or not 0 <= bounds[0] < bounds[1] <= n_users:
        raise InputError(f"--users must be FIRST:LAST with 0 <= FIRST < LAST <= {n_users}, got {text!r}")
    return bounds


def _text(facts: dict[str, Any]) -> str:
    low, high = facts["rating_range"]
    per_user, per_item = facts["ratings_per_user"], facts["ratings_per_item"]
    rows = [
        ("users", f"{facts['users']:,}"),
        ("items", f"{facts['items']:,}" + (" with titles" if facts["has_titles"] else "")),
        ("ratings", f"{facts['ratings']:,} from {low:g} to {high:g}, {facts['density']:.2%} of all pairs"),
        ("its own test part", f"{facts['test_ratings']:,} ratings" if facts["has_own_test"] else "none"),
        ("ratings per user", _spread(per_user)),
        ("ratings per item", _spread(per_item)),
        ("most rated 10 % of items", f"{facts['share_of_top_items']:.1%} of the ratings"),
    ]
    rows += [("given by", _dates(facts["times"]))] if "times" in facts else []
    bars = aligned(
        ("rating", "count"), [(f"{value:g}", f"{count:,}") for value, count in facts["values"]], right=(0, 1)
    )
    return f"{facts['name']}\n{aligned(('', ''), rows)}\n\n{bars}\n\nNote: {facts['note']}."


def _dates(times: dict[str, int]) -> str:
    from fedboard.simulations.datasets.splits.times import date_of

    return ", ".join(f"{date_of(when)} ({share})" for share, when in times.items())


def _spread(spread: dict[str, float]) -> str:
    return f"median {spread['median']:g}, mean {spread['mean']:.1f}, 95 % at most {spread['p95']:g}"
