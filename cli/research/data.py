"""``fedboard data``: what is in a data set, for its owner; its users in cohorts, in shards, or split."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer, document
from fedboard.cli.options import column_mapping
from fedboard.cli.research.configuration import configure, flags
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.data import Ratings

_COUNT = click.IntRange(min=1)
_EVERY = 10.0
"""Seconds between two lines."""
_FILE = flags("data_format", "columns", "rating_range", "titles")
"""How a file is to be read."""
_OUT = option("A new folder, for its owner alone.", "--out", required=True)


@contextmanager
def telling() -> Iterator[Callable[[str, int, int | None], None]]:
    """What to call with what is being done, how many rows of it are done, and of how many.

    On a terminal it moves a bar; elsewhere it prints a line for each thing that is begun, and one now and then.
    """
    from fedboard.simulations.runs.progress import is_live, live_bars

    said, last = "", 0.0

    def say(what: str, done: int, total: int | None) -> None:
        nonlocal said, last
        now = time.monotonic()
        if what != said or now - last >= _EVERY:
            said, last = what, now
            of = "" if total is None else f" of {total:,}"
            click.echo(f"{what}: {done:,}{of} ratings", err=True)

    if not is_live():
        yield say
        return
    with live_bars() as bars:
        task = bars.add_task("reading", total=None)

        def show(what: str, done: int, total: int | None) -> None:
            bars.update(task, description=f"{what}: {done:,} ratings", completed=done, total=total)

        yield show


@click.group(cls=Commands)
def data() -> None:
    """Look at data sets, shard them, split them, cut them for gateways."""


@command("fedboard data info ml-1m.zip", group=data, also=_FILE)
def info(
    path: str | None = argument("[PATH]"),
    times: bool = option("Tell also when they were given."),
    as_json: bool = JSON,
    **how: Any,
) -> None:
    """Print size, density and skew of the ratings at PATH (or `synthetic`); without PATH, the formats there are.

    Exact statistics of the raw data: for its owner, not for publication.
    """
    from fedboard.simulations.data import describe, find_data
    from fedboard.simulations.data.named import is_sharded
    from fedboard.simulations.data.shards import open_shards
    from fedboard.simulations.data.summary import describe_shards

    if path is None:
        _tell_formats(as_json=as_json)
        return
    found = find_data(path)
    if not is_sharded(found):
        facts = describe(_loaded(found, how, times=times))
    elif any(one is not None for one in how.values()):
        raise InputError(
            f"{found} is sharded and says itself how it is read; leave out --format, --columns, --rating-range "
            "and --titles"
        )
    else:
        facts = describe_shards(open_shards(found), times=times)
    document(facts) if as_json else click.echo(_text(facts))


@command("fedboard data shard ratings.csv --out shards --rating-range 1,5", group=data, also=_FILE)
def shard(
    source: str,
    folder: Path = _OUT,
    kind: Literal["shards", "cohort"] = option(
        "What to write.",
        "--as",
        more="A cohort is what a gateway reads that hosts these users: a device's `[ratings] cohort`.",
        default="shards",
    ),
    users: str | None = option("Of a cohort: from 0; LAST is not one.", metavar="FIRST:LAST"),
    catalogue: Literal["rated", "listed"] = option(
        "Rated items, or all of the titles file.", default="rated"
    ),
    no_times: bool = option("Leave out when ratings were given."),
    shard_ratings: int = option(
        "Most ratings in a file; users are whole in each.",
        metavar="N",
        type=_COUNT,
        default=1 << 24,
        rare=True,
    ),
    memory: float = option(
        "For sorting, beside the program.", metavar="GB", type=click.FloatRange(min=0.27), default=1.0
    ),
    as_json: bool = JSON,
    **how: Any,
) -> None:
    """Write the ratings of SOURCE to DIR as shards, for data that do not fit into memory, or as a cohort.

    Any format of `fedboard data info`. They are sorted on disk, beside DIR; npz and
    synthetic are read whole, if --memory allows it. What DIR holds is raw ratings.
    """
    if kind == "cohort":
        told = _write_cohort(source, folder, users or ":", how)
        text = "{users:,} users with {ratings:,} ratings in {folder}".format(**told)
        answer(told, text, as_json=as_json)
        return
    if users is not None:
        raise InputError("--users goes with --as cohort")
    from fedboard.simulations.data import find_data
    from fedboard.simulations.data.sharding import ShardOptions
    from fedboard.simulations.data.sharding import shard_ratings as make_shards

    options = ShardOptions(
        **_reading(how),
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
    sizes = "{name}: {users:,} users, {items:,} items, {ratings:,} ratings"
    text = f"{sizes} in {{shards:,}} files of {{folder}} ({{bytes:,}} bytes)"
    answer(told, text.format(**told), as_json=as_json)


@command(
    "fedboard data split ml-1m.zip --out split/ --set feedback=implicit",
    group=data,
    also=flags("columns", "rating_range", "assignments"),
)
def split(
    source: str,
    folder: Path = _OUT,
    config_file: Path | None = option("Of the run.", "--config", metavar="FILE.toml"),
    as_json: bool = JSON,
    assignments: tuple[str, ...] = (),
    **flags: Any,
) -> None:
    """Write what a run on SOURCE learns from and is judged on to DIR, as Parquet and as CSV.

    Rows fall by the same coins as in `fedboard simulate` with the same configuration, so that models of other
    packages learn from the very same rows. What DIR holds is raw ratings, by the ids of the file.
    """
    from fedboard.simulations.config import base_of
    from fedboard.simulations.data.splits.tables import write_split
    from fedboard.simulations.problem import load_problem

    base = base_of(config_file, None, resume=False)
    config = configure(base, {"data": source, **flags}, assignments, source=str(config_file or "the flags"))
    tables = load_problem(config).tables
    told = {"data": config.data, "split": config.split, "feedback": config.feedback}
    written = write_split(tables, folder, told)
    rows = [(name, f"{table.num_rows:,}") for name, table in tables]
    record = {"rows": {name: table.num_rows for name, table in tables}, "files": list(map(str, written))}
    answer(record, f"{aligned(('part', 'rows'), rows)}\n\nWritten to {folder}/", as_json=as_json)


def _tell_formats(*, as_json: bool) -> None:
    from fedboard.simulations.data.readers import READERS

    known = [
        {"name": reader.name, "what": reader.what, "rating_range": reader.rating_range} for reader in READERS
    ]
    rows = [
        (
            reader.name,
            reader.what.replace("`", ""),
            "{:g} to {:g}".format(*reader.rating_range) if reader.rating_range else "--rating-range",
        )
        for reader in READERS
    ]
    answer({"formats": known}, aligned(("format", "what", "ratings"), rows), as_json=as_json)


def _write_cohort(source: str, folder: Path, users: str, how: Mapping[str, Any]) -> dict[str, Any]:
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


def _loaded(source: str, how: Mapping[str, Any], *, times: bool = False) -> "Ratings":
    from fedboard.simulations.data import load_ratings

    return load_ratings(source, **_reading(how), times=times)


def _reading(how: Mapping[str, Any]) -> dict[str, Any]:
    """What the flags of a file say, in the words of its readers."""
    return {
        "format": how["data_format"],
        "columns": column_mapping(how["columns"]),
        "rating_range": how["rating_range"],
        "titles": how["titles"],
    }


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
    if "times" in facts:
        from fedboard.simulations.data.splits.times import date_of

        when = ", ".join(f"{date_of(time)} ({share})" for share, time in facts["times"].items())
        rows.append(("given by", when))
    bars = aligned(("rating", "count"), [(f"{value:g}", f"{count:,}") for value, count in facts["values"]])
    return f"{facts['name']}\n{aligned(('', ''), rows)}\n\n{bars}\n\nNote: {facts['note']}."


def _spread(spread: dict[str, float]) -> str:
    return f"median {spread['median']:g}, mean {spread['mean']:.1f}, 95 % at most {spread['p95']:g}"
