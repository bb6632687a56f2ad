"""The Flower side of a simulated node, which hosts the cohort that its partition number names."""

from contextlib import AbstractContextManager
from pathlib import Path

from flwr.app import Context

from fedboard.client.answering.asker import Asker
from fedboard.client.answering.rounds import RatingSource
from fedboard.client.answering.steps import NoiseOf, SessionGate, secure_noise
from fedboard.client.fleet.answering_app import make_client_app
from fedboard.common.rounds.question import Question
from fedboard.common.wire.signing import PinnedServer
from fedboard.simulations.flower.cohorts import open_stored
from fedboard.simulations.sessions.clients import client_noise

_LARGEST = Question.MAX_BYTES
"""A simulation's own question, on its own machine: as large as any."""
_LARGEST_ANSWER = 1 << 40


def _open(context: Context) -> AbstractContextManager[tuple[RatingSource, SessionGate]]:
    folder = Path(str(context.run_config["cohorts"]))
    server = PinnedServer.from_hex(str(context.run_config["server"]))
    return open_stored(
        folder, _number(context), Asker(server=server, largest=_LARGEST, largest_answer=_LARGEST_ANSWER)
    )


def _noise(context: Context) -> NoiseOf:
    """The node's own noise: what the engine draws for the same client, where the run is seeded."""
    if context.run_config["noise"] != "seeded":
        return secure_noise
    seed, number = int(context.run_config["seed"]), _number(context)
    return lambda step: client_noise(seed, step.round, number)


def _number(context: Context) -> int:
    return int(context.node_config["partition-id"])


app = make_client_app(_open, kernels=lambda context: str(context.run_config["kernels"]), noise=_noise)
