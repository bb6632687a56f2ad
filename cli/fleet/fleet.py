"""``fedboard fleet``: what the operator of a fleet does beside running its server."""

import click

from fedboard.cli.fleet.init import init
from fedboard.cli.fleet.keeping import backup, restore
from fedboard.cli.fleet.kit import kit
from fedboard.cli.fleet.members import invite, members, remove
from fedboard.cli.fleet.standing import status
from fedboard.cli.style.groups import Commands


@click.group(cls=Commands)
def fleet() -> None:
    """Make a fleet and operate it: invite devices, remove them, see how it stands.

    These commands work on the files of the server's state folder, whether the server runs or not; a running one
    takes every change over at once.
    """


for _command in (init, status, invite, members, remove, backup, restore, kit):
    fleet.add_command(_command)
