"""``fedboard fleet``: what the operator of a fleet does beside running its server."""

import click

from fedboard.cli.fleet.keeping import backup, restore
from fedboard.cli.fleet.kit import install_units, kit
from fedboard.cli.fleet.members import invite, members, remove
from fedboard.cli.fleet.standing import status
from fedboard.cli.style.groups import Commands


@click.group(cls=Commands)
def fleet() -> None:
    """Operate a fleet: invite devices, remove them, see who is a member.

    These commands work on the files of the server's state folder, whether the server runs or not; a running one
    takes every change over at once.
    """


for _command in (status, invite, members, remove, backup, restore, install_units, kit):
    fleet.add_command(_command)
