"""``fedboard recommend`` and ``explain``: what a person's own device does with a board."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.columns import OWN_COLUMNS, own_columns
from fedboard.cli.counts import SHOWN
from fedboard.cli.device.board import fetch_first
from fedboard.cli.device.board_options import mark, mark_record, witness_options
from fedboard.cli.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.participation.own_ratings import OwnView
    from fedboard.client.recommending.recommend import Explanation, Reason, Recommendation
    from fedboard.common.board import Board
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
    from fedboard.client.participation.own_ratings import open_own
    from fedboard.client.recommending import recommend as device
    from fedboard.client.recommending.recommend import reasons

    if board is None and ratings.suffix == ".toml":
        fetch_first(ratings)
    view = open_own(ratings, board, columns=own_columns(columns), witnesses=witnesses)
    explicit = device.rating_range_of(view.board) is not None
    found = device.recommend(view.own, view.board, k=k)
    why = reasons(view.own, view.board, [entry.item for entry in found])
    if as_json:
        document(_record(found, why, view, explicit=explicit))
    else:
        _print(found, why, view, explicit=explicit)


def reason_record(reason: "Reason | None", rated: Sequence[str]) -> dict[str, Any] | None:
    """A reason as JSON; ``rated`` are the ids of the rated items that it counts."""
    if reason is None:
        return None
    item = None if reason.rated is None else rated[reason.rated]
    return {"effect": reason.effect, "net": reason.net, "item_id": item}


def _record(
    found: "list[Recommendation]", why: "list[Reason | None]", view: "OwnView", *, explicit: bool
) -> dict[str, Any]:
    from fedboard.client.recommending.catalogue_search import title_of

    board, value = view.board, "predicted_rating" if explicit else "score"
    ids = board.catalogue.item_ids
    rated = [ids[item] for item in view.own.items]
    entries = [
        {
            "rank": rank,
            "item_id": ids[entry.item],
            "title": title_of(board.catalogue, entry.item),
            value: entry.score,
            "reason": reason_record(reason, rated),
        }
        for rank, (entry, reason) in enumerate(zip(found, why, strict=True), start=1)
    ]
    return {
        "board_version": board.version,
        "board_digest": board.digest,
        **mark_record(board),
        "ratings_left_out": view.left_out,
        "recommendations": entries,
    }


def _print(
    found: "list[Recommendation]", why: "list[Reason | None]", view: "OwnView", *, explicit: bool
) -> None:
    from fedboard.client.recommending.catalogue_search import title_of

    board, n_own = view.board, view.own.n_ratings
    ids = board.catalogue.item_ids
    titles = [title_of(board.catalogue, item) or ids[item] for item in view.own.items]
    rows = [
        (
            f"{rank}",
            title_of(board.catalogue, entry.item) or ids[entry.item],
            ids[entry.item],
            f"{entry.score:.2f}",
            "" if reason is None else reason.words(titles),
        )
        for rank, (entry, reason) in enumerate(zip(found, why, strict=True), start=1)
    ]
    value = "predicted rating" if explicit else "score"
    unused = f" ({view.left_out} more are not on it)" if view.left_out else ""
    mark(board)
    click.echo(f"From {n_own} of your ratings{unused} and version {board.version} of the board:\n")
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
    if alike:
        _show_alike(item, board or ratings, k=k, witnesses=witnesses, as_json=as_json)
        return
    from fedboard.client.participation.own_ratings import open_own
    from fedboard.client.recommending.catalogue_search import ItemIndex
    from fedboard.client.recommending.recommend import explain as take_apart

    view = open_own(ratings, board, columns=own_columns(columns), witnesses=witnesses)
    number = ItemIndex(view.board.catalogue).find_part(item)
    found = take_apart(view.own, view.board, number)
    if as_json:
        document(_explained(found, view.board))
    else:
        _print_explained(found, view.board, k=k)


def _explained(found: "Explanation", board: "Board") -> dict[str, Any]:
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


def _print_explained(found: "Explanation", board: "Board", *, k: int) -> None:
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


def _show_alike(item: str, board: Path, *, k: int, witnesses: "Witnesses | None", as_json: bool) -> None:
    from fedboard.client.boards.cache import open_board
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
