"""Publishing: a board leaves the server in one atomic step, with its certificate, after the ledger."""

from collections.abc import Sequence
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, certify
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import Trust

ASSUMPTIONS = (
    "The catalogue, the rating range and every hyper-parameter are public and were not chosen by looking at these "
    "ratings outside the releases listed here.",
    "Users are numbered, and ratings for judging are set aside, before the run and whoever takes part; that a user "
    "is absent means that her row is empty.",
    "Each user's rows are in one client only, and each client answers a release once.",
    "Nothing that depends on the ratings leaves the clients, and those who are trusted with it above, but the "
    "releases listed here.",
    "The noise generator's output cannot be told from Gaussian noise (inverse distribution function of AES-256 in "
    "counter mode, 63-bit tails: a published cell has its probability to 1e-9 within 4 deviations, nothing lies "
    "beyond 9.1).",
)
"""What every certificate of this package takes for granted."""


class BoardStore:
    """The boards of one run, by version, in one folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists."""
        self.folder = folder

    def path(self, version: int) -> Path:
        """Where the board of this version is or would be."""
        return self.folder / f"board-{version:04d}.board"

    def versions(self) -> list[int]:
        """Published versions, ascending."""
        return sorted(int(path.stem.removeprefix("board-")) for path in self.folder.glob("board-*.board"))

    def load(self, version: int) -> Board:
        """The published board of this version.

        Raises:
            InputError: there is none.
        """
        return Board.load(self.path(version))

    def latest(self) -> Board:
        """The last published board.

        Raises:
            InputError: none is there.
        """
        versions = self.versions()
        if not versions:
            raise InputError(f"{self.folder}: no board was published there yet")
        return self.load(versions[-1])

    def publish(
        self,
        board: Board,
        ledger: Ledger,
        *,
        trust: Trust,
        dataset: str,
        assumptions: Sequence[str] = (),
        rounds: RoundsMade | None = None,
    ) -> Board:
        """Certify everything booked so far and write the board; durable on return.

        Args:
            board: the next one.
            ledger: what paid for it.
            trust: who could see what.
            dataset: public description of the data.
            assumptions: what this run takes for granted beyond ``ASSUMPTIONS``; public facts only.
            rounds: planned, made and lost by then.

        Raises:
            PrivacyError: the ledger does not support the budget's claim; nothing is written.
        """
        certificate = certify(
            ledger.events(),
            commitment=ledger.commitment,
            trust=trust.sentences,
            assumptions=(*ASSUMPTIONS, *assumptions),
            dataset=dataset,
            board_digest=board.digest,
            ledger_head=ledger.head,
            population=ledger.population_total(),
            rounds=rounds,
        )
        published = board.with_certificate(certificate.to_dict())
        published.save(self.path(board.version))
        return published


def require_same_history(board: Board, ledger: Ledger) -> None:
    """Hold a published board against the ledger that is to continue it.

    Raises:
        PrivacyError: the ledger is not, or no longer, the one that paid for this board.
    """
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    ledger.verify(published_head=certificate.ledger_head, published_total=certificate.population)
    certified = list(certificate.releases)
    if certified != ledger.events()[: len(certified)]:
        raise PrivacyError(
            "the ledger does not hold the releases of the board that is published; it was lost or replaced, so "
            "nothing more can be released. Restore the ledger, or start a new run"
        )
