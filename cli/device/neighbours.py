"""``fedboard neighbours``: which items the board holds to be alike."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.counts import SHOWN
from fedboard.cli.device.board_mark import mark, mark_record
from fedboard.cli.device.witnesses import witness_options
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses


@click.command(epilog="Example: fedboard neighbours 'Toy Story' runs/demo -k 5")
@click.argument("item")
@click.argument("board", type=click.Path(path_type=Path))
@click.option("-k", "k", type=SHOWN, default=10, show_default=True, help="How many neighbours.")
@witness_options
@JSON
def neighbours(item: str, board: Path, k: int, witnesses: "Witnesses | None", as_json: bool) -> None:
    """List the items nearest to ITEM by the cosine of their factors.

    ITEM is an id, a title or a part of one title. BOARD is a board file or a run directory. Needs nothing but
    the board, which is public.
    """
    from fedboard.client.boards.open_board import open_board
    from fedboard.client.recommending.catalogue_search import ItemIndex, describe, title_of
    from fedboard.client.recommending.recommend import nearest_items

    opened = open_board(board, witnesses=witnesses)
    catalogue = opened.catalogue
    number = ItemIndex(catalogue).find_part(item)
    found = nearest_items(opened, number, k=k)
    if as_json:
        entries = [
            {"item_id": catalogue.item_ids[n.item], "title": title_of(catalogue, n.item), "cosine": n.cosine}
            for n in found
        ]
        record = {
            "item_id": catalogue.item_ids[number],
            "title": title_of(catalogue, number),
            **mark_record(opened),
            "neighbours": entries,
        }
        document(record)
        return
    rows = [
        (
            title_of(catalogue, n.item) or catalogue.item_ids[n.item],
            catalogue.item_ids[n.item],
            f"{n.cosine:.3f}",
        )
        for n in found
    ]
    mark(opened)
    click.echo(f"Nearest to {describe(catalogue, number)}:\n")
    click.echo(aligned(("title", "id", "cosine"), rows, right=(2,)))
