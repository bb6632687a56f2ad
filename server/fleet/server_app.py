"""The Flower side of the server: the job that the run's configuration names, over the grid that Flower gives."""

import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.processes.lifeline import SERVER_LOCK, end_with_holder
from fedboard.server.fleet.processes.work_locks import at_work
from fedboard.server.fleet.rounds.uploads import set_unfinished_aside
from fedboard.server.fleet.running import run_job

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the job in the file that ``job`` names."""
    if (lock := os.environ.get(SERVER_LOCK)) is not None:  # in a simulation there is no server
        end_with_holder(Path(lock))
    job = Job.load(Path(str(context.run_config["job"])))
    set_unfinished_aside()
    with at_work(Path(job.folder)):
        run_job(grid, job)
