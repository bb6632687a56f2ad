"""``fedboard data``: what is in a data set, for its owner."""

import json
from typing import Any

import click

from fedboard.cli.configuration import parse_range
from fedboard.cli.tables import aligned


@click.group()
def data() -> None:
    """Look at data sets."""


@data.command(epilog="Example: fedboard data info ml-1m.zip")
@click.argument("path")
@click.option("--format", "data_format", metavar="NAME", help="Format, where it is not recognised.")
@click.option("--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables.")
@click.option("--titles", metavar="FILE", help="Item titles.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def info(
    path: str, data_format: str | None, rating_range: str | None, titles: str | None, as_json: bool
) -> None:
    """Print size, density and skew of the ratings at PATH (or `synthetic`).

    Exact statistics of the raw data: for its owner, not for publication.
    """
    from fedboard.simulations.datasets import describe, find_data, load_ratings

    scale = None if rating_range is None else parse_range(rating_range)
    ratings = load_ratings(find_data(path), format=data_format, rating_range=scale, titles=titles)
    facts = describe(ratings)
    click.echo(json.dumps(facts) if as_json else _text(facts))


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
    bars = aligned(
        ("rating", "count"), [(f"{value:g}", f"{count:,}") for value, count in facts["values"]], right=(0, 1)
    )
    return f"{facts['name']}\n{aligned(('', ''), rows)}\n\n{bars}\n\nNote: {facts['note']}."


def _spread(spread: dict[str, float]) -> str:
    return f"median {spread['median']:g}, mean {spread['mean']:.1f}, 95 % at most {spread['p95']:g}"


__all__ = ["data"]
