"""Servers that break the order of a round: what a search for double releases and unpaid boards must notice.

Each function patches this process for good.
"""

from collections.abc import Callable
from typing import Any

from fedboard.common.board import Board
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.chain_rows import Row
from fedboard.common.privacy.ledger.ledger import Ledger, Receipt
from fedboard.server.publication import BoardStore
from fedboard.server.round import run_round
from fedboard.server.training import Training


def booked_late(before_booking: Callable[[], None] = lambda: None) -> None:
    """Bookings wait until the board is out, and for ``before_booking``."""
    book, publish = Ledger.book_all, BoardStore.publish
    waiting: list[Any] = []

    def book_later(self: Ledger, events: Any, *, reissue: bool = False) -> Any:
        asked = list(events)
        waiting.extend(asked)
        return tuple(Receipt(seq=1, name=e["name"], event_digest=digest(e), hash="") for e in asked)

    def publish_first(self: BoardStore, board: Board, ledger: Ledger, **keywords: Any) -> Board:
        published = publish(self, board, ledger, **keywords)
        before_booking()
        book(ledger, waiting, reissue=True)
        waiting.clear()
        return published

    Ledger.book_all = book_later  # type: ignore[method-assign]
    BoardStore.publish = publish_first  # type: ignore[method-assign]


def drawn_again() -> None:
    """Whatever is booked may be drawn again."""

    def any_receipt(self: Ledger, row: Row, event: Any, *, reissue: bool) -> Receipt:
        return Receipt(seq=row.seq, name=row.name, event_digest=digest(event), hash=row.hash)

    def again(self: Training, board: Board) -> Any:
        return run_round(
            self.task, board, runtime=self.runtime, ledger=self.ledger, noise=self.noise, reissue=True
        )

    Ledger._reissued = any_receipt  # type: ignore[method-assign]
    Training._round = again  # type: ignore[method-assign]
