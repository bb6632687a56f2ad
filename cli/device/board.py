"""``fedboard board``: hand boards to readers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.device.board_page import page
from fedboard.cli.device.board_reading import fetch, verify
from fedboard.cli.device.witnesses import witness_options
from fedboard.cli.signing_options import DAYS, ROOTS, SIGNING_KEYS
from fedboard.cli.style.groups import Commands
from fedboard.common.errors import InputError, PrivacyError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses

_PATH = click.Path(path_type=Path)
_SIGN_SIMULATION = click.option(
    "--simulation",
    is_flag=True,
    help="Sign boards of seeded noise too, which protects nobody, marked as simulations for every reader.",
)


@click.group(cls=Commands)
def board() -> None:
    """Publish boards to readers, and fetch and verify them as one."""


@board.command(epilog="Example: fedboard board export runs/films --to mirror --key boards.key")
@click.argument("run_place", metavar="RUN", type=_PATH)
@click.option("--to", "mirror", type=_PATH, required=True, help="Folder of the mirror, made or continued.")
@SIGNING_KEYS
@click.option("--run", "run", help="Public name of the run.  [default: the name of RUN's folder]")
@ROOTS
@DAYS
@witness_options
@_SIGN_SIMULATION
def export(
    run_place: Path,
    mirror: Path,
    keys: tuple[Path, ...],
    run: str | None,
    roots: Path | None,
    days: float,
    witnesses: "Witnesses | None",
    simulation: bool,
) -> None:
    """Sign the boards of a run into a plain folder that any web server can serve.

    The folder holds signed manifests and packed board files by digest. Do it again after more
    rounds, and before the newest signature expires, which it then renews. Each board's certificate is recomputed
    first; one that does not hold, or whose noise can be reproduced from its seed, is not signed. With --witness a
    board is shown once so many of them have cosigned it, which they do where `fedboard server` serves MIRROR.
    """
    from fedboard.server.publishing.mirror import Mirror, publish_into
    from fedboard.server.publishing.signing import SigningKey

    place = Mirror(mirror)
    new = publish_into(
        place,
        _boards_of(run_place),
        key=SigningKey.read(*keys),
        run=run or run_place.resolve().name,
        simulation=simulation,
        days=days,
        roots=roots,
        witnesses=witnesses or place.witnesses,
    )
    click.echo(f"{len(new)} boards signed into {mirror}" if new else f"{mirror} has them all already")
    if (waiting := place.waiting()) is not None:
        click.echo(f"not shown yet: {waiting}")


def _boards_of(place: Path) -> Path:
    """The folder with the boards of a run directory, whose ledger booked what they state."""
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.verification import verify_evidence

    if not place.is_dir():
        raise InputError(f"{place}: no boards in this directory; give the directory of a run")
    evidence = read_evidence(place)
    for finding in verify_evidence(evidence):
        if finding.check in ("ledger", "booked releases") and not finding.passed:
            raise PrivacyError(f"{place}: {finding.detail}; its boards are not signed")
    return evidence.boards[0].parent


for _command in (page, fetch, verify):
    board.add_command(_command)
