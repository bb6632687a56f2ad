"""Rounds as a fleet names them, and the shortest way to a helper."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.arrays import ResidueArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.messages.step import StepMessage
from fedboard.common.protocols.two_server.helper import HelperPart, RoundKey, TwoServerRules
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.server.helper.rounds import HelperRounds
from tests.common.algorithms.conftest import N_USERS


def protocol_for(clients: int) -> TwoServer:
    return TwoServer.sized(clients=clients, users=N_USERS, settings={})


def about_of(board: Board, *, run: str = "a run", session: str = "01", clients: int = 2) -> bytes:
    """What a fleet's round is about."""
    return StepMessage(
        run=run,
        round=board.version,
        board_digest=board.digest,
        session=session.encode(),
        number=0,
        protocol=TwoServer.NAME,
        parameters=protocol_for(clients).parameters,
        private_noise=True,
        reply_key=bytes(32),
        message=b"",
    ).about


@dataclass
class Direct:
    """A leader's way to a helper that is in the same process."""

    rounds: HelperRounds
    board: Board

    def begin(self, about: bytes, requests: Sequence[Request], rules: TwoServerRules) -> RoundKey:
        return self.rounds.begin(about, rules, bytes(self.board.to_bytes()))

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        self.rounds.take(about, client, part)

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        return self.rounds.total(about, tuple(clients))
