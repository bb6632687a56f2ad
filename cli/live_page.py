"""The option ``--live`` of commands that run for a while, and the page that they then serve."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedboard.server.operating.run_report import RunReport
    from fedboard.server.operating.serving import Place

LIVE = click.option(
    "--live",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value="usual",  # server.operating.serving.USUAL
    help="Serve the report while it goes on, on this machine alone unless HOST says otherwise.",
)


@contextmanager
def serving(place: "Place", report: "RunReport") -> Iterator[str]:
    """Serve a live page until the block ends, and say where, on stderr; its address.

    Raises:
        InputError: the address cannot be used.
    """
    from fedboard.server.operating.serving import PageServer, warning_of

    warning = warning_of(place)
    if warning is not None:
        click.echo(f"WARNING: {warning}", err=True)
    with PageServer(place, report) as server:
        click.echo(f"live page: {server.address}", err=True)
        yield server.address
