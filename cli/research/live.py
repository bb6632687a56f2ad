"""``fedboard live``: a run as a page, while it runs (here or in another process) or afterwards."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import command, option
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.operating.run_files import RunFiles
    from fedboard.server.operating.serving import Place
    from fedboard.simulations.config import SimulationConfig

LIVE = option(
    "Serve the report meanwhile, on this machine.",
    more="Another HOST lets everybody there read it.",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value="usual",  # server.operating.serving.USUAL
)


@command(
    "fedboard live runs/residual-eps5",
    "fedboard live fleet/state",
    "fedboard live runs/residual-eps5 --address 127.0.0.1:9000",
)
def live(
    run: Path,
    address: str = option(
        "Where to serve it; port 0 takes a free one.  [default: 127.0.0.1, port 8717 or the next free one]",
        metavar="HOST:PORT",
        default="usual",  # server.operating.serving.USUAL
        show_default=False,
    ),
) -> None:
    """Show the report of a run, refreshed while it goes on: budget, rounds, releases, the last board and its seal.

    RUN is the folder of a simulation or of a fleet's training, or a fleet's state folder; the run may be finished,
    interrupted, or under way in any process. Its files are read, and nothing is written. The page is for a browser
    on this machine and stays until Ctrl-C; one that is open finds it again after a restart. Another HOST lets
    everybody there read it.
    """
    from fedboard.server.operating.run_files import run_files
    from fedboard.server.operating.serving import RUN_PORT, place_of

    place, files = place_of(address, port=RUN_PORT), run_files(run)
    with suppress(KeyboardInterrupt), _serving(place, files, simulated=files.is_simulation):
        Event().wait()


@contextmanager
def watched(config: "SimulationConfig", run: Path, address: str | None) -> Iterator[None]:
    """Serve the page of a run that this process makes while the block runs.

    Args:
        config: of the run.
        run: its folder, which need not be there yet.
        address: as given to ``--live``; None: no page.

    Raises:
        InputError: the address cannot be used, or the algorithm has no guarantee to show.
    """
    if address is None:
        yield
        return
    from fedboard.server.operating.run_files import RunFiles
    from fedboard.server.operating.serving import RUN_PORT, place_of
    from fedboard.simulations.evaluation.references import is_reference

    if is_reference(config.algorithm):
        raise InputError(
            f"--live tells of budget and rounds, and {config.algorithm} has neither: it is fitted to the raw "
            "ratings; leave it out"
        )
    with _serving(place_of(address, port=RUN_PORT), RunFiles(folder=run), simulated=True):
        yield
    again = f"fedboard live {shlex.quote(str(run))}"
    click.echo(f"the live page ended with the run; to look at it again: {again}", err=True)


@contextmanager
def _serving(place: "Place", files: "RunFiles", *, simulated: bool) -> Iterator[None]:
    """Serve a live page until the block ends, and say where, on stderr.

    Raises:
        InputError: the address cannot be used.
    """
    from fedboard.server.operating.run_report import RunReport
    from fedboard.server.operating.serving import PageServer, warning_of

    sections: Any = None
    if simulated:
        from fedboard.simulations.reports import simulation_sections

        sections = simulation_sections
    if (warning := warning_of(place)) is not None:
        click.echo(f"WARNING: {warning}", err=True)
    with PageServer(place, RunReport(files=files, sections=sections)) as server:
        click.echo(f"live page: {server.address}", err=True)
        yield
