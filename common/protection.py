"""Whether the noise on a board protects anybody: worked out from what its certificate lists, never from a flag."""

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.releases.noise import Protection, protection_of


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
        board: as it came.
        protection: as stated, in a signed manifest say.
        board_digest: of the exact board that was signed; another board's certificate says nothing about this one.
    """
    found = protection_of_board(board)
    certified = (board.certificate or {}).get("board_digest", board_digest)
    return found is protection and found is not Protection.UNSTATED and certified == board_digest


__all__ = ["Protection", "is_as_stated", "protection_of", "protection_of_board"]
