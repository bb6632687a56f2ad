"""A whole session in one process: every step's messages carried from the server to its clients and back."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from fedboard.common.protocol import ClientSession, ExactSums, Given, ServerSession
from fedboard.common.protocols.shared.sessions import OpenStep, SessionLoop
from fedboard.common.wire.refusals import RefusedError
from fedboard.simulations.sessions.costs import StepCost
from fedboard.simulations.sessions.stopwatch import Stopwatch

Lost = Callable[[int, str], bool]
"""(number of the step, client) -> whether its reply is lost; a client that is lost once is never heard of again."""


def nobody_lost(step: int, client: str) -> bool:
    """Every reply arrives."""
    return False


@dataclass(slots=True, kw_only=True)
class InProcess:
    """Carries messages to clients that are here."""

    clients: Mapping[str, ClientSession]
    """Their sides, by identity."""
    given: Mapping[str, Given]
    """What each gives. Private."""
    lost: Lost = nobody_lost
    """Whose replies are lost, and when."""
    steps: list[StepCost] = field(default_factory=list)
    """What each step cost."""

    def carry(self, step: OpenStep) -> None:
        """One step; who is lost never hears of it."""
        told = [name for name in step.messages if name in step.asked and not self.lost(step.number, name)]
        up, down, watch = 0, 0, Stopwatch()
        for name in told:
            message, given = step.messages[name], self.given[name] if step.asks_contributions else None
            down += len(message)
            with suppress(RefusedError):
                with watch.running():
                    reply = self.clients[name].answer(message, given)
                up += len(reply)
                step.take(name, reply)
        self.steps.append(
            StepCost(
                asks_contributions=step.asks_contributions,
                asked=len(step.messages),
                replied=len(told),
                bytes_up=up,
                bytes_down=down,
                client_seconds=watch.seconds,
            )
        )


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
    return SessionLoop(session=server).run(InProcess(clients=clients, given=given, lost=lost).carry)
