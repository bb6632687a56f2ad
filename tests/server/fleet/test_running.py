"""A job from beginning to end: interrupted anywhere it goes on, and nothing is ever released twice."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Catalogue
from fedboard.common.certificate import Certificate
from fedboard.common.errors import (
    BudgetExceededError,
    FedboardError,
    InputError,
    PrivacyError,
    TooFewAnswersError,
)
from fedboard.common.messages.question import Question, refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.server.operating.run_files import Fares
from fedboard.server.publication import BoardStore
from fedboard.server.training import FinishedRound
from tests.common.algorithms.conftest import a_task
from tests.server.fleet.local_fleet import (
    FIRST_BOARD,
    N_NODES,
    TASK,
    Fleet,
    KilledError,
    Tamper,
    digests,
    events,
    killed_at_board,
)

N_ROUNDS = 3
PLAN = [[request.name for request in requests] for requests in TASK.plan()]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run with seeded noise. To be read only."""
    folder = tmp_path_factory.mktemp("calm") / "run"
    Fleet(folder).run()
    return folder


def booked(folder: Path) -> list[str]:
    return [str(event["name"]) for event in events(folder)]


def refusing_in(*rounds: int) -> Tamper:
    def tamper(question: Question, honest: bytes) -> bytes:
        return refusal(Refusal.OVER_LIMIT) if question.round in rounds else honest

    return tamper


def below_the_quorum_in(*rounds: int) -> dict[int, Tamper]:
    return {number: refusing_in(*rounds) for number in range(1, N_NODES)}


def assert_same_but_for_its_key(asked: list[Question]) -> None:
    assert len(asked) == len({question.reply_key for question in asked}) == 2
    assert len({replace(question, reply_key=b"").content for question in asked}) == 1


def factors(folder: Path, version: int) -> Any:
    return BoardStore(folder / "boards").load(version).arrays["item_factors"]


def test_a_run_publishes_every_board_with_its_certificate(calm: Path) -> None:
    store = BoardStore(calm / "boards")

    assert store.versions() == [0, 1, 2, 3]
    assert store.load(0).digest == FIRST_BOARD.digest
    for before, after in zip(digests(calm), [store.load(version) for version in (1, 2, 3)], strict=False):
        certificate = Certificate.from_dict(dict(after.certificate or {}))
        assert after.previous_digest == before
        assert certificate.holds
        assert certificate.board_digest == after.digest
    assert booked(calm) == [name for names in PLAN for name in names]
    last = Certificate.from_json((calm / "certificate.json").read_text())
    assert last.board_digest == store.latest().digest
    assert 4.99 < last.claim.epsilon <= 5.0


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_a_round_below_the_quorum_is_given_up_with_its_budget_and_the_run_goes_on(
    tmp_path: Path, noise: str
) -> None:
    folder = tmp_path / "run"

    outcome = Fleet(folder, tampers=below_the_quorum_in(1), settings={"quorum": 3, "noise": noise}).run()

    assert outcome.board.version == N_ROUNDS
    assert booked(folder) == [name for names in PLAN for name in names]  # paid for, though nothing came of it
    np.testing.assert_array_equal(factors(folder, 2), factors(folder, 1))
    assert not np.array_equal(factors(folder, 3), factors(folder, 2))
    assert [line["releases"] for line in outcome.rounds] == [PLAN[0], [], PLAN[2]]
    assert outcome.rounds[1]["refused"] == {"over-limit": N_NODES - 1}
    certificate = Certificate.from_dict(dict(outcome.board.certificate or {}))
    assert certificate.holds
    assert 4.99 < certificate.claim.epsilon <= 5.0


def test_a_round_with_fewer_users_than_take_part_is_given_up_too(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    outcome = Fleet(folder, tampers={3: refusing_in(1)}, settings={"size": 35}).run()

    assert outcome.board.version == N_ROUNDS
    assert [line["releases"] for line in outcome.rounds] == [PLAN[0], [], PLAN[2]]
    assert booked(folder) == [name for names in PLAN for name in names]


def test_a_preparation_below_the_quorum_books_nothing_and_the_next_run_makes_it(
    tmp_path: Path, calm: Path
) -> None:
    folder = tmp_path / "run"

    for _ in range(2):
        with pytest.raises(TooFewAnswersError):
            Fleet(folder, tampers=below_the_quorum_in(0), settings={"quorum": 3}).run()
        assert events(folder) == []
        assert BoardStore(folder / "boards").versions() == [0]

    outcome = Fleet(folder, settings={"quorum": 3}).run()
    assert outcome.board.version == N_ROUNDS
    assert digests(folder) == digests(calm)


def test_a_preparation_that_is_asked_again_is_the_same_question(tmp_path: Path) -> None:
    """So devices that answered send the bytes that they kept, and book nothing more."""
    asked: list[Question] = []

    def listening(question: Question, honest: bytes) -> bytes:
        if question.round == 0:
            asked.append(question)
        return honest

    fleet = Fleet(tmp_path / "run", tampers={**below_the_quorum_in(0), 0: listening}, settings={"quorum": 3})
    with pytest.raises(TooFewAnswersError):
        fleet.run()
    Fleet(tmp_path / "run", tampers={0: listening}, settings={"quorum": 3}).run()

    assert_same_but_for_its_key(asked)


@pytest.mark.slow
def test_two_runs_of_one_job_are_two_runs_to_the_devices(tmp_path: Path) -> None:
    names: list[str] = []

    def listening(question: Question, honest: bytes) -> bytes:
        names.append(question.run)
        return honest

    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        Fleet(tmp_path / folder / "run", tampers={0: listening}).run()

    assert len(set(names)) == 2
    assert len(names) == 2 * N_ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_seeded_noise_is_drawn_again_after_an_interruption(tmp_path: Path, calm: Path, version: int) -> None:
    folder = tmp_path / "run"
    with killed_at_board(version):
        Fleet(folder).run()

    Fleet(folder).run()

    assert digests(folder) == digests(calm)
    assert booked(folder) == booked(calm)
    assert [line["round"] for line in RoundLog(folder / "rounds.jsonl").lines()] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_round_that_was_booked_and_not_published_is_lost_with_secure_noise(
    tmp_path: Path, version: int
) -> None:
    folder = tmp_path / "run"
    with killed_at_board(version):
        Fleet(folder, settings={"noise": "secure"}).run()
    before = events(folder)

    outcome = Fleet(folder, settings={"noise": "secure"}).run()

    assert events(folder)[: len(before)] == before
    assert sorted(booked(folder)) == sorted(name for names in PLAN for name in names)  # each name once
    np.testing.assert_array_equal(factors(folder, version), factors(folder, version - 1))
    assert outcome.asked == [N_ROUNDS - version] * N_NODES  # nobody is asked in the lost round
    assert Certificate.from_dict(dict(outcome.board.certificate or {})).holds


def test_a_preparation_that_was_booked_and_not_published_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with killed_at_board(1):
        Fleet(folder, settings={"noise": "secure"}).run()

    for _ in range(2):
        with pytest.raises(PrivacyError, match="paid for but never published"):
            Fleet(folder, settings={"noise": "secure"}).run()
    assert booked(folder) == PLAN[0]


def test_a_server_that_ends_while_it_waits_asks_the_same_again(tmp_path: Path, calm: Path) -> None:
    """Nothing was booked yet, so the round is not lost even with secure noise."""
    folder, asked = tmp_path / "run", list[Question]()

    def ending(question: Question, honest: bytes) -> bytes:
        if question.round == 1:
            asked.append(question)
        return honest

    def ends(nodes: list[int]) -> None:
        if asked:
            raise KilledError

    fleet = Fleet(folder, tampers={0: ending}, settings={"noise": "secure"})
    fleet.weather.looked = ends
    with pytest.raises(KilledError):
        fleet.run()
    assert booked(folder) == PLAN[0]

    fleet.weather.looked = lambda nodes: None
    assert fleet.run().board.version == N_ROUNDS
    assert_same_but_for_its_key(asked)
    assert booked(folder) == booked(calm)


def test_a_finished_job_asks_nobody_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = Fleet(folder).run()
    before = (digests(folder), events(folder), (folder / "certificate.json").read_bytes())

    again = Fleet(folder).run()

    assert again.asked == [0] * N_NODES
    assert again.board.digest == first.board.digest
    assert (digests(folder), events(folder), (folder / "certificate.json").read_bytes()) == before


def test_a_certificate_that_was_lost_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Fleet(folder).run()
    (folder / "certificate.json").unlink()

    Fleet(folder).run()

    assert Certificate.from_json((folder / "certificate.json").read_text()).holds


def test_a_line_that_a_crash_cut_short_is_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fleet = Fleet(folder, tampers=below_the_quorum_in(0), settings={"quorum": 3})
    with pytest.raises(TooFewAnswersError):
        fleet.run()
    (folder / "rounds.jsonl").write_text('{"round": 0, "ans')

    outcome = Fleet(folder).run()

    assert [line["round"] for line in outcome.rounds] == [0, 1, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_whose_server_ended_between_its_board_and_its_line_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder, append = tmp_path / "run", RoundLog.append

    def killed(self: RoundLog, finished: FinishedRound, told: Mapping[str, Any]) -> None:
        if finished.board.version - 1 == number:
            raise KilledError
        append(self, finished, told)

    monkeypatch.setattr(RoundLog, "append", killed)
    with pytest.raises(KilledError):
        Fleet(folder).run()
    monkeypatch.setattr(RoundLog, "append", append)

    outcome = Fleet(folder).run()

    fares = Fares.of(outcome.rounds)
    assert [line["round"] for line in outcome.rounds] == [0, 1, 2]
    assert (fares.planned, fares.made, fares.lost) == (3, 3, 0)
    assert [line["releases"] for line in outcome.rounds] == [list(names) for names in PLAN]
    assert [line.get("unlogged", False) for line in outcome.rounds] == [n == number for n in range(3)]
    assert outcome.rounds[-1]["epsilon_spent"] == pytest.approx(5.0)


def test_a_run_is_not_continued_with_other_settings_or_items(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Fleet(folder).run()
    other = a_task(clip_norm=0.3)
    items = Catalogue(item_ids=tuple(f"item-{number}" for number in range(25)))

    for board in (other.first_board(FIRST_BOARD.catalogue), replace(FIRST_BOARD, catalogue=items)):
        with pytest.raises(InputError, match="other settings or items; start a new run"):
            Fleet(folder, first_board=replace(board, _digest=[])).run()


def test_a_run_is_not_continued_with_another_budget(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Fleet(folder).run()

    with pytest.raises(PrivacyError, match="another budget or plan"):
        Fleet(folder, settings={"epsilon": 6.0}).run()


def test_a_plan_that_the_budget_does_not_cover_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "run", settings={"epsilon": 1.0})

    with pytest.raises(BudgetExceededError, match="plan"):
        fleet.run()
    assert BoardStore(tmp_path / "run" / "boards").versions() == []


def test_a_run_without_its_ledger_is_not_continued(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Fleet(folder).run()
    (folder / "ledger.sqlite").unlink()

    with pytest.raises(PrivacyError, match="restore ledger"):
        Fleet(folder).run()


def test_a_board_that_holds_data_is_no_first_board(tmp_path: Path, calm: Path) -> None:
    """Another ledger paid for it; this one would certify that nobody did."""
    for version in (1, 3):
        board = BoardStore(calm / "boards").load(version)
        with pytest.raises(InputError, match="version 0"):
            Fleet(tmp_path / str(version), first_board=board).run()
        assert BoardStore(tmp_path / str(version) / "boards").versions() == []


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"probability": 1.5}, "probability"),
    ({"features": "none.npy"}, "no item features can be read there"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"delta": 2.0}, "delta"),
    ({"population": "no-such-account"}, "no-such-account"),
]


@pytest.mark.parametrize(("wrong", "says"), IMPOSSIBLE, ids=lambda value: str(value)[:30])
def test_a_job_that_cannot_run_asks_nobody(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    fleet = Fleet(tmp_path / "run", settings=wrong)
    nodes = fleet.nodes()

    with pytest.raises(FedboardError, match=says):
        run_job(nodes, fleet.job)
    assert nodes.asked == [0] * N_NODES


def test_certificates_count_the_rounds_that_were_planned_made_and_lost(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    Fleet(folder, tampers=below_the_quorum_in(1), settings={"quorum": 3}).run()

    store = BoardStore(folder / "boards")
    certificates = [Certificate.from_dict(dict(store.load(n).certificate or {})) for n in store.versions()]
    counted = [certificate.rounds for certificate in certificates if certificate.rounds is not None]
    assert [(one.planned, one.made, one.lost) for one in counted] == [
        (3, 0, 0),
        (3, 1, 0),
        (3, 1, 1),
        (3, 2, 1),
    ]
    assert all(certificate.holds for certificate in certificates)
    assert "Of 3 planned rounds 2 were made, 1 lost with their budget" in " ".join(
        certificates[-1].statements
    )


def test_a_server_that_starts_again_goes_on_counting(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with killed_at_board(3):
        Fleet(folder, tampers=below_the_quorum_in(1), settings={"quorum": 3, "noise": "secure"}).run()

    outcome = Fleet(folder, settings={"quorum": 3, "noise": "secure"}).run()

    rounds = Certificate.from_dict(dict(outcome.board.certificate or {})).rounds
    assert rounds is not None
    assert (rounds.planned, rounds.made, rounds.lost) == (
        3,
        1,
        2,
    )  # one below its quorum, one with the server
