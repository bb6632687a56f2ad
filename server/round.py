"""The round loop: draw who takes part, ask, sum, book, noise, update. The order is the guarantee."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FullParticipation,
    Participation,
    round_name,
)
from fedboard.common.kernels.blas_threads import one_blas_thread_here
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease, GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import SharedNoise, coins_of
from fedboard.common.task import RoundTask
from fedboard.server.runtime import Runtime, Traffic

_EVERYBODY = FullParticipation()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """A finished round: the next board, not yet published, and what the round was."""

    board: Board
    requests: tuple[Request, ...]
    rejected_rows: int
    traffic: Traffic | None


@one_blas_thread_here()
def run_round(
    task: RoundTask,
    board: Board,
    *,
    runtime: Runtime,
    ledger: Ledger,
    noise: NoiseSource,
    participation: Participation = _EVERYBODY,
    reissue: bool = False,
    part: str = "",
) -> RoundResult:
    """Run one round.

    Guarantee: every number of the returned board that depends on data is a function of releases that are
    durably in the ledger; where the budget does not cover them, no noise is drawn and nothing returned. What
    the releases state about who took part was drawn by the object that states it. The numbers do not depend on how
    many cores there are: linear algebra of this process has one thread meanwhile.

    Args:
        task: what is learnt.
        board: the last published board.
        runtime: where the clients are.
        ledger: pays for the releases.
        noise: source of the noise, and of the coins that decide who takes part.
        participation: decides who takes part.
        reissue: a resumed simulation may recompute the identical, seeded release that a crash kept from
            being published.
        part: put before each release's name in the ledger, where one ledger pays for several runs. Public.

    Raises:
        BudgetExceededError: the round does not fit in what is left of the budget.
        PrivacyError: a request of the task states who takes part, the runtime did not draw it, or it cannot be
            accounted with noise that the clients add.
    """
    attendance = Attendance(
        participation=participation, name=round_name(board.version), noise=coins_of(noise)
    )
    requests = attendance.mark(task.requests(board))
    if isinstance(noise, SharedNoise):  # what the clients send is a release already
        ledger.require_affordable(_events(requests, noise, part))
    gathered = runtime.gather(board, requests, attendance)
    attendance.require_drawn()
    booked = book(requests, ledger, noise, reissue=reissue, part=part)
    released = runtime.open(gathered.sums, requests, booked)
    return RoundResult(
        board=task.update(board, released),
        requests=requests,
        rejected_rows=gathered.sums.rejected_rows,
        traffic=gathered.traffic,
    )


def book_lost(
    task: RoundTask,
    board: Board,
    *,
    ledger: Ledger,
    noise: NoiseSource,
    participation: Participation = _EVERYBODY,
    part: str = "",
) -> None:
    """Pay for a round that is given up: its clients have booked it, so nothing may ever be released in its name.

    Raises:
        BudgetExceededError: the round does not fit in what is left of the budget.
    """
    attendance = Attendance(
        participation=participation, name=round_name(board.version), noise=coins_of(noise)
    )
    book(attendance.mark(task.requests(board)), ledger, noise, reissue=True, part=part)


def _paid(request: Request, part: str) -> GaussianRelease:
    """The release as the ledger knows it. Its noise goes by this name too, so that no two parts share any."""
    release = request.release
    return replace(release, name=part + release.name) if part else release


def _events(requests: Sequence[Request], noise: NoiseSource, part: str) -> list[dict[str, Any]]:
    return [{**_paid(request, part).event(), **noise.describe()} for request in requests]


def book(
    requests: Sequence[Request], ledger: Ledger, noise: NoiseSource, *, reissue: bool = False, part: str = ""
) -> dict[str, BookedRelease]:
    """Pay for a whole round at once: its releases share their coins, and a round is published whole or not.

    Args:
        requests: of the round, or of several that are asked only if all of them are paid for.
        ledger: pays.
        noise: source of the noise.
        reissue: as of ``run_round``, like ``part``.
        part: before each release's name in the ledger.

    Returns:
        By the name of the request, what draws its noise.

    Raises:
        BudgetExceededError: they do not fit in what is left of the budget; none is booked.
    """
    events = _events(requests, noise, part)
    receipts = ledger.book_all(events, reissue=reissue)
    booked = {}
    for request, event, receipt in zip(requests, events, receipts, strict=True):
        paid = _paid(request, part)
        booked[request.name] = BookedRelease(
            release=paid, event=event, receipt=receipt, stream=noise.stream(paid.name)
        )
    return booked


def lost_round(board: Board) -> RoundResult:
    """A round whose budget is spent but which was given up, or never published.

    Private noise cannot be drawn again, so the round is skipped: the same content, one version up.
    """
    return RoundResult(board=board.successor(), requests=(), rejected_rows=0, traffic=None)
