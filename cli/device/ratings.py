"""``fedboard ratings``: a person's own ratings, in a file on her own machine."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.options import DEVICE, OWN_COLUMNS
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.client.ratings.store import OwnRating, RatingStore
    from fedboard.common.board import Board

_BOARD = option(
    "A board, so that items can be named by title.  [default: the device's newest, if any]", "--board"
)


@click.group(cls=Commands)
def ratings() -> None:
    """Keep your own ratings on this machine: add, list, import, write, delete.

    They are never sent as they are. What a device that trains gives of them, and under which limit, is in its
    configuration; `fedboard status` lists it.
    """


@command("fedboard ratings init my-device --epsilon 3", group=ratings)
def init(
    folder: Path = argument(default=Path()),
    epsilon: float = option("Your limit over all runs.", default=1.0),
    delta: float = option("Delta of that limit.", default=1e-6),
) -> None:
    """Make a device in FOLDER: an empty rating store and a commented device.toml, where more can be said."""
    from fedboard.client.participation.config import make_device

    path = make_device(folder, epsilon=epsilon, delta=delta, adjacency="add-remove")
    click.echo(f"{path}: read it, it says what this device will give; then: fedboard ratings import FILE.csv")


@command("fedboard ratings import my-ratings.csv --board runs/demo", name="import", group=ratings)
def import_ratings(
    file: Path,
    columns: dict[str, str] | None = OWN_COLUMNS,
    device: Path = DEVICE,
    place: Path | None = _BOARD,
) -> None:
    """Take over a CSV file with the header `item,rating` and perhaps `timestamp`.

    Items that are in the store already get the file's rating. All lines are taken, or none.
    """
    take_over(file, device, place, columns or {})


def take_over(
    file: Path, device: Path, place: Path | None = None, columns: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Put the ratings of a file into a device's store.

    Raises:
        InputError: they cannot be read; nothing was taken.
    """
    from fedboard.client.ratings.own_file import read_ratings

    found = read_ratings(file, board=_board(device, place), columns=dict(columns))
    with _open(device) as opened:
        new = opened.put(found)
        click.echo(f"{len(found)} ratings imported, {new} of them new; {len(opened)} in the store")


@command("fedboard ratings add 'Toy Story' 4.5", group=ratings)
def add(
    item: str, rating: float = argument(default=1.0), device: Path = DEVICE, place: Path | None = _BOARD
) -> None:
    """Add or change the rating of one ITEM, by id or by title.

    A title that is typed before there is a board is kept, and found once there is one. For implicit feedback RATING
    may be left out.
    """
    from fedboard.client.ratings.store import OwnRating

    board = _board(device, place)
    own = OwnRating(item=_item(item, board), rating=_on_range(rating, board))
    with _open(device) as opened:
        kept = _kept_as(own.item, [entry.item for entry in opened.ratings()], board)
        new = opened.put([own]) and kept == own.item
        if kept != own.item:  # she rated it by its title before there was a board
            opened.remove(kept)
    if board is None:
        click.echo(f"{own.item} is kept as it was typed: there is no board to look it up on", err=True)
    click.echo(f"{'added' if new else 'changed'}: {_named(own.item, board)}  {own.rating:g}")


@command("fedboard ratings remove 'Toy Story'", "fedboard ratings remove --all --yes", group=ratings)
def remove(
    item: str | None = argument(),
    everything: bool = option("Every rating; there is no way back.", "--all"),
    yes: bool = option("With --all: do not ask."),
    device: Path = DEVICE,
    place: Path | None = _BOARD,
) -> None:
    """Delete the rating of one ITEM, or all, and the answers made from them that are kept to be sent again.

    The record of what was given stays: forgetting it would let the same be given twice.
    """
    if (item is None) is not everything:
        raise InputError("give one ITEM, or --all for every rating")
    if item is None:
        if not yes:
            click.confirm("Delete all your ratings? There is no way back", abort=True)
        with _open(device) as opened:
            number = opened.delete_all()
        click.echo(f"{number} ratings and {_forget_answers(device)} kept answers deleted")
        return
    board = _board(device, place)
    with _open(device) as opened:
        found = _kept_as(item, [own.item for own in opened.ratings()], board)
        opened.remove(found)
    _forget_answers(device)
    click.echo(f"removed: {_named(found, board)}")


@command(
    "fedboard ratings list --json", "fedboard ratings list --csv my-ratings.csv", name="list", group=ratings
)
def list_ratings(
    file: str | None = option(
        "Write them as `import` reads them, readable by you alone; - is stdout.", "--csv", metavar="FILE"
    ),
    device: Path = DEVICE,
    place: Path | None = _BOARD,
    as_json: bool = JSON,
) -> None:
    """List your ratings."""
    board = _board(device, place)
    with _open(device) as opened:
        found = opened.ratings()
        used = None if board is None else opened.cohort(board).n_ratings
    if file is not None:
        _write_csv(file, found, board)
        return
    if as_json:
        document({"ratings": [asdict(own) for own in found]})
        return
    about = _about([own.item for own in found], board)
    rows = [(*about[own.item], f"{own.rating:g}") for own in found]
    click.echo(aligned(("title", "id", "rating"), rows))
    left = "" if used is None else f"; the board can use {used} of them"
    click.echo(f"\n{len(found)} ratings{left}")


def _write_csv(file: str, found: "Sequence[OwnRating]", board: "Board | None") -> None:
    from fedboard.client.private_files import write_new_private
    from fedboard.client.ratings.own_file import write_ratings

    text, place = io.StringIO(), Path(file)
    write_ratings(text, found, board=board)
    if file == "-":
        click.echo(text.getvalue(), nl=False)
        return
    if place.exists() and not place.is_file():
        raise InputError(f"{place}: ratings are written to a file; give - for stdout")
    try:
        write_new_private(place, text.getvalue().encode("utf-8"))
    except FileExistsError:
        raise InputError(f"{place}: something is there already and is kept; give another name") from None


def _forget_answers(device: Path) -> int:
    """Delete a device's kept answers."""
    from fedboard.client.participation.config import load_device

    return load_device(device).answers().forget()


def _open(device: Path) -> "RatingStore":
    from fedboard.client.participation.config import load_device
    from fedboard.client.ratings.store import RatingStore

    place = load_device(device).ratings.store
    if place is None:
        raise InputError(f"{device}: this device holds the ratings of many users, not a store of one")
    return RatingStore.open(place)


def _board(device: Path, place: Path | None) -> "Board | None":
    """The board that is named, or the newest one of the device's cache."""
    from fedboard.client.boards.cache import board_file, open_board

    if place is None:
        from fedboard.client.participation.config import load_device
        from fedboard.common.board import Board

        cache = load_device(device).board.cache
        held = any(cache.glob("board-*.board"))
        place = cache if held and "learnt" in Board.load(board_file(cache)).arrays else None
    return None if place is None else open_board(place)


def _item(text: str, board: "Board | None") -> str:
    if board is None:
        return text
    from fedboard.client.recommending.catalogue_search import ItemIndex

    return board.catalogue.item_ids[ItemIndex(board.catalogue).find_part(text)]


def _kept_as(text: str, kept: list[str], board: "Board | None") -> str:
    """How the store names the item that somebody means: as she wrote it then, by id or by title."""
    if text in kept or board is None:
        return text
    from fedboard.client.ratings.store import placed_items

    ids, item_id = board.catalogue.item_ids, _item(text, board)
    return next(
        (item for item, number in placed_items(kept, board.catalogue).items() if ids[number] == item_id),
        item_id,
    )


def _about(kept: list[str], board: "Board | None") -> dict[str, tuple[str, str]]:
    """Title and id of each entry of the store, as far as the board knows them."""
    if board is None:
        return {item: ("", item) for item in kept}
    from fedboard.client.ratings.store import placed_items

    ids, titles = board.catalogue.item_ids, _titles(board)
    numbers = placed_items(kept, board.catalogue)
    found = {item: ids[numbers[item]] if item in numbers else item for item in kept}
    return {item: (titles.get(item_id, ""), item_id) for item, item_id in found.items()}


def _on_range(rating: float, board: "Board | None") -> float:
    from fedboard.client.recommending.recommend import rating_range_of

    rating_range = None if board is None else rating_range_of(board)
    if rating_range is not None and not rating_range[0] <= rating <= rating_range[1]:
        low, high = rating_range
        raise InputError(f"a rating must be a number from {low:g} to {high:g}, got {rating:g}")
    return rating


def _titles(board: "Board | None") -> dict[str, str]:
    """Item id -> title, of the items that have one."""
    if board is None or board.catalogue.titles is None:
        return {}
    return dict(zip(board.catalogue.item_ids, board.catalogue.titles, strict=True))


def _named(item: str, board: "Board | None") -> str:
    title = _titles(board).get(item)
    return f"{title} [{item}]" if title else item
