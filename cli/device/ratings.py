"""``fedboard ratings``: a person's own ratings, in a file on her own machine."""

import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fedboard.cli.columns import OWN_COLUMNS, own_columns
from fedboard.cli.documents import JSON, document
from fedboard.cli.groups import Commands
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.client.ratings.store import OwnRating, RatingStore
    from fedboard.common.board import Board

Command = TypeVar("Command", bound=Callable[..., object])

DEVICE = click.option(
    "--device",
    type=click.Path(path_type=Path),
    default=Path("device.toml"),
    envvar="FEDBOARD_DEVICE",
    show_default=True,
    help="Configuration of this device.",
)
_BOARD = click.option(
    "--board",
    "place",
    type=click.Path(path_type=Path),
    help="A board, so that items can be named by title.  [default: the device's newest, if any]",
)


def _of_store(command: Command) -> Command:
    """Options of a command that works on the device's store."""
    for option in (_BOARD, DEVICE):
        command = option(command)
    return command


@click.group(cls=Commands)
def ratings() -> None:
    """Keep your own ratings on this machine: add, list, import, write, delete.

    They are never sent as they are. What a device that trains gives of them, and under which limit, is in its
    configuration; `fedboard status` lists it.
    """


@ratings.command(epilog="Example: fedboard ratings init my-device --epsilon 3")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Your limit over all runs.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="Delta of that limit.")
def init(folder: Path, epsilon: float, delta: float) -> None:
    """Make a device in FOLDER: an empty rating store and a commented device.toml, where more can be said."""
    from fedboard.client.participation.config import make_device

    path = make_device(folder, epsilon=epsilon, delta=delta, adjacency="add-remove")
    click.echo(f"{path}: read it, it says what this device will give; then: fedboard ratings import FILE.csv")


@ratings.command("import", epilog="Example: fedboard ratings import my-ratings.csv --board runs/demo")
@click.argument("file", type=click.Path(path_type=Path))
@OWN_COLUMNS
@_of_store
def import_ratings(file: Path, columns: str | None, device: Path, place: Path | None) -> None:
    """Take over a CSV file with the header `item,rating` and perhaps `timestamp`.

    Items that are in the store already get the file's rating. All lines are taken, or none.
    """
    from fedboard.client.ratings.own_file import read_ratings

    found = read_ratings(file, board=_board(device, place), columns=own_columns(columns))
    with _open(device) as opened:
        new = opened.put(found)
        click.echo(f"{len(found)} ratings imported, {new} of them new; {len(opened)} in the store")


@ratings.command(epilog="Example: fedboard ratings add 'Toy Story' 4.5")
@click.argument("item")
@click.argument("rating", type=float, default=1.0)
@_of_store
def add(item: str, rating: float, device: Path, place: Path | None) -> None:
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


@ratings.command(
    epilog="\b\nExamples:\n  fedboard ratings remove 'Toy Story'\n  fedboard ratings remove --all --yes"
)
@click.argument("item", required=False)
@click.option("--all", "everything", is_flag=True, help="Every rating; there is no way back.")
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@_of_store
def remove(item: str | None, everything: bool, yes: bool, device: Path, place: Path | None) -> None:
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


@ratings.command(
    "list",
    epilog="\b\nExamples:\n  fedboard ratings list --json\n  fedboard ratings list --csv my-ratings.csv",
)
@click.option(
    "--csv",
    "file",
    metavar="FILE",
    help="Write them as `import` reads them, readable by you alone; - is stdout.",
)
@JSON
@_of_store
def list_ratings(file: str | None, as_json: bool, device: Path, place: Path | None) -> None:
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
    click.echo(aligned(("title", "id", "rating"), rows, right=(2,)))
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

        cache = load_device(device).board.cache
        place = cache if any(cache.glob("board-*.board")) and _learnt(board_file(cache)) else None
    return None if place is None else open_board(place)


def _learnt(path: Path) -> bool:
    from fedboard.common.board import Board

    return "learnt" in Board.load(path).arrays


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
