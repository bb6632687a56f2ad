"""The round loop: nothing leaves that is not paid for, and the order is ask, sum, book, noise, publish."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.shared.ratings_config import with_noise
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FixedSizeCohort,
    Participation,
    PoissonParticipation,
    ShuffledCohorts,
)
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import kept_rows
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.round import RoundResult, lost_round, run_round
from fedboard.server.runtime import Gathered, NoisedSums
from tests.common.algorithms.conftest import a_prepared_board, a_task, population


@dataclass(frozen=True)
class InThisProcess:
    """The smallest runtime: one cohort, one call."""

    task: AdaDpals
    seed: int = 0

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        protocol = Trusted()
        rows = self.task.contribute(population(self.seed), board, tuple(requests))
        present = None if attendance is None else attendance.draw(rows.n_users)
        if present is not None:
            rows = kept_rows(rows, present)
        return Gathered(sums=protocol.combine([protocol.encode(rows, requests)], requests))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        return NoisedSums(sums=sums, requests=requests, booked=booked)


def a_round(task: AdaDpals, board: Board, ledger: Ledger, **how: Any) -> RoundResult:
    """In this process, with seeded noise unless told otherwise."""
    return run_round(
        task, board, ledger=ledger, **{"runtime": InThisProcess(task), "noise": SeededNoise(0), **how}
    )


def a_budget(epsilon: float = 5.0, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Budget:
    return Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency)


def test_a_complete_run_spends_its_budget_and_no_more(tmp_path: Path) -> None:
    task = a_task(epsilon=5.0)
    board = task.first_board(a_prepared_board(task).catalogue)
    with Ledger.create(tmp_path / "l", a_budget(), plan=task.settings.shared.noise_multipliers) as ledger:
        while task.requests(board):
            board = a_round(task, board, ledger).board
        spent = ledger.spent()

        assert {event["name"] for event in ledger.events()} == set(task.settings.shared.noise_multipliers)
    assert 4.999 < spent.epsilon <= 5.0


def test_a_round_that_the_budget_does_not_cover_gives_nothing(tmp_path: Path) -> None:
    task = a_task(epsilon=5.0)
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget(epsilon=0.5)) as ledger:
        with pytest.raises(BudgetExceededError, match="round-1/quadratic"):
            a_round(task, board, ledger)
        assert ledger.events() == []


def test_a_round_is_paid_for_whole_or_not_at_all(tmp_path: Path) -> None:
    task = a_task(epsilon=5.0)
    board = a_prepared_board(task)
    first = min(task.requests(board), key=lambda request: 1 / request.release.noise_multiplier)
    enough_for_one = epsilon_of(1e-5, mu=1.01 / first.release.noise_multiplier)
    with Ledger.create(tmp_path / "l", a_budget(epsilon=enough_for_one)) as ledger:
        with pytest.raises(BudgetExceededError):
            a_round(task, board, ledger)
        assert ledger.events() == []


def test_a_plan_that_overspends_is_refused_before_it_starts(tmp_path: Path) -> None:
    task = a_task(epsilon=5.0)
    halved = {name: z / 2 for name, z in task.settings.shared.noise_multipliers.items()}

    with pytest.raises(BudgetExceededError, match="plan"):
        Ledger.create(tmp_path / "l", a_budget(), plan=halved)
    assert not (tmp_path / "l").exists()


def test_less_noise_than_planned_is_refused(tmp_path: Path) -> None:
    task = a_task(epsilon=5.0)
    louder = {name: z * 0.99 for name, z in task.settings.shared.noise_multipliers.items()}
    cheating = AdaDpals(with_noise(task.settings, louder))

    with (
        Ledger.create(tmp_path / "l", a_budget(), plan=task.settings.shared.noise_multipliers) as ledger,
        pytest.raises(PrivacyError),
    ):
        a_round(cheating, a_prepared_board(task), ledger, runtime=InThisProcess(task))


def test_the_released_noise_has_the_booked_scale(tmp_path: Path) -> None:
    """Twin runs that differ only in their noise: the difference of what they release shows its deviation."""
    task = a_task(epsilon=1.0)
    board, runtime = a_prepared_board(task), InThisProcess(task)
    requests = task.requests(board)
    released = []
    for seed in (0, 1):
        with Ledger.create(tmp_path / f"l{seed}", a_budget(1.0)) as ledger:
            booked = {r.name: r.release.book(ledger, SeededNoise(seed)) for r in requests}
            sums = runtime.open(runtime.gather(board, requests).sums, requests, booked)
            released.append({r.name: sums.array(r.name) for r in requests})
            events = {event["name"]: event for event in ledger.events()}

    for request in requests:
        event = events[request.name]
        stated = event["noise_stddev"] * event["grid_step"] * np.sqrt(2.0)
        diagonal = np.cumsum([0, 4, 3, 2]) if request.release.layout == "symmetric" else slice(None)
        difference = (released[0][request.name] - released[1][request.name])[:, diagonal]
        assert 0.75 * stated < difference.std() < 1.25 * stated  # 100 draws: five deviations


def test_secure_noise_differs_from_run_to_run(tmp_path: Path) -> None:
    task = a_task()
    boards = []
    for number in (0, 1):
        with Ledger.create(tmp_path / f"l{number}", a_budget()) as ledger:
            result = a_round(task, a_prepared_board(task), ledger, noise=SecureNoise())
            boards.append(result.board)
    assert boards[0].digest != boards[1].digest


def test_every_release_of_every_round_has_noise_of_its_own(tmp_path: Path) -> None:
    """Two rounds with one stream differ by exact sums, and a seeded source gives one stream for one name."""
    task = a_task()
    drawn: dict[str, bytes] = {}

    class Listening(InThisProcess):
        def open(
            self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
        ) -> ReleasedSums:
            drawn.update({name: release.stream.bits(0, 4).tobytes() for name, release in booked.items()})
            return super().open(sums, requests, booked)

    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget(50.0)) as ledger:
        while task.requests(board):
            board = a_round(task, board, ledger, runtime=Listening(task)).board
    assert {"round-1/linear", "round-2/linear"} < set(drawn)
    assert len(set(drawn.values())) == len(drawn)


def test_the_same_release_cannot_be_made_twice(tmp_path: Path) -> None:
    task = a_task()
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget(50.0)) as ledger:
        a_round(task, board, ledger)
        with pytest.raises(PrivacyError):
            a_round(task, board, ledger)


def test_a_resumed_simulation_recomputes_the_identical_release_at_no_cost(tmp_path: Path) -> None:
    task = a_task()
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget()) as ledger:
        first = a_round(task, board, ledger)
        spent = ledger.spent().epsilon
        again = a_round(task, board, ledger, reissue=True)
        assert again.board.digest == first.board.digest
        assert ledger.spent().epsilon == spent
        with pytest.raises(PrivacyError):
            a_round(task, board, ledger, noise=SeededNoise(1), reissue=True)


@dataclass(frozen=True)
class AsksEverybody(InThisProcess):
    """A runtime that forgets to draw who takes part."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        return InThisProcess.gather(self, board, requests)


@dataclass(frozen=True)
class ClaimsAmplification(AdaDpals):
    """A task that states a sampling of its own, which nobody did."""

    def requests(self, board: Board) -> tuple[Request, ...]:
        stated = {"kind": "poisson", "probability": 0.01, "round": "round-1"}
        asked = AdaDpals.requests(self, board)
        return tuple(replace(r, release=replace(r.release, participation=stated)) for r in asked)


SAMPLED = [
    (PoissonParticipation(0.4), Adjacency.ADD_REMOVE),
    (FixedSizeCohort(10), Adjacency.REPLACE),
    (ShuffledCohorts(3), Adjacency.REPLACE),
]


@pytest.mark.parametrize(("participation", "adjacency"), SAMPLED)
def test_every_release_of_a_round_states_who_took_part(
    tmp_path: Path, participation: Participation, adjacency: Adjacency
) -> None:
    task = a_task(adjacency=adjacency)
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget(adjacency=adjacency)) as ledger:
        result = a_round(task, board, ledger, participation=participation)
        booked = [event["participation"] for event in ledger.events()]

    assert booked == [participation.event_field("round-1")] * len(result.requests)


@pytest.mark.parametrize(("participation", "adjacency"), SAMPLED)
def test_a_runtime_that_did_not_draw_releases_nothing(
    tmp_path: Path, participation: Participation, adjacency: Adjacency
) -> None:
    task = a_task(adjacency=adjacency)
    with Ledger.create(tmp_path / "l", a_budget(adjacency=adjacency)) as ledger:
        with pytest.raises(PrivacyError, match="nobody was drawn; nothing was released"):
            a_round(
                task, a_prepared_board(task), ledger, runtime=AsksEverybody(task), participation=participation
            )
        assert ledger.events() == []


def test_a_task_cannot_claim_amplification_for_itself(tmp_path: Path) -> None:
    task = ClaimsAmplification(a_task().settings)
    with Ledger.create(tmp_path / "l", a_budget()) as ledger:
        with pytest.raises(PrivacyError, match="states who takes part"):
            a_round(task, a_prepared_board(task), ledger)
        assert ledger.events() == []


def test_a_resumed_simulation_asks_the_same_users(tmp_path: Path) -> None:
    task, found = a_task(), []
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget()) as ledger:
        for reissue in (False, True):
            result = a_round(task, board, ledger, participation=PoissonParticipation(0.4), reissue=reissue)
            found.append(result.board.digest)
        with pytest.raises(PrivacyError):
            a_round(task, board, ledger, participation=PoissonParticipation(0.5), reissue=True)

    assert found[0] == found[1]


def test_a_sampled_round_that_was_paid_for_is_not_drawn_again_with_secure_noise(tmp_path: Path) -> None:
    task = a_task()
    board = a_prepared_board(task)
    with Ledger.create(tmp_path / "l", a_budget(50.0)) as ledger:
        for already_booked in (False, True):
            with pytest.raises(PrivacyError) if already_booked else nullcontext():
                a_round(
                    task,
                    board,
                    ledger,
                    noise=SecureNoise(),
                    participation=PoissonParticipation(0.4),
                    reissue=True,
                )
        assert len(ledger.events()) == len(task.requests(board))


def test_a_lost_round_changes_nothing_but_the_version() -> None:
    board = a_prepared_board(a_task())

    after = lost_round(board).board

    assert after.version == board.version + 1
    assert after.previous_digest == board.digest
    np.testing.assert_array_equal(after.arrays["item_factors"], board.arrays["item_factors"])


def test_a_published_board_carries_a_certificate_that_recomputes(tmp_path: Path) -> None:
    task = a_task()
    store = BoardStore(tmp_path)
    board = task.first_board(a_prepared_board(task).catalogue)
    with Ledger.create(tmp_path / "l", a_budget()) as ledger:
        while task.requests(board):
            result = a_round(task, board, ledger)
            board = store.publish(result.board, ledger, trust=Trusted().trust, dataset="made up")

    assert store.versions() == [1, 2, 3]
    latest = store.latest()
    certificate = Certificate.from_dict(dict(latest.certificate or {}))
    assert certificate.holds
    assert certificate.board_digest == latest.digest == board.digest
    assert not certificate.private
    assert certificate.claim.epsilon == pytest.approx(5.0, rel=1e-6)


def test_a_board_is_not_continued_with_another_ledger(tmp_path: Path) -> None:
    task = a_task()
    store = BoardStore(tmp_path)
    board = task.first_board(a_prepared_board(task).catalogue)
    with Ledger.create(tmp_path / "paid", a_budget()) as ledger:
        result = a_round(task, board, ledger, noise=SecureNoise())
        board = store.publish(result.board, ledger, trust=Trusted().trust, dataset="made up")
        require_same_history(board, ledger)

    with Ledger.create(tmp_path / "fresh", a_budget()) as another, pytest.raises(PrivacyError):
        require_same_history(board, another)


def test_a_board_without_data_claims_no_private_noise(tmp_path: Path) -> None:
    task = a_task()
    with Ledger.create(tmp_path / "l", a_budget()) as ledger:
        board = BoardStore(tmp_path).publish(
            task.first_board(a_prepared_board(task).catalogue), ledger, trust=Trusted().trust, dataset="none"
        )

    certificate = Certificate.from_dict(dict(board.certificate or {}))
    assert certificate.holds
    assert not certificate.private


def test_an_empty_store_has_no_board(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no board"):
        BoardStore(tmp_path).latest()
