"""Runs under distributed-dp: what is booked, what a certificate says, and what is lost with a round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance, PoissonParticipation
from fedboard.common.errors import BudgetExceededError, PrivacyError, TooFewAnswersError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocol import ExactSums, Given
from fedboard.common.protocols.distributed_dp import DistributedDp
from fedboard.common.task import ReleasedSums
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.server.training import Training
from fedboard.simulations.sessions.session import Lost, drive, nobody_lost
from tests.common.algorithms.conftest import a_prepared_board, a_task, population

CLIENTS, ABOUT = 10, b"a run"


def lost_ones(*numbers: int) -> Lost:
    """These clients' contributions never arrive."""
    return lambda step, name: step == 2 and int(name.removeprefix("client-")) in numbers


@dataclass(frozen=True)
class Sessions:
    """A runtime whose clients host a tenth of the users each."""

    protocol: DistributedDp
    task: Any
    lost: Mapping[int, Lost]
    """By the version of the board that is asked about."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        names, asked = [f"client-{k}" for k in range(CLIENTS)], tuple(requests)
        server = self.protocol.open(ABOUT, asked, names, n_items=board.catalogue.n_items)
        given, sides = {}, {}
        for k, name in enumerate(names):
            rows = self.task.contribute(population().rows(4 * k, 4 * k + 4), board, asked)
            given[name] = Given(contribution=rows, requests=asked)
            sides[name] = self.protocol.join(ABOUT, SeededNoise(100 * board.version + k))
        return Gathered(sums=drive(server, sides, given, self.lost.get(board.version, nobody_lost)))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        return NoisedSums(sums=sums, requests=requests, booked=booked)


def a_protocol() -> DistributedDp:
    return DistributedDp.sized(clients=CLIENTS, users=40, settings={})


def a_run(folder: Path, ledger: Ledger, drawn: NoiseSource, **lost: Lost) -> Training:
    protocol, task = a_protocol(), a_task()
    by_version = {int(name.removeprefix("round_")): who for name, who in lost.items()}
    return Training(
        task=task,
        store=BoardStore(folder),
        ledger=ledger,
        runtime=Sessions(protocol, task, by_version),
        noise=protocol.noise(drawn),
        trust=protocol.trust,
        dataset="a test",
    )


def an_empty_ledger(folder: Path, epsilon: float = 5.0) -> Ledger:
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    return Ledger.create(folder / "ledger.sqlite", budget)


def first_board() -> Board:
    task = a_task()
    return task.first_board(a_prepared_board(task).catalogue)


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [SecureNoise(), SeededNoise(4)], ids=["secure", "seeded"])
def test_a_run_books_its_shares_and_its_certificate_holds(tmp_path: Path, drawn: NoiseSource) -> None:
    with an_empty_ledger(tmp_path) as ledger:
        run = a_run(tmp_path, ledger, drawn)
        *_, last = run.rounds(run.start(first_board()))
        events = ledger.events()

    certificate = Certificate.from_dict(dict(last.board.certificate or {}))
    assert all(event["shares"] == {"least": 6} for event in events)
    assert 4.9 < last.spent.epsilon <= 5.0
    assert certificate.holds
    assert certificate.private is drawn.private
    assert "at least 6 of them honest" in certificate.noise
    assert any("At least 6 of the clients" in sentence for sentence in certificate.trust)
    forged = replace(certificate, releases=tuple({**e, "shares": {"least": 9}} for e in certificate.releases))
    assert not forged.holds


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [SecureNoise(), SeededNoise(4)], ids=["secure", "seeded"])
def test_a_round_with_too_few_survivors_is_booked_and_skipped(tmp_path: Path, drawn: NoiseSource) -> None:
    with an_empty_ledger(tmp_path) as ledger:
        run = a_run(tmp_path, ledger, drawn, round_1=lost_ones(0, 1, 2, 3))
        finished = list(run.rounds(run.start(first_board())))
        booked = {event["name"] for event in ledger.events()}

    skipped = next(entry for entry in finished if not entry.releases)
    assert skipped.board.version == 2
    assert {"round-1/quadratic", "round-1/linear"} <= booked
    certificate = Certificate.from_dict(dict(skipped.board.certificate or {}))
    assert certificate.holds
    assert {"round-1/quadratic", "round-1/linear"} <= {event["name"] for event in certificate.releases}


def test_a_lost_preparation_is_paid_for_if_somebody_gave(tmp_path: Path) -> None:
    with an_empty_ledger(tmp_path) as ledger:
        run = a_run(tmp_path, ledger, SecureNoise(), round_0=lost_ones(0, 1, 2, 3))
        board = run.start(first_board())
        with pytest.raises(TooFewAnswersError):
            next(run.rounds(board))
        assert {event["name"] for event in ledger.events()} == {r.name for r in run.task.requests(board)}
        with pytest.raises(PrivacyError, match="cannot be drawn again"):
            next(run.rounds(board))


@dataclass(frozen=True)
class NobodyIsAsked(Sessions):
    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        raise AssertionError("somebody was asked")


def test_secret_coins_are_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with an_empty_ledger(tmp_path) as ledger:
        run = a_run(tmp_path, ledger, SecureNoise())
        run.participation = PoissonParticipation(0.5)
        run.runtime = NobodyIsAsked(a_protocol(), run.task, {})
        with pytest.raises(PrivacyError, match="whose coins the server knows"):
            next(run.rounds(run.start(first_board())))
        assert not ledger.events()


def test_what_the_budget_does_not_cover_is_not_asked_for(tmp_path: Path) -> None:
    """The clients' sums are released when they are sent."""
    with an_empty_ledger(tmp_path, epsilon=0.01) as ledger:
        run = a_run(tmp_path, ledger, SecureNoise())
        run.runtime = NobodyIsAsked(a_protocol(), run.task, {})
        with pytest.raises(BudgetExceededError):
            next(run.rounds(run.start(first_board())))
        assert not ledger.events()


class InterruptedRunError(Exception):
    pass


@dataclass(frozen=True)
class Crashing(Sessions):
    """The server dies when the round is booked and not published."""

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        raise InterruptedRunError


@pytest.mark.slow
def test_after_a_crash_private_shares_are_not_drawn_again_and_seeded_ones_give_the_same_board(
    tmp_path: Path,
) -> None:
    last = {}
    for name, drawn in (("secure", SecureNoise()), ("seeded", SeededNoise(4)), ("whole", SeededNoise(4))):
        (tmp_path / name).mkdir()
        with an_empty_ledger(tmp_path / name) as ledger:
            run = a_run(tmp_path / name, ledger, drawn)
            board = next(run.rounds(run.start(first_board()))).board
            if name != "whole":
                sound = run.runtime
                assert isinstance(sound, Sessions)
                run.runtime = Crashing(sound.protocol, sound.task, sound.lost)
                with pytest.raises(InterruptedRunError):
                    next(run.rounds(board))
                run.runtime = sound
            last[name] = next(run.rounds(board))

    assert not last["secure"].releases
    assert last["seeded"].board.digest == last["whole"].board.digest
