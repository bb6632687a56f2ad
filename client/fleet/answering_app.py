"""A Flower app that answers rounds: bytes in, bytes out; all else is ``fedboard.client.answering``."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.client.answering.heard_gate import Hear, HeardGate
from fedboard.client.answering.rounds import RatingSource, respond
from fedboard.client.answering.steps import Client, NoiseOf, SessionGate, respond_step, secure_noise
from fedboard.client.fleet.session_state import ContextVault
from fedboard.common.rounds.flower_parts import frame_of, frames_of, record_of
from fedboard.common.rounds.question import refusal
from fedboard.common.wire.refusals import Refusal

OpenDevice = Callable[[Context], AbstractContextManager[tuple[RatingSource, SessionGate]]]
"""Opens the ratings and the gate of the node whose context it gets, for the time of one answer."""


def make_client_app(
    open_device: OpenDevice,
    *,
    kernels: Callable[[Context], str] = lambda _: "numpy",
    noise: Callable[[Context], NoiseOf] = lambda _: secure_noise,
    refused: Hear = lambda _: None,
) -> ClientApp:
    """The app of a node.

    Args:
        open_device: from the node's configuration.
        kernels: which kernels compute, from the same; by default those of the base install.
        noise: where the node's own noise comes from, from the same; by default nobody can reproduce it.
        refused: is told why a question was refused; what it hears goes nowhere else.
    """
    app = ClientApp()

    def reply(context: Context, respond_to: Callable[[RatingSource, SessionGate], bytes]) -> bytes:
        try:
            with open_device(context) as (source, gate):
                return respond_to(source, HeardGate(gate, refused))
        except Exception:  # its text may hold data of this device
            refused(Refusal.INTERNAL)
            return refusal(Refusal.INTERNAL)

    def unreadable() -> bytes:
        refused(Refusal.MALFORMED)
        return refusal(Refusal.MALFORMED)

    @app.query("hello")
    def greet(message: Message, context: Context) -> Message:
        """It is there: nothing of the device is opened, and nothing else is said."""
        return Message(record_of(b""), reply_to=message)

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        question = frame_of(message.content)
        if question is None:
            return Message(record_of(unreadable()), reply_to=message)
        sent = reply(
            context,
            lambda source, gate: respond(question, source=source, gate=gate, backend=kernels(context)),
        )
        return Message(record_of(sent), reply_to=message)

    @app.query("step")
    def answer_step(message: Message, context: Context) -> Message:
        found = frames_of(message.content)
        if found is None:
            return Message(record_of(unreadable()), reply_to=message)

        def answered(source: RatingSource, gate: SessionGate) -> bytes:
            client = Client(
                source=source,
                gate=gate,
                vault=ContextVault(context),
                noise=noise(context),
                backend=kernels(context),
            )
            return respond_step(*found, client)

        return Message(record_of(reply(context, answered)), reply_to=message)

    return app
