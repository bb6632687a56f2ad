"""``fedboard live``: a run as a page, while it runs (here or in another process) or afterwards."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from fedboard.cli.live_page import serving
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.operating.run_files import RunFiles
    from fedboard.server.operating.run_report import RunReport
    from fedboard.simulations.config import SimulationConfig

_EXAMPLES = """\b
Examples:
  fedboard live runs/residual-eps5
  fedboard live fleet/state
  fedboard live runs/residual-eps5 --address 127.0.0.1:9000
"""


@click.command(epilog=_EXAMPLES)
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--address",
    metavar="HOST:PORT",
    default="usual",  # server.operating.serving.USUAL
    help="Where to serve it; port 0 takes a free one.  [default: 127.0.0.1, port 8717 or the next free one]",
)
def live(run: Path, address: str) -> None:
    """Show the report of a run, refreshed while it goes on: budget, rounds, releases, the last board and its seal.

    RUN is the folder of a simulation or of a fleet's training, or a fleet's state folder; the run may be finished,
    interrupted, or under way in any process. Its files are read, and nothing is written. The page is for a browser
    on this machine and stays until Ctrl-C; one that is open finds it again after a restart. Another HOST lets
    everybody there read it.
    """
    from fedboard.server.operating.run_files import run_files
    from fedboard.server.operating.serving import RUN_PORT, place_of

    place = place_of(address, port=RUN_PORT)
    files = run_files(run)
    report = report_of(files, simulated=files.is_simulation)
    with suppress(KeyboardInterrupt), serving(place, report):
        Event().wait()


def report_of(files: "RunFiles", *, simulated: bool) -> "RunReport":
    """The report of a run."""
    from fedboard.server.operating.run_report import RunReport
    from fedboard.simulations.reports import simulation_sections

    return RunReport(files=files, sections=simulation_sections if simulated else None)


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
    place, files = place_of(address, port=RUN_PORT), RunFiles(folder=run)
    with serving(place, report_of(files, simulated=True)):
        yield
    again = f"fedboard live {shlex.quote(str(run))}"
    click.echo(f"the live page ended with the run; to look at it again: {again}", err=True)
