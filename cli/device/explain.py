"""``fedboard explain``: which of a person's own ratings pulled an item."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.columns import OWN_COLUMNS, own_columns
from fedboard.cli.counts import SHOWN
from fedboard.cli.device.board_mark import mark, mark_record
from fedboard.cli.device.recommend import reason_record
from fedboard.cli.device.witnesses import witness_options
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.recommending.explain import Explanation
    from fedboard.common.board import Board
    from fedboard.common.boards.witnesses import Witnesses


@click.command(epilog="Example: fedboard explain 'Toy Story' my-ratings.csv runs/demo -k 5")
@click.argument("item")
@click.argument("ratings", type=click.Path(path_type=Path), default=Path("device.toml"))
@click.argument("board", type=click.Path(path_type=Path), required=False)
@click.option("-k", "k", type=SHOWN, default=10, show_default=True, help="How many of your ratings.")
@OWN_COLUMNS
@witness_options
@JSON
def explain(
    item: str,
    ratings: Path,
    board: Path | None,
    k: int,
    columns: str | None,
    witnesses: "Witnesses | None",
    as_json: bool,
) -> None:
    """Show which of your ratings pulled ITEM up or down, exactly.

    ITEM is an id, a title or a part of one title. RATINGS is a CSV file, a rating store or a device.toml, whose
    own boards are taken where BOARD is left out. The parts sum to the prediction. Nothing leaves this machine.
    """
    from fedboard.client.device.own_ratings import open_own
    from fedboard.client.recommending.catalogue_search import ItemIndex
    from fedboard.client.recommending.explain import explain as take_apart

    view = open_own(ratings, board, columns=own_columns(columns), witnesses=witnesses)
    number = ItemIndex(view.board.catalogue).find_part(item)
    found = take_apart(view.own, view.board, number)
    if as_json:
        document(_record(found, view.board))
    else:
        _print(found, view.board, k=k)


def _record(found: "Explanation", board: "Board") -> dict[str, Any]:
    ids = board.catalogue.item_ids
    return {
        "item_id": ids[found.item],
        "prediction": found.prediction,
        "total": found.total,
        "base": found.base,
        "reason": reason_record(found.reason, [ids[part.item] for part in found.influences]),
        **mark_record(board),
        "influences": [
            {"item_id": ids[part.item], "rating": part.rating, "added": part.added}
            for part in found.influences
        ],
    }


def _print(found: "Explanation", board: "Board", *, k: int) -> None:
    from fedboard.client.recommending.catalogue_search import describe

    shown, rest = found.influences[:k], found.influences[k:]
    rows = [("what the board says without you", "", f"{found.base:.3f}")]
    rows += [(describe(board.catalogue, p.item), f"{p.rating:g}", f"{p.added:+.3f}") for p in shown]
    if rest:
        rows.append((f"your {len(rest)} other ratings", "", f"{sum(part.added for part in rest):+.3f}"))
    rows.append(("together", "", f"{found.total:.3f}"))
    mark(board)
    click.echo(f"Why {describe(board.catalogue, found.item)}:\n")
    click.echo(aligned(("", "you rated", "adds"), rows, right=(1, 2)))
    titles = [describe(board.catalogue, part.item) for part in found.influences]
    click.echo(f"\nIn short: {found.reason.words(titles, listed=False)}.")
    if abs(found.total - found.prediction) > 5e-4:
        click.echo(f"\nShown as {found.prediction:.2f}, the nearest rating on the scale.")
