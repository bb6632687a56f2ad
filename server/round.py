"""The round loop: ask, sum, book, noise, update. The order is the guarantee."""

from dataclasses import dataclass

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.privacy.ledger import Ledger
from fedboard.common.privacy.noise import NoiseSource
from fedboard.common.task import Task
from fedboard.server.runtime import Runtime, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """A finished round: the next board, not yet published, and what the round was."""

    board: Board
    requests: tuple[Request, ...]
    rejected_rows: int
    traffic: Traffic | None


def run_round(
    task: Task, board: Board, *, runtime: Runtime, ledger: Ledger, noise: NoiseSource, reissue: bool = False
) -> RoundResult:
    """Run one round.

    Guarantee: every number of the returned board that depends on data is a function of releases that are
    durably in the ledger; where the budget does not cover them, nothing is drawn and nothing returned.

    Args:
        task: what is learnt.
        board: the last published board.
        runtime: where the clients are.
        ledger: pays for the releases.
        noise: source of the noise.
        reissue: a resumed simulation may recompute the identical, seeded release that a crash kept from
            being published.

    Raises:
        BudgetExceededError: the round does not fit in what is left of the budget.
    """
    requests = task.requests(board)
    gathered = runtime.gather(board, requests)
    booked = {r.name: r.release.book(ledger, noise, reissue=reissue) for r in requests}
    released = runtime.open(gathered.sums, requests, booked)
    return RoundResult(
        board=task.update(board, released),
        requests=requests,
        rejected_rows=gathered.sums.rejected_rows,
        traffic=gathered.traffic,
    )


def lost_round(board: Board) -> Board:
    """The board after a round whose budget is spent but whose outcome was never published.

    Private noise cannot be drawn again, so the round is skipped: the same content, one version up.
    """
    return board.successor()


__all__ = ["RoundResult", "lost_round", "run_round"]
