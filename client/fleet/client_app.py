"""The Flower side of a device: its configuration file says where ratings and policy are."""

from contextlib import AbstractContextManager
from pathlib import Path

from flwr.app import Context

from fedboard.client.answering.rounds import RatingSource
from fedboard.client.answering.steps import SessionGate
from fedboard.client.device.config import open_device
from fedboard.client.fleet.answering_app import make_client_app


def open_configured(context: Context) -> AbstractContextManager[tuple[RatingSource, SessionGate]]:
    """Open the device whose file the node names."""
    return open_device(Path(str(context.node_config["device"])))


app = make_client_app(open_configured)
