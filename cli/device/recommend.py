"""``fedboard recommend`` and ``explain``: what a person's own device does with a board."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.device.board import fetch_first, mark, mark_record
from fedboard.cli.documents import JSON, answer
from fedboard.cli.options import COSIGNATURES, OWN_COLUMNS, SHOWN, WITNESS, witnesses_of
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.recommending.recommend import Explained

_STAYS = "Computed on this machine from the board; your ratings were sent nowhere."


@command("fedboard recommend my-ratings.csv runs/demo -k 5")
def recommend(
    ratings: Path,
    board: Path | None = argument(),
    k: int = option("How many items.", "-k", type=SHOWN, default=10),
    columns: dict[str, str] | None = OWN_COLUMNS,
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
    as_json: bool = JSON,
) -> None:
    """Recommend items to one person, on this machine.

    RATINGS is a small CSV file with the header `item,rating`; items are named by id or by title, and those that are
    not on the board are skipped and counted. For a board
    made from implicit feedback the column `item` is enough. A rating store (see `fedboard ratings`) or a
    device.toml will do too. BOARD is a board file or a run directory, of which the newest board is taken; for a
    device it may be left out, and its first one is fetched. No rating leaves this machine.
    """
    from fedboard.client.participation.own_view import as_record, open_own
    from fedboard.client.recommending.recommend import rating_range_of
    from fedboard.client.recommending.recommend import recommend as best_of

    if board is None and ratings.suffix == ".toml":
        fetch_first(ratings)
    view = open_own(ratings, board, columns=columns or {}, witnesses=witnesses_of(witness, cosignatures))
    found = best_of(view.own, view.board, k=k)
    record = {
        "board_version": view.board.version,
        "board_digest": view.board.digest,
        **mark_record(view.board),
        "ratings_left_out": view.left_out,
        "recommendations": [{"rank": rank, **as_record(one)} for rank, one in enumerate(found, start=1)],
    }
    rows = [
        (
            rank,
            one.title or one.item_id,
            one.item_id,
            f"{one.score:.2f}",
            one.reason.words() if one.reason else "",
        )
        for rank, one in enumerate(found, start=1)
    ]
    value = "score" if rating_range_of(view.board) is None else "predicted rating"
    unused = f" ({view.left_out} more are not on it)" if view.left_out else ""
    said = f"From {view.own.n_ratings} of your ratings{unused} and version {view.board.version} of the board"
    table = aligned(("", "title", "id", value, "why"), rows)
    text = f"{mark(view.board)}{said}:\n\n{table}\n\n{_STAYS}"
    answer(record, text, as_json=as_json)


@command(
    "fedboard explain 'Toy Story' my-ratings.csv runs/demo -k 5",
    "fedboard explain 'Toy Story' runs/demo --neighbours",
)
def explain(
    item: str,
    ratings: Path = argument(default=Path("device.toml")),
    board: Path | None = argument(),
    k: int = option("How many of your ratings, or items.", "-k", type=SHOWN, default=10),
    alike: bool = option("The items nearest to ITEM; needs a board alone.", "--neighbours"),
    columns: dict[str, str] | None = OWN_COLUMNS,
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
    as_json: bool = JSON,
) -> None:
    """Show which of your ratings pulled ITEM up or down, exactly; or what the board holds to be like it.

    ITEM is an id, a title or a part of one title. RATINGS is a CSV file, a rating store or a device.toml, whose
    own boards are taken where BOARD is left out. The parts sum to the prediction. With --neighbours a board file or
    a run directory is enough, in the place of RATINGS: items are near by the cosine of their factors. Nothing
    leaves this machine.
    """
    from fedboard.client.boards.cache import open_board
    from fedboard.client.participation.own_view import as_record, explained, neighbours, open_own
    from fedboard.client.recommending.catalogue_search import ItemIndex, describe, title_of

    witnesses = witnesses_of(witness, cosignatures)
    if alike:
        opened = open_board(board or ratings, witnesses=witnesses)
        near = neighbours(item, opened, k=k)
        number = ItemIndex(opened.catalogue).find_part(item)
        about = {"item_id": opened.catalogue.item_ids[number], "title": title_of(opened.catalogue, number)}
        rows = [(one.title or one.item_id, one.item_id, f"{one.cosine:.3f}") for one in near]
        answer(
            {**about, **mark_record(opened), "neighbours": as_record(near)},
            f"{mark(opened)}Nearest to {describe(opened.catalogue, number)}:\n\n"
            + aligned(("title", "id", "cosine"), rows),
            as_json=as_json,
        )
        return
    view = open_own(ratings, board, columns=columns or {}, witnesses=witnesses)
    found = explained(item, view)
    text = mark(view.board) + _explanation(found, k=k)
    answer({**as_record(found), **mark_record(view.board)}, text, as_json=as_json)


def _explanation(found: "Explained", *, k: int) -> str:
    def called(item_id: str, title: str | None) -> str:
        return item_id if title is None else f"{title} [{item_id}]"

    shown, rest = found.influences[:k], found.influences[k:]
    rows = [("what the board says without you", "", f"{found.base:.3f}")]
    rows += [(called(p.item_id, p.title), f"{p.rating:g}", f"{p.added:+.3f}") for p in shown]
    if rest:
        rows.append((f"your {len(rest)} other ratings", "", f"{sum(part.added for part in rest):+.3f}"))
    rows.append(("together", "", f"{found.total:.3f}"))
    parts = [
        f"Why {called(found.item_id, found.title)}:",
        aligned(("", "you rated", "adds"), rows),
        f"In short: {found.reason.words(listed=False)}.",
    ]
    if abs(found.total - found.prediction) > 5e-4:
        parts.append(f"Shown as {found.prediction:.2f}, the nearest rating on the scale.")
    return "\n\n".join(parts)
