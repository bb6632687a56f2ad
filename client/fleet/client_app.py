"""The Flower side of a device: bytes in, bytes out; everything else is ``fedboard.client.answering``."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.client.answering import Gate, RatingSource, respond
from fedboard.common.wire.answer import refusal
from fedboard.common.wire.flower_record import frame_of, record_of
from fedboard.common.wire.refusals import Refusal

OpenDevice = Callable[[Context], AbstractContextManager[tuple[RatingSource, Gate]]]


def make_client_app(open_device: OpenDevice, *, backend: str = "numpy") -> ClientApp:
    """The app of a node whose ratings and gate ``open_device`` opens, from the node's configuration."""
    app = ClientApp()

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        return Message(record_of(_respond(message, context, open_device, backend)), reply_to=message)

    return app


def _respond(message: Message, context: Context, open_device: OpenDevice, backend: str) -> bytes:
    question = frame_of(message.content)
    if question is None:
        return refusal(Refusal.MALFORMED)
    with ExitStack() as stack:
        try:
            source, gate = stack.enter_context(open_device(context))
        except Exception:  # its text may hold data of this device
            return refusal(Refusal.INTERNAL)
        return respond(question, source=source, gate=gate, backend=backend)


__all__ = ["OpenDevice", "make_client_app"]
