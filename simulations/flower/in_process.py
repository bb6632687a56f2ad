"""A job in this process, without Ray."""

from fedboard.server.fleet.running import run_job
from fedboard.simulations.flower import cohort_app
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.flower.local_grid import LocalGrid
from fedboard.simulations.runs.trainer import OnRound


def run_in_process(files: FleetFiles, on_round: OnRound) -> None:
    """Run the job over nodes in this process, one after the other."""
    grid = LocalGrid(cohort_app.app, files.n_nodes, files.run_config)
    with grid.running():
        run_job(grid, files.job, on_round=on_round, on_progress=files.simulated.listener.progress)
