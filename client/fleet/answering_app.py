"""A Flower app that answers rounds: bytes in, bytes out; everything else is ``fedboard.client.answering``."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.client.answering import Gate, RatingSource, respond
from fedboard.common.wire.answer import refusal
from fedboard.common.wire.flower_record import frame_of, record_of
from fedboard.common.wire.refusals import Refusal

OpenDevice = Callable[[Context], AbstractContextManager[tuple[RatingSource, Gate]]]
"""Opens the ratings and the gate of the node whose context it gets, for the time of one answer."""


def make_client_app(
    open_device: OpenDevice, *, kernels: Callable[[Context], str] = lambda _: "numpy"
) -> ClientApp:
    """The app of a node.

    Args:
        open_device: from the node's configuration.
        kernels: which kernels compute, from the same; by default those of the base install.
    """
    app = ClientApp()

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        return Message(record_of(_respond(message, context, open_device, kernels)), reply_to=message)

    return app


def _respond(
    message: Message, context: Context, open_device: OpenDevice, kernels: Callable[[Context], str]
) -> bytes:
    question = frame_of(message.content)
    if question is None:
        return refusal(Refusal.MALFORMED)
    try:
        with open_device(context) as (source, gate):
            return respond(question, source=source, gate=gate, backend=kernels(context))
    except Exception:  # its text may hold data of this device
        return refusal(Refusal.INTERNAL)


__all__ = ["OpenDevice", "make_client_app"]
