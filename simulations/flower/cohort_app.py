"""The Flower side of a simulated node, which hosts the cohort that its partition number names."""

from contextlib import AbstractContextManager
from pathlib import Path

from flwr.app import Context

from fedboard.client.answering import Gate, RatingSource
from fedboard.client.fleet.answering_app import make_client_app
from fedboard.simulations.flower.cohorts import open_stored


def _open(context: Context) -> AbstractContextManager[tuple[RatingSource, Gate]]:
    folder = Path(str(context.run_config["cohorts"]))
    return open_stored(folder, int(context.node_config["partition-id"]))


app = make_client_app(_open, kernels=lambda context: str(context.run_config["kernels"]))

__all__ = ["app"]
