"""``fedboard fleet status``: how a fleet stands."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.fleet.members import CONFIG
from fedboard.cli.fleet.told_to_stop import told_to_stop
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.fleet.status import FleetStatus

_WATCH_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_IN_PLACE = "\x1b[H\x1b[J"
"""To the first line of the terminal, and nothing below it."""


@click.command(epilog="Example: fedboard fleet status --watch")
@CONFIG
@click.option("--watch", is_flag=True, help="Show it in place, anew every 2 seconds, until Ctrl-C.")
@JSON
def status(config: Path, watch: bool, as_json: bool) -> None:
    """Say how a fleet stands: devices, answers of this round, budget, lost rounds, what expires, the disk.

    It reads the files of the state folder and the keys, whether the server runs or not. It is for the operator: how
    many devices are there depends on people in ways that no budget covers.
    """
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.status import status_of
    from fedboard.server.operating.run_fares import require_few_lost

    if watch and as_json:
        raise InputError("--watch is for people: leave it out, or --json")
    settings = read_settings(config)
    found = status_of(settings)
    if as_json:
        document(found.to_dict())
    elif watch:
        told = told_to_stop()
        while not told():
            click.echo(_IN_PLACE + _text(found))
            end = time.monotonic() + _WATCH_SECONDS
            while time.monotonic() < end and not told():
                time.sleep(_LOOK_SECONDS)
            found = status_of(settings)
    else:
        click.echo(_text(found))
    require_few_lost(found.fares, most_lost=settings.rounds.most_lost)


def _text(found: "FleetStatus") -> str:
    looks = [f"LOOK: {problem}" for problem in found.problems()]
    return "\n".join([aligned((found.name, ""), found.rows()), *looks])
