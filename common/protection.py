"""Whether the noise on a board protects anybody: worked out from what its certificate lists, never from a flag."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.releases.noise import noise_problems


class Protection(StrEnum):
    """What stands between a board and the ratings that it was made from."""

    PRIVATE = "private"
    """Noise that nobody can reproduce, in every release."""
    SIMULATION = "simulation"
    """Noise of which some follows from a seed: whoever has the seed subtracts it."""
    NO_DATA = "no-data"
    """Nothing: no rating was looked at yet."""
    UNSTATED = "unstated"
    """Nobody says: there is no certificate, or none that can be read."""

    @property
    def verdict(self) -> str:
        """One plain sentence."""
        return _VERDICTS[self]


_VERDICTS = {
    Protection.PRIVATE: "private: no seed reproduces the noise of any of its releases",
    Protection.SIMULATION: "NOT PRIVATE: the noise can be reproduced from its seed",
    Protection.NO_DATA: "no data: nothing was released yet",
    Protection.UNSTATED: "NOT PRIVATE: no certificate says which noise is in it",
}


def protection_of(releases: Iterable[Mapping[str, Any]]) -> Protection:
    """What the noise of these releases is; one release with seeded noise makes all of it a simulation.

    Args:
        releases: as booked, or as a certificate lists them. Public.

    Not guaranteed: that they were booked truthfully; a stream that follows from a seed cannot be booked as secret
    by this package.
    """
    booked = list(releases)
    if not booked:
        return Protection.NO_DATA
    secret = all(event.get("private") is True and not noise_problems(event) for event in booked)
    return Protection.PRIVATE if secret else Protection.SIMULATION


def protection_of_board(board: Board) -> Protection:
    """What protects a board, from the releases that its certificate lists; whether it holds is not looked at.

    Only version 0 holds no data; a later board whose certificate lists no release is ``unstated``.
    """
    if board.certificate is None:
        return Protection.UNSTATED if board.version else Protection.NO_DATA
    try:
        found = protection_of(Certificate.from_dict(dict(board.certificate)).releases)
    except FedboardError:
        return Protection.UNSTATED
    return Protection.UNSTATED if board.version and found is Protection.NO_DATA else found


def is_as_stated(board: Board, protection: Protection, *, board_digest: str) -> bool:
    """Whether a board's own certificate says of its noise what somebody else states.

    Args:
        board: as it came, exact or an approximation.
        protection: as stated, in a signed manifest say.
        board_digest: of the exact board that was signed; another board's certificate says nothing about this one.
    """
    found = protection_of_board(board)
    certified = (board.certificate or {}).get("board_digest", board_digest)
    return found is protection and found is not Protection.UNSTATED and certified == board_digest


__all__ = ["Protection", "is_as_stated", "protection_of", "protection_of_board"]
