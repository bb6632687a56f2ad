"""``fedboard data``: what is in a data set, for its owner; its users in cohorts, in shards, or split."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fedboard.cli.columns import column_mapping
from fedboard.cli.documents import JSON, document
from fedboard.cli.groups import Commands
from fedboard.cli.research.configuration import SET, configure, file_options, parse_range
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.data import Ratings

_EVERY = 10.0
"""Seconds between two lines."""


@contextmanager
def telling() -> Iterator[Callable[[str, int, int | None], None]]:
    """What to call with what is being done, how many rows of it are done, and of how many."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from fedboard.simulations.runs.progress import Bars, is_live

    if not is_live():
        yield _Lines().tell
        return
    with Bars() as bars:
        task = bars.add_task("reading", total=None, told="")

        def tell(what: str, done: int, total: int | None) -> None:
            bars.update(task, description=what, completed=done, total=total, told=f"{done:,} ratings")

        yield tell


class _Lines:
    """A line for each thing that is begun, and then one now and then."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._what, self._last = "", 0.0

    def tell(self, what: str, done: int, total: int | None) -> None:
        """Say it, unless something was said a moment ago."""
        now = time.monotonic()
        if what == self._what and now - self._last < _EVERY:
            return
        self._what, self._last = what, now
        of = "" if total is None else f" of {total:,}"
        click.echo(f"{what}: {done:,}{of} ratings", err=True)


@click.group(cls=Commands)
def data() -> None:
    """Look at data sets, cut them for gateways, shard what does not fit into memory."""


@data.command(epilog="Example: fedboard data info ml-1m.zip")
@click.argument("path", metavar="[PATH]", required=False)
@file_options
@click.option("--times", is_flag=True, help="Tell also when they were given.")
@JSON
def info(
    path: str | None,
    data_format: str | None,
    columns: str | None,
    rating_range: str | None,
    titles: str | None,
    times: bool,
    as_json: bool,
) -> None:
    """Print size, density and skew of the ratings at PATH (or `synthetic`); without PATH, the formats there are.

    Exact statistics of the raw data: for its owner, not for publication.
    """
    from fedboard.simulations.data import describe, find_data
    from fedboard.simulations.data.named import is_sharded

    if path is None:
        _tell_formats(as_json=as_json)
        return
    found, how = find_data(path), (data_format, columns, rating_range, titles)
    if is_sharded(found):
        facts = _facts_of_shards(found, how, times=times)
    else:
        facts = describe(_loaded(found, how, times=times))
    document(facts) if as_json else click.echo(_text(facts))


def _facts_of_shards(path: str, given: tuple[str | None, ...], *, times: bool) -> dict[str, Any]:
    """What ``describe`` would tell, read a block of users at a time."""
    from fedboard.simulations.data.shards import open_shards
    from fedboard.simulations.data.summary import describe_shards

    if any(one is not None for one in given):
        raise InputError(
            f"{path} is sharded and says itself how it is read; leave out --format, --columns, --rating-range "
            "and --titles"
        )
    return describe_shards(open_shards(path), times=times)


@data.command(epilog="Example: fedboard data shard ratings.csv --out shards --rating-range 1,5")
@click.argument("source")
@click.option(
    "--out",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A new folder; it appears whole or not at all, for its owner alone.",
)
@file_options
@click.option(
    "--as",
    "kind",
    type=click.Choice(["shards", "cohort"]),
    default="shards",
    help="Or what the gateway reads that hosts these users: a device's `[ratings] cohort`.  [default: shards]",
)
@click.option(
    "--users", metavar="FIRST:LAST", help="Of a cohort: which users, counted from 0; LAST is not one."
)
@click.option(
    "--catalogue",
    type=click.Choice(["rated", "listed"]),
    default="rated",
    help="Items that somebody rated, or all of the titles file.  [default: rated]",
)
@click.option("--no-times", is_flag=True, help="Leave out when ratings were given.")
@click.option(
    "--shard-ratings",
    metavar="N",
    type=click.IntRange(min=1),
    default=1 << 24,
    help="Most ratings in a file; users are whole in each.  [default: 16777216]",
)
@click.option(
    "--memory",
    metavar="GB",
    type=click.FloatRange(min=0.27),
    default=1.0,
    help="What sorting may take, beside the program and the catalogue.  [default: 1]",
)
@JSON
def shard(
    source: str,
    folder: Path,
    data_format: str | None,
    columns: str | None,
    rating_range: str | None,
    titles: str | None,
    kind: str,
    users: str | None,
    catalogue: Literal["rated", "listed"],
    no_times: bool,
    shard_ratings: int,
    memory: float,
    as_json: bool,
) -> None:
    """Write the ratings of SOURCE to DIR as shards, for data that do not fit into memory, or as a cohort.

    Any format of `fedboard data info`. They are sorted on disk, beside DIR; npz and
    synthetic are read whole, if --memory allows it. What DIR holds is raw ratings.
    """
    if kind == "cohort":
        told = _write_cohort(source, folder, users or ":", (data_format, columns, rating_range, titles))
        text = "{users:,} users with {ratings:,} ratings in {folder}".format(**told)
        document(told) if as_json else click.echo(text)
        return
    if users is not None:
        raise InputError("--users goes with --as cohort")
    from fedboard.simulations.data import find_data
    from fedboard.simulations.data.sharding import ShardOptions
    from fedboard.simulations.data.sharding import shard_ratings as make_shards

    options = ShardOptions(
        format=data_format,
        columns=column_mapping(columns),
        rating_range=None if rating_range is None else parse_range(rating_range),
        titles=titles,
        catalogue=catalogue,
        times=not no_times,
        shard_ratings=shard_ratings,
        memory=int(memory * 1e9),
    )
    with telling() as progress:
        made = make_shards(find_data(source), folder, options, progress=progress)
    told = {
        "name": made.name,
        "users": made.users,
        "items": made.items.count,
        "ratings": made.ratings,
        "times": made.times,
        "shards": len(made.shards),
        "bytes": sum(one.bytes for one in made.shards),
        "folder": str(folder),
    }
    if as_json:
        document(told)
        return
    size = f"{made.users:,} users, {made.items.count:,} items, {made.ratings:,} ratings"
    click.echo(f"{made.name}: {size} in {len(made.shards):,} files of {folder} ({told['bytes']:,} bytes)")


@data.command(epilog="Example: fedboard data split ml-1m.zip --out split/ --feedback implicit")
@click.argument("source")
@click.option(
    "--out",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A new folder, for its owner alone.",
)
@click.option(
    "--config", "config_file", metavar="FILE.toml", type=click.Path(path_type=Path), help="Of the run."
)
@file_options
@click.option("--feedback", type=click.Choice(["explicit", "implicit"]), help="What a rating says.")
@SET
@JSON
def split(
    source: str,
    folder: Path,
    config_file: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Write what a run on SOURCE learns from and is judged on to DIR, as Parquet and as CSV.

    Rows fall by the same coins as in `fedboard simulate` with the same configuration, so that models of other
    packages learn from the very same rows. What DIR holds is raw ratings, by the ids of the file.
    """
    from fedboard.simulations.config import read_config
    from fedboard.simulations.data.splits.tables import write_split
    from fedboard.simulations.problem import load_problem

    base = {} if config_file is None else read_config(config_file)
    config = configure(base, {"data": source, **flags}, assignments, source=str(config_file or "the flags"))
    tables = load_problem(config).tables
    told = {"data": config.data, "split": config.split, "feedback": config.feedback}
    written = write_split(tables, folder, told)
    if as_json:
        document({"rows": {name: table.num_rows for name, table in tables}, "files": list(map(str, written))})
        return
    rows = [(name, f"{table.num_rows:,}") for name, table in tables]
    click.echo(f"{aligned(('part', 'rows'), rows, right=(1,))}\n\nWritten to {folder}/")


def _tell_formats(*, as_json: bool) -> None:
    from fedboard.simulations.data.readers import READERS

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


def _write_cohort(
    source: str, folder: Path, users: str, how: tuple[str | None, str | None, str | None, str | None]
) -> dict[str, Any]:
    """Write the ratings of some users, readable by their owner alone; how many there are."""
    from fedboard.client.ratings.cohort_file import write_cohort
    from fedboard.simulations.data import find_data
    from fedboard.simulations.data.named import is_sharded

    if (folder / "cohort.json").exists():
        raise InputError(f"{folder}: there is a cohort already; delete that folder, or choose another one")
    found = find_data(source)
    if is_sharded(found):
        from fedboard.simulations.data.shards import open_shards

        shards = open_shards(found)
        first, last = _slice(users, shards.n_users)
        rows, item_ids = shards.read(first, last), shards.item_ids
    else:
        ratings = _loaded(found, how)
        first, last = _slice(users, ratings.n_users)
        rows, item_ids = ratings.cohort().rows(first, last), ratings.item_ids
    write_cohort(folder, rows, tuple(item_ids.tolist()))
    return {"users": last - first, "ratings": rows.n_ratings, "folder": str(folder)}


def _loaded(
    source: str, how: tuple[str | None, str | None, str | None, str | None], *, times: bool = False
) -> "Ratings":
    from fedboard.simulations.data import load_ratings

    data_format, columns, rating_range, titles = how
    return load_ratings(
        source,
        format=data_format,
        columns=column_mapping(columns),
        rating_range=None if rating_range is None else parse_range(rating_range),
        titles=titles,
        times=times,
    )


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
    from fedboard.simulations.data.splits.times import date_of

    return ", ".join(f"{date_of(when)} ({share})" for share, when in times.items())


def _spread(spread: dict[str, float]) -> str:
    return f"median {spread['median']:g}, mean {spread['mean']:.1f}, 95 % at most {spread['p95']:g}"
