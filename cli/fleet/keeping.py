"""``fedboard fleet backup`` and ``restore``."""

from datetime import UTC, datetime
from pathlib import Path

import click

from fedboard.cli.fleet.members import CONFIG

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: fedboard fleet backup --to /var/backups/fedboard")
@CONFIG
@click.option("--to", "place", type=_PATH, required=True, help="A folder, or a new file .fedboard.")
def backup(config: Path, place: Path) -> None:
    """Back up a server: settings, keys, register, boards, and the ledger that paid for them. It may run meanwhile.

    The file is for its owner alone to read: it holds the server's keys. Keep it on another machine, and make one
    after every round: what is released after a backup is not in it, and then the training cannot go on from it.
    """
    from fedboard.server.fleet.keeping.backup import back_up
    from fedboard.server.fleet.plan.settings import read_settings

    written, contents = back_up(read_settings(config), config, place)
    board = "no board yet" if contents.board < 0 else f"boards up to {contents.board}"
    click.echo(f"{written}: {len(contents.digests)} files, {board}")
    for path in contents.outside:
        click.echo(f"not in it, since it is elsewhere than {config.name}: {path}")


@click.command(epilog="Example: fedboard fleet restore films.fedboard --to new --newest-board mirror")
@click.argument("file", type=_PATH)
@click.option("--to", "folder", type=_PATH, required=True, help="A new folder, for settings, keys and state.")
@click.option(
    "--newest-board",
    "newest",
    type=_PATH,
    help="The newest board that anybody has: a file, a mirror's folder, a reader's boards.",
)
@click.option(
    "--stopped", is_flag=True, help="The server was stopped before the backup, and has not run since."
)
@click.option("--closed", is_flag=True, help="Nobody can show that: publish the boards, train no more.")
def restore(file: Path, folder: Path, newest: Path | None, stopped: bool, closed: bool) -> None:
    """Write a fleet from the backup in FILE into a new folder, so that its server can be started there.

    A backup is older than what was lost. What the server has released since is in no ledger that is left, so you
    have to show that there is nothing: by the newest board that anybody has, which must be the backup's. The round
    that may have been under way is then booked as lost. Where later boards were published, the training is over.
    """
    from fedboard.server.fleet.keeping.restoring import restore as restored

    found = restored(file, folder, newest=newest, stopped=stopped, closed=closed)
    made = f"{datetime.fromtimestamp(found.contents.made, UTC):%Y-%m-%d %H:%M} UTC"
    click.echo(f"{found.config}: restored as of {made}, board {found.contents.board}")
    if found.lost_round is not None:
        click.echo(f"round {found.lost_round} is booked as lost: it may have been under way")
    if found.closed:
        click.echo("the training is closed: its boards are published, and nothing more is released")
    if found.witnessed and not stopped:
        click.echo(
            "witnesses refuse what does not continue the last manifest that they have cosigned: if more was signed "
            "since, put the newest copy of the mirror in the place of state/mirror before you start the server"
        )
    if found.withdrawn:
        click.echo(f"{found.withdrawn} open invitations are void; make new ones")
    click.echo(
        "members are those of that moment: remove again whom you removed since (fedboard fleet members)"
    )
    for path in found.contents.outside:
        click.echo(f"was not in the backup: {path}")
