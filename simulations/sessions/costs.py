"""What the sessions of a simulation cost: bytes and CPU time of clients and of the server's side."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """One step of a session."""

    asks_contributions: bool
    asked: int
    """Clients."""
    replied: int
    bytes_up: int
    """Of all replies."""
    bytes_down: int
    """Of the messages to those that reply; without the board."""
    client_seconds: float
    """CPU time of all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCosts:
    """What a round cost; for reports, not for publication (sizes may be private)."""

    bytes_up_per_client: float
    """Of a client that stays to the end, on average over those that reply to a step."""
    bytes_down_per_client: float
    """With the board."""
    client_seconds: float
    """CPU time of one client over all steps, its contribution included."""
    server_seconds: float
    """CPU time of the server's side up to the sums; noise and what follows is not counted."""
    steps: tuple[StepCost, ...]
    clients: int
    survivors: int
    """Clients that replied whenever they were asked."""

    @staticmethod
    def of(
        steps: Sequence[StepCost],
        *,
        server_seconds: float,
        clients: int,
        survivors: int,
        board_bytes: int,
        row_seconds: float,
    ) -> "SessionCosts":
        """Add up.

        Args:
            steps: of the session.
            server_seconds: of its server's side.
            clients: at its beginning.
            survivors: at its end.
            board_bytes: sent to each client with the step that asks for contributions.
            row_seconds: CPU time of the contributions of all clients.
        """
        boards = board_bytes * sum(step.asks_contributions for step in steps)
        return SessionCosts(
            bytes_up_per_client=sum(step.bytes_up / max(1, step.replied) for step in steps),
            bytes_down_per_client=boards + sum(step.bytes_down / max(1, step.replied) for step in steps),
            client_seconds=row_seconds / clients
            + sum(step.client_seconds / max(1, step.replied) for step in steps),
            server_seconds=server_seconds,
            steps=tuple(steps),
            clients=clients,
            survivors=survivors,
        )


__all__ = ["SessionCosts", "StepCost"]
