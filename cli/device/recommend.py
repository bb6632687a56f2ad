"""``fedboard recommend`` and ``explain``: what a person's own device does with a board."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.columns import OWN_COLUMNS, own_columns
from fedboard.cli.counts import SHOWN
from fedboard.cli.device.board import fetch_first
from fedboard.cli.device.board_options import mark, mark_record, witness_options
from fedboard.cli.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.participation.own_view import OwnView
    from fedboard.client.recommending.recommend import Explained, Recommended
    from fedboard.common.boards.witnesses import Witnesses

_STAYS = "Computed on this machine from the board; your ratings were sent nowhere."


@click.command(epilog="Example: fedboard recommend my-ratings.csv runs/demo -k 5")
@click.argument("ratings", type=click.Path(path_type=Path))
@click.argument("board", type=click.Path(path_type=Path), required=False)
@click.option("-k", "k", type=SHOWN, default=10, show_default=True, help="How many items.")
@OWN_COLUMNS
@witness_options
@JSON
def recommend(
    ratings: Path,
    board: Path | None,
    k: int,
    columns: str | None,
    witnesses: "Witnesses | None",
    as_json: bool,
) -> None:
    """Recommend items to one person, on this machine.

    RATINGS is a small CSV file with the header `item,rating`; items are named by id or by title, and those that are
    not on the board are skipped and counted. For a board
    made from implicit feedback the column `item` is enough. A rating store (see `fedboard ratings`) or a
    device.toml will do too. BOARD is a board file or a run directory, of which the newest board is taken; for a
    device it may be left out, and its first one is fetched. No rating leaves this machine.
    """
    from fedboard.client.participation.own_view import as_record, open_own
    from fedboard.client.recommending.recommend import recommend as best_of

    if board is None and ratings.suffix == ".toml":
        fetch_first(ratings)
    view = open_own(ratings, board, columns=own_columns(columns), witnesses=witnesses)
    found = best_of(view.own, view.board, k=k)
    if not as_json:
        _print(found, view)
        return
    document(
        {
            "board_version": view.board.version,
            "board_digest": view.board.digest,
            **mark_record(view.board),
            "ratings_left_out": view.left_out,
            "recommendations": [{"rank": rank, **as_record(one)} for rank, one in enumerate(found, start=1)],
        }
    )


def _print(found: "list[Recommended]", view: "OwnView") -> None:
    from fedboard.client.recommending.recommend import rating_range_of

    rows = [
        (
            f"{rank}",
            one.title or one.item_id,
            one.item_id,
            f"{one.score:.2f}",
            "" if one.reason is None else one.reason.words(),
        )
        for rank, one in enumerate(found, start=1)
    ]
    value = "score" if rating_range_of(view.board) is None else "predicted rating"
    unused = f" ({view.left_out} more are not on it)" if view.left_out else ""
    mark(view.board)
    click.echo(
        f"From {view.own.n_ratings} of your ratings{unused} and version {view.board.version} of the board:\n"
    )
    click.echo(aligned(("", "title", "id", value, "why"), rows, right=(0, 3)))
    click.echo(f"\n{_STAYS}")


@click.command(
    epilog="\b\nExamples:\n  fedboard explain 'Toy Story' my-ratings.csv runs/demo -k 5\n"
    "  fedboard explain 'Toy Story' runs/demo --neighbours"
)
@click.argument("item")
@click.argument("ratings", type=click.Path(path_type=Path), default=Path("device.toml"))
@click.argument("board", type=click.Path(path_type=Path), required=False)
@click.option(
    "-k", "k", type=SHOWN, default=10, show_default=True, help="How many of your ratings, or items."
)
@click.option("--neighbours", "alike", is_flag=True, help="The items nearest to ITEM; needs a board alone.")
@OWN_COLUMNS
@witness_options
@JSON
def explain(
    item: str,
    ratings: Path,
    board: Path | None,
    k: int,
    alike: bool,
    columns: str | None,
    witnesses: "Witnesses | None",
    as_json: bool,
) -> None:
    """Show which of your ratings pulled ITEM up or down, exactly; or what the board holds to be like it.

    ITEM is an id, a title or a part of one title. RATINGS is a CSV file, a rating store or a device.toml, whose
    own boards are taken where BOARD is left out. The parts sum to the prediction. With --neighbours a board file or
    a run directory is enough, in the place of RATINGS: items are near by the cosine of their factors. Nothing
    leaves this machine.
    """
    from fedboard.client.participation.own_view import as_record, explained, open_own

    if alike:
        _show_alike(item, board or ratings, k=k, witnesses=witnesses, as_json=as_json)
        return
    view = open_own(ratings, board, columns=own_columns(columns), witnesses=witnesses)
    found = explained(item, view)
    if as_json:
        document({**as_record(found), **mark_record(view.board)})
    else:
        mark(view.board)
        _print_explained(found, k=k)


def _print_explained(found: "Explained", *, k: int) -> None:
    shown, rest = found.influences[:k], found.influences[k:]
    rows = [("what the board says without you", "", f"{found.base:.3f}")]
    rows += [(_called(p.item_id, p.title), f"{p.rating:g}", f"{p.added:+.3f}") for p in shown]
    if rest:
        rows.append((f"your {len(rest)} other ratings", "", f"{sum(part.added for part in rest):+.3f}"))
    rows.append(("together", "", f"{found.total:.3f}"))
    click.echo(f"Why {_called(found.item_id, found.title)}:\n")
    click.echo(aligned(("", "you rated", "adds"), rows, right=(1, 2)))
    click.echo(f"\nIn short: {found.reason.words(listed=False)}.")
    if abs(found.total - found.prediction) > 5e-4:
        click.echo(f"\nShown as {found.prediction:.2f}, the nearest rating on the scale.")


def _show_alike(item: str, board: Path, *, k: int, witnesses: "Witnesses | None", as_json: bool) -> None:
    from fedboard.client.boards.cache import open_board
    from fedboard.client.participation.own_view import as_record, neighbours
    from fedboard.client.recommending.catalogue_search import ItemIndex, describe, title_of

    opened = open_board(board, witnesses=witnesses)
    found = neighbours(item, opened, k=k)
    number = ItemIndex(opened.catalogue).find_part(item)
    if as_json:
        about = {"item_id": opened.catalogue.item_ids[number], "title": title_of(opened.catalogue, number)}
        document({**about, **mark_record(opened), "neighbours": as_record(found)})
        return
    rows = [(one.title or one.item_id, one.item_id, f"{one.cosine:.3f}") for one in found]
    mark(opened)
    click.echo(f"Nearest to {describe(opened.catalogue, number)}:\n")
    click.echo(aligned(("title", "id", "cosine"), rows, right=(2,)))


def _called(item_id: str, title: str | None) -> str:
    return item_id if title is None else f"{title} [{item_id}]"
