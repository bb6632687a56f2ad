"""A whole session in one process: every step's messages carried from the server to its clients and back."""

from collections.abc import Callable, Mapping

from fedboard.common.protocol import ClientSession, ExactSums, Given, ServerSession
from fedboard.common.wire.refusals import RefusedError

Lost = Callable[[int, str], bool]
"""(number of the step, client) -> whether its reply is lost; a client that is lost once is never heard of again."""


def nobody_lost(step: int, client: str) -> bool:
    """Every reply arrives."""
    return False


def drive(
    server: ServerSession,
    clients: Mapping[str, ClientSession],
    given: Mapping[str, Given],
    lost: Lost = nobody_lost,
) -> ExactSums:
    """Run a session to its end.

    Args:
        server: just opened.
        clients: their sides, by identity.
        given: what each gives. Private.
        lost: whose replies are lost, and when.

    Raises:
        TooFewAnswersError: too few replies are left.
    """
    gone, step, more = set[str](), 0, True
    while more:
        asks = server.asks_contributions
        for name, message in server.outgoing().items():
            if name in gone or lost(step, name):
                gone.add(name)
                continue
            try:
                server.take(name, clients[name].answer(message, given[name] if asks else None))
            except RefusedError:
                gone.add(name)
        more, step = server.proceed(), step + 1
    return server.sums()


__all__ = ["Lost", "drive", "nobody_lost"]
