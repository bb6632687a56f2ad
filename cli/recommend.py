"""``fedboard recommend``: what a person's own device does with a board."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.tables import aligned

if TYPE_CHECKING:
    from fedboard.client.recommend import Recommendation
    from fedboard.common.board import Board

_STAYS = "Computed on this machine from the board; your ratings were sent nowhere."


@click.command(epilog="Example: fedboard recommend my-ratings.csv runs/demo -k 5")
@click.argument("ratings", type=click.Path(path_type=Path))
@click.argument("board", type=click.Path(path_type=Path))
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="How many items.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def recommend(ratings: Path, board: Path, k: int, as_json: bool) -> None:
    """Recommend items to one person, on this machine.

    RATINGS is a small CSV file with the header `item,rating`; items are named by id or by title. For a board
    made from implicit feedback the column `item` is enough. BOARD is a board file or a run directory, of which
    the newest board is taken. Nothing leaves this machine.
    """
    from fedboard.client import recommend as device
    from fedboard.client.open_board import open_board
    from fedboard.client.ratings_file import read_own_ratings

    opened = open_board(board)
    rating_range = device.rating_range_of(opened)
    own = read_own_ratings(ratings, opened.catalogue, rating_range=rating_range)
    found = device.recommend(own, opened, k=k)
    if as_json:
        click.echo(json.dumps(_record(found, opened, explicit=rating_range is not None), ensure_ascii=False))
    else:
        _print(found, opened, n_own=own.n_ratings, explicit=rating_range is not None)


def _record(found: "list[Recommendation]", board: "Board", *, explicit: bool) -> dict[str, Any]:
    from fedboard.client.catalogue_search import title_of

    value = "predicted_rating" if explicit else "score"
    entries = [
        {
            "rank": rank,
            "item_id": board.catalogue.item_ids[entry.item],
            "title": title_of(board.catalogue, entry.item),
            value: entry.score,
        }
        for rank, entry in enumerate(found, start=1)
    ]
    return {"board_version": board.version, "board_digest": board.digest, "recommendations": entries}


def _print(found: "list[Recommendation]", board: "Board", *, n_own: int, explicit: bool) -> None:
    from fedboard.client.catalogue_search import title_of

    ids = board.catalogue.item_ids
    rows = [
        (
            f"{rank}",
            title_of(board.catalogue, entry.item) or ids[entry.item],
            ids[entry.item],
            f"{entry.score:.2f}",
        )
        for rank, entry in enumerate(found, start=1)
    ]
    value = "predicted rating" if explicit else "score"
    click.echo(f"From {n_own} of your ratings and version {board.version} of the board:\n")
    click.echo(aligned(("", "title", "id", value), rows, right=(0, 3)))
    click.echo(f"\n{_STAYS}")


__all__ = ["recommend"]
