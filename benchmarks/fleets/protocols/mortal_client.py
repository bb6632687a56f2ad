"""A device like any other that kills itself when a certain step of a certain round comes; see ``secure_fleet.py``.

DIES="ROUND:STEP" says when, before the step is answered. NUMBER and SEED, where they are given, make the device's
own noise repeatable, so that what it sent can be computed again.
"""

import os
import signal
import sys
from pathlib import Path
from threading import Event

from flwr.app import Context, Message

from fedboard.client.answering.steps import NoiseOf, secure_noise
from fedboard.client.device.config import load_device
from fedboard.client.fleet.answering_app import make_client_app
from fedboard.client.fleet.client_app import open_configured
from fedboard.client.fleet.node import WarmNode
from fedboard.client.node.settings import NodeSettings
from fedboard.common.rounds.flower_parts import frames_of
from fedboard.common.rounds.step import StepMessage
from fedboard.simulations.sessions.clients import client_noise


def _noise(context: Context) -> NoiseOf:
    if "SEED" not in os.environ:
        return secure_noise
    seed, number = int(os.environ["SEED"]), int(os.environ["NUMBER"])
    return lambda step: client_noise(seed, step.round, number)


def main() -> None:
    """Answer until the step comes."""
    place = Path(sys.argv[sys.argv.index("--config") + 1])
    server = load_device(place).server
    if server is None:
        raise SystemExit(f"{place}: no [server] is given")
    settings = NodeSettings(
        server=server.address,
        root_certificate=server.ca_certificate,
        private_key=server.node_key,
        poll_seconds=server.poll_seconds,
        device=str(place.absolute()),
    )
    app, asker = make_client_app(open_configured, noise=_noise), load_device(place).asker()

    def mortal(message: Message, context: Context) -> Message:
        found = frames_of(message.content)
        if found is not None:
            step = StepMessage.from_bytes(asker.content(*found))
            if f"{step.round}:{step.number}" == os.environ.get("DIES"):
                os.kill(os.getpid(), signal.SIGKILL)
        return app(message, context)

    WarmNode(settings, mortal).run(Event())


if __name__ == "__main__":
    main()
