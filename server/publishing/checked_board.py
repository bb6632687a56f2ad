"""A board that may be signed: its certificate is its own, holds, and says what its noise is."""

from dataclasses import dataclass, field

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protection import Protection, protection_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBoard:
    """A board whose certificate was recomputed here; nothing else is ever signed.

    Guarantee: its releases have noise that no seed reproduces, or simulations were asked for.
    Not guaranteed: that nothing else was published.
    """

    board: Board
    simulation: bool = False
    """Whether a board whose noise can be reproduced from its seed may be signed, marked as what it is."""
    protection: Protection = field(init=False)
    """Worked out from the releases that the certificate lists."""

    def __post_init__(self) -> None:
        """Recompute the certificate.

        Raises:
            InputError: the board holds data and carries no certificate that can be read.
            PrivacyError: the certificate is of another board, does not hold, or the noise is seeded and simulations
                were not asked for.
        """
        found = _protection(self.board)
        if found is Protection.SIMULATION and not self.simulation:
            raise PrivacyError(
                f"version {self.board.version} of the board is a simulation: its noise can be reproduced from its "
                "seed. It is not signed. Make boards for readers with secure noise, or sign it marked as what it "
                "is: --simulation, or simulation = true in [board] of a fleet"
            )
        object.__setattr__(self, "protection", found)


def _protection(board: Board) -> Protection:
    if board.approximates is not None:
        raise InputError(
            f"version {board.version} is an approximation of a board; only exact boards are signed"
        )
    if board.certificate is None:
        if board.version == 0:
            return Protection.NO_DATA
        raise InputError(
            f"version {board.version} of the board carries no certificate, so nothing says what its noise is; it "
            "is not signed"
        )
    certificate = Certificate.from_dict(dict(board.certificate))
    if certificate.board_digest != board.digest:
        raise PrivacyError(
            f"version {board.version} of the board carries the certificate of another one; it is not signed"
        )
    failed = [finding for finding in certificate.verify() if not finding.passed]
    if failed:
        raise PrivacyError(
            f"the certificate of version {board.version} of the board does not hold ({failed[0].check}: "
            f"{failed[0].detail}); it is not signed"
        )
    found = protection_of(certificate.releases)
    if board.version and found is Protection.NO_DATA:
        raise PrivacyError(
            f"the certificate of version {board.version} of the board lists no release; it is not signed"
        )
    return found
