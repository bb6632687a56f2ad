"""``fedboard board page``: a board as one HTML file that recommends and checks, in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.device.board_mark import mark
from fedboard.cli.device.witnesses import witness_options
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: fedboard board page runs/films --out films.html")
@click.argument("source", metavar="RUN|MIRROR")
@click.option("--out", type=_PATH, required=True, help="The HTML file to write.")
@click.option("--key", type=_PATH, help="The public key that signs the boards of a mirror (boards.pub).")
@click.option(
    "--compare",
    "others",
    metavar="RUN|MIRROR",
    multiple=True,
    help="A board of another epsilon, for a slider between them; may be given several times. Boards of the same "
    "people add up: publish several of simulations alone.",
)
@click.option(
    "--fetch",
    is_flag=True,
    help="Leave the boards on their web server: the page loads them from there, and from nowhere else.",
)
@click.option(
    "--installable",
    is_flag=True,
    help="Also write a manifest and a worker beside it, so that who opens it on a web server can install it.",
)
@witness_options
@click.option(
    "--authority", type=_PATH, help="Certificate authority to trust for TLS, PEM.  [default: the system's]"
)
def page(
    source: str,
    out: Path,
    key: Path | None,
    others: tuple[str, ...],
    fetch: bool,
    installable: bool,
    witnesses: "Witnesses | None",
    authority: Path | None,
) -> None:
    """Write a board as one HTML file that needs nothing else.

    RUN is a run directory or a board file, MIRROR what `fedboard board fetch` takes; its signatures and its chain
    are verified first. Whoever opens the file in a browser looks titles up, rates some and gets recommendations
    with reasons, computed there as `fedboard recommend` does it; the page checks signature and certificate by
    itself, and its policy forbids it to send anything. A board whose noise follows from a seed is shown as what it
    is: not private.
    """
    from fedboard.client.page.boards import held_board
    from fedboard.client.page.writing import write_page
    from fedboard.common.boards.board_signature import PinnedKey

    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: there is no such folder; make it first")
    pinned = None if key is None else PinnedKey.read(key, witnesses=witnesses)
    boards = [held_board(place, key=pinned, authority=authority, fetch=fetch) for place in (source, *others)]
    shown = boards[0]
    boards.sort(key=lambda held: held.epsilon)
    size = write_page(out, boards, chosen=boards.index(shown), key=pinned, installable=installable)
    for held in boards:
        mark(held.board)
    count = "1 board" if len(boards) == 1 else f"{len(boards)} boards"
    where = "fetched from their mirror" if fetch else "inside"
    click.echo(f"{out}: {size / 1000:.0f} kB, {count} {where}; open it in a browser")
