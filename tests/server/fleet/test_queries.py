"""Questions to a fleet: what devices answer and what it costs; the answer is that of asking all data at once."""

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.client.participation.config import load_device
from fedboard.client.participation.opening import open_device
from fedboard.client.participation.records import MOST, AskedQuestions
from fedboard.client.participation.status import given_so_far
from fedboard.client.ratings.cohort_file import CohortFile
from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.board import Board, Catalogue
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.participation import FullParticipation
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import Answer, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.queries.collection import ROW_BOUND, Subject
from fedboard.common.queries.statement import QuestionStatement, StatedQuestion
from fedboard.common.queries.wording import Wording
from fedboard.server.fleet.backup import back_up, restore
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.queries import (
    PutQuery,
    Standing,
    account_path,
    give_up,
    put_query,
    queries_of,
    told,
)
from fedboard.server.fleet.settings import read_settings
from fedboard.server.fleet.state_folder import StateFolder
from fedboard.server.helper.service import RunningHelper
from fedboard.server.run_spec import HelperServer, ProtocolChoice
from fedboard.server.training import plan_of
from tests.client.asking import SERVER, asking, reply_to
from tests.server.fleet.asked_fleet import MEAN, NINE_IN_TEN, Asked, asked_fleet
from tests.server.fleet.deployed import NODES
from tests.server.fleet.local_fleet import killed_at_board


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return asked_fleet(tmp_path)


def all_their_data(asked: Asked) -> Path:
    """One table of what all devices hold."""
    place = asked.fleet.folder / "all.csv"
    with place.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("user", "item", "rating"))
        for number, name in enumerate(NODES):
            board = Board.load(asked.fleet.state.first_board)
            cohort = CohortFile.open(asked.fleet.folder / name / "cohort", first_row=None).cohort(board)
            rows = zip(cohort.user_of_entry(), cohort.items, cohort.ratings, strict=True)
            table.writerows((number * 1000 + int(u), int(i), float(r)) for u, i, r in rows)
    return place


@pytest.mark.slow
def test_the_answers_are_those_of_the_same_questions_to_all_their_data(asked: Asked) -> None:
    data, ledger = all_their_data(asked), asked.fleet.folder / "ledger"
    words = ("--data", data, "--rating-range", "1,5", "--epsilon", "0.5", "--mechanism", "gaussian", "--json")
    words = (*words, "--noise", "seeded", "--seed", "0", "--ledger", ledger)
    candidates = ",".join(map(str, NINE_IN_TEN.candidates or ()))
    quantile = ("quantile", "--of", "counts", "--share", "0.9", "--candidates", candidates)
    in_rounds = replace(NINE_IN_TEN, bisected=True)
    asks = ((MEAN, ("mean", "--budget", "2")), (NINE_IN_TEN, quantile), (in_rounds, (*quantile, "--bisect")))

    for wording, own in asks:
        put = asked.put(wording)
        asked.run(put)
        of_fleet = told(put).to_dict()
        of_data = CliRunner().invoke(commands, ["query", own[0], *map(str, words), *own[1:]])
        assert of_data.exit_code == 0, of_data.stderr
        expected = json.loads(of_data.stdout)
        expected["interval"] = expected["interval"] and tuple(expected["interval"])
        same = ("question", "value", "interval", "rank_error", "rank_unit", "noise", "release", "epsilon")
        assert {key: of_fleet[key] for key in same} == {key: expected[key] for key in same}
        assert of_fleet["spent"] <= expected["spent"] * (1 + 1e-9), "rounds that were not needed cost nothing"
        assert wording.bisected or of_fleet["spent"] == pytest.approx(expected["spent"])
    assert asked.heard == []


def shares_moved(asked: Asked) -> list[int]:
    """How many releases each device has booked."""
    return [len(given_so_far(load_device(asked.device(name)))[0]) for name in NODES]


def test_each_device_books_it_and_tells_its_owner_in_words_what_was_asked(asked: Asked) -> None:
    put = asked.put()
    board = asked.run(put)

    given, spent = given_so_far(load_device(asked.device("a")))
    assert [(entry.run.rpartition("-")[0], entry.release) for entry in given] == [
        ("trial-question-1", "question-1")
    ]
    assert spent == pytest.approx(0.5, rel=1e-9)
    (noted,) = load_device(asked.device("a")).asked().all()
    assert noted.answered
    assert noted.sentence == (
        "mean of ratings, numbers from 1 to 5, of ratings from 1 to 5, no user weighing more than 20 ratings, in 1 "
        "round, at epsilon 0.5 and delta 1e-05 (add-remove), over a catalogue of 60 items"
    )
    status = CliRunner().invoke(commands, ["status", "--device", str(asked.device("a"))])
    first = Board.load(put.state.first_board)
    assert f"yes       {first.digest[:16]}  {noted.sentence}" in status.stdout
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    assert certificate.holds
    assert certificate.population is not None
    assert (certificate.population.budget, certificate.claim.epsilon) == (2.0, pytest.approx(0.5))


def test_devices_answer_no_question_that_their_policy_does_not_name(asked: Asked) -> None:
    """Left out is none: whoever joined for recommendations has not agreed to be asked."""
    asked.policy(', questions = ["mean of ratings", "* of counts"]', "")
    put = asked.put()

    with pytest.raises(TooFewAnswersError):
        asked.run(put)

    assert set(asked.heard) == {Refusal.NOT_ALLOWED}
    assert shares_moved(asked) == [0] * len(NODES)
    (noted,) = load_device(asked.device("a")).asked().all()
    assert (noted.title, noted.answered) == ("mean of ratings", False)
    asked.policy("seeded_noise = true", 'seeded_noise = true, questions = ["mean of *"]')
    asked.run(put)
    assert put.standing() is Standing.ANSWERED


def test_the_same_question_again_and_again_ends_at_the_devices_limit_and_at_the_fleets(asked: Asked) -> None:
    asked.policy("seeded_noise = true", "seeded_noise = true, epsilon_of_questions = 0.6")
    asked.run(asked.put())
    again = asked.put()
    with pytest.raises(TooFewAnswersError):
        asked.run(again)

    assert set(asked.heard) == {Refusal.OVER_LIMIT}
    assert shares_moved(asked) == [1] * len(NODES)
    assert again.standing() is Standing.WAITING
    while (
        True
    ):  # until the account is used up, which Gaussian noise of 0.5 does to 2.0 at the tenth question or so
        try:
            asked.put()
        except BudgetExceededError:
            break
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) <= 2.0
        assert sum(len(member.booked) for member in account.members()) == 1
        assert len(account.members()) == len(list(asked.fleet.state.questions.glob("question-*")))


def test_a_question_to_fewer_than_the_quorum_releases_and_books_nothing(asked: Asked) -> None:
    put = asked.put()

    with pytest.raises(TooFewAnswersError, match="quorum is 3"):
        asked.run(put, nodes=("a", "b"), seconds=0.2)

    assert shares_moved(asked)[2:] == [0, 0]
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert [len(member.booked) for member in account.members()] == [0]
        assert account.cost(reserved=True) == pytest.approx(0.5)
    asked.run(put)
    assert put.standing() is Standing.ANSWERED
    assert shares_moved(asked) == [1] * len(NODES)


@pytest.mark.parametrize("protocol", ["secure-sum", "distributed-dp"])
def test_protocols_that_hide_rows_carry_it(asked: Asked, protocol: str) -> None:
    put = asked.put()
    asked.run(put, protocol=ProtocolChoice(name=protocol))

    # Of few devices' shares of the noise: 1.0 to 1.4 mostly, and 2.1 once in a while.
    require_near(put, most=2.0 if protocol == "secure-sum" else 4.0)


def test_two_servers_carry_it_for_devices_that_rely_on_the_second(asked: Asked) -> None:
    folder = asked.fleet.folder
    (folder / "token").write_text("ab" * 32)
    (folder / "token").chmod(0o600)
    with RunningHelper(
        state=folder / "helper",
        identity=folder / "identity.key",
        certificate=asked.fleet.keys.certificate,
        private_key=asked.fleet.keys.key,
        token=folder / "token",
    ) as helper:
        asked.policy("seeded_noise = true", f'seeded_noise = true, helper = "{helper.identity}"')
        place = HelperServer(
            address=f"127.0.0.1:{helper.port}",
            authority=asked.fleet.keys.authority,
            identity=helper.identity,
            token=folder / "token",
        )
        put = asked.put()
        sizes = {"most_items": 60, "most_users": 400}
        asked.run(put, protocol=ProtocolChoice(name="two-server", helper=place, settings=sizes))

    require_near(put, most=2.0)


def require_near(put: PutQuery, *, most: float) -> None:
    """Everybody's mean is near 3, and the interval not longer than this. Noise here has no seed: an interval of
    95 % misses in one run of twenty, one three times as long in one of many millions.
    """
    found = told(put)
    assert found.answer.interval is not None
    low, high = found.answer.interval
    length = high - low
    assert low - length < 3.0 < high + length
    assert 0.05 < length < most
    assert found.certificate.holds


def test_a_question_of_several_rounds_goes_on_where_its_server_was_killed(asked: Asked) -> None:
    wording = replace(NINE_IN_TEN, bisected=True)
    put = asked.put(wording)
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) == pytest.approx(0.5), "all rounds, before the first"
        assert account.cost(reserved=False) == 0.0
    with killed_at_board(2, published=True):
        asked.run(put)
    before = [entry.release for entry in given_so_far(load_device(asked.device("a")))[0]]

    last = asked.run(put)

    after = [entry.release for entry in given_so_far(load_device(asked.device("a")))[0]]
    assert before == ["question-1/1", "question-1/2"]
    assert after[:2] == before
    assert len(after) == len(set(after)) == last.version
    assert 4 <= last.version <= 5, "of 17 candidates"
    found = told(put)
    assert found.answer.value == 12.0
    assert found.answer.rank_error is not None
    assert found.certificate.population is not None
    assert found.certificate.population.spent <= 0.5 * (1 + 1e-9)


def test_the_training_counts_in_the_account_whole_before_and_after_it_was_made(asked: Asked) -> None:
    config = asked.fleet.folder / "fleet.toml"
    changed(config, "privacy = { seed", "privacy = { epsilon = 5.0, seed")
    changed(config, "epsilon = 2.0", "epsilon = 5.2")
    prepare(asked.settings)
    state = asked.fleet.state
    put = asked.put(epsilon=0.3)
    with Population.open(account_path(state), read_only=True) as account:
        reserved = account.cost(reserved=True)
        assert 5.0 < reserved < 5.2, "Gaussian noise of both adds up to less than the sum"
        training = account.members()[0]
        assert (training.name, training.booked) == ("trial", {})
    promise, task = asked.settings.promise, rebuild_any(Board.load(state.first_board))
    with Ledger.create(
        state.run / "ledger.sqlite", promise.budget, run="trial", plan=plan_of(task, FullParticipation())
    ) as ledger:
        for request in task.plan()[0]:
            request.release.book(ledger, promise.noise_source)

    with pytest.raises(BudgetExceededError):
        asked.put(epsilon=3.0)

    with Population.open(account_path(state), read_only=True) as account:
        assert list(account.members()[0].booked) == [request.name for request in task.plan()[0]]
        assert account.cost(reserved=True) == pytest.approx(reserved, rel=1e-9)
    assert put.standing() is Standing.WAITING
    changed(config, "epsilon = 5.2", "epsilon = 50.0")
    with pytest.raises(InputError, match=r"set queries\.epsilon back to 5\.2"):
        asked.put()


def test_a_training_that_was_counts_also_where_the_settings_leave_it_out_by_now(asked: Asked) -> None:
    promise, state = asked.settings.promise, asked.fleet.state
    task = rebuild_any(Board.load(state.first_board))
    Ledger.create(
        state.run / "ledger.sqlite", promise.budget, run="trial", plan=plan_of(task, FullParticipation())
    ).close()
    with pytest.raises(BudgetExceededError):
        asked.put(epsilon=0.1)


@pytest.mark.parametrize("section", ["queries = { epsilon = 2.0 }", ""])
def test_a_training_that_is_begun_after_queries_counts_beside_them(asked: Asked, section: str) -> None:
    asked.put(epsilon=1.9)
    config, state = asked.fleet.folder / "fleet.toml", asked.fleet.state
    text = config.read_text()
    for epsilon, code in ((1.5, 3), (0.3, 0)):
        config.write_text(text)
        changed(config, "queries = { epsilon = 2.0 }", section)
        changed(config, "privacy = { seed", f"privacy = {{ epsilon = {epsilon}, seed")
        state.first_board.unlink()  # another training was never begun
        found = CliRunner().invoke(commands, ["server", "--config", str(config), "--check"])
        assert found.exit_code == code, found.output
    with Population.open(account_path(state), read_only=True) as account:
        assert {member.name for member in account.members()} > {"trial"}
        assert 1.9 < account.cost(reserved=True) <= 2.0


def changed(config: Path, before: str, after: str) -> None:
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))


def answered(asked: Asked, name: str, question: Question) -> bytes:
    """What a device says to one question, out of its envelope."""
    with open_device(asked.device(name)) as (source, gate):
        return reply_to(replace(question), source=source, gate=gate)


def code_of(reply: bytes) -> Refusal | None:
    try:
        Answer.from_bytes(reply, limit=1 << 24)
    except RefusedError as refused:
        return refused.code
    return None


@pytest.fixture
def signed_by_tests(asked: Asked) -> Asked:
    """Devices that take the questions of the tests' own key."""
    SERVER.write(asked.fleet.folder / "other")
    for name in NODES:
        text = asked.device(name).read_text()
        asked.device(name).write_text(
            text.replace('"../keys/questions.pub', '"../other/question-signing.pub')
        )
    return asked


def question_about(asked: Asked, wording: Wording = MEAN, **changes: Any) -> Question:
    """A hostile server's question; changes are made to what stands on the board."""
    catalogue = Board.load(asked.fleet.state.first_board).catalogue
    catalogue = replace(catalogue, item_ids=changes.pop("item_ids", catalogue.item_ids), titles=None)
    told_as: dict[str, Any] = {"delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE, "release": "question-1"}
    board = StatedQuestion(wording.statement((1.0, 5.0), epsilon=0.5, **told_as)).first_board(catalogue)
    return asking(replace(board, config={**board.config, **changes}, _digest=[]), run="trial-question-1")


def test_a_question_that_is_altered_between_two_asks_gets_the_answer_to_the_first_alone(
    signed_by_tests: Asked,
) -> None:
    """Nor does the answer say which items anybody has."""
    asked = signed_by_tests
    first = question_about(asked)
    reply = answered(asked, "a", first)

    answer = Answer.from_bytes(reply, limit=1 << 24)
    assert answer.rows.items.size == 0
    assert answer.rows.totals["question-1"].sum(axis=1).max() <= ROW_BOUND
    assert answered(asked, "a", first) == reply
    for other in (replace(MEAN, bound=40.0), replace(MEAN, bound=1.0), replace(MEAN, subject=Subject.COUNTS)):
        assert code_of(answered(asked, "a", question_about(asked, other))) is Refusal.OTHER_HISTORY
    assert shares_moved(asked)[0] == 1
    asked.policy("seeded_noise = true", "seeded_noise = true, epsilon_of_questions = 0.4")
    assert code_of(answered(asked, "a", first)) is Refusal.OVER_LIMIT, "kept, and over the limit of today"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"noise_multipliers": {"question-1": 0.5}}, Refusal.BAD_BOARD),
        ({"epsilon": 0.1}, Refusal.BAD_BOARD),
        ({"weight": 1}, Refusal.BAD_BOARD),
        ({"bound": 0.0}, Refusal.BAD_BOARD),
        ({"kind": "quantile", "candidates": [1.0, 2.0]}, Refusal.NOT_ALLOWED),
        ({"item_ids": tuple(f"i{number}" for number in range(49))}, Refusal.SINGLES_OUT),
        ({"item_ids": ("i1",) * 60}, Refusal.SINGLES_OUT),
    ],
    ids=["noise", "epsilon", "unknown-key", "bound", "another-kind", "few-items", "one-item"],
)
def test_a_question_of_a_hostile_server_is_refused_before_a_rating_is_looked_at(
    signed_by_tests: Asked, changes: dict[str, Any], code: Refusal
) -> None:
    reply = answered(signed_by_tests, "a", question_about(signed_by_tests, **changes))

    assert code_of(reply) is code
    assert shares_moved(signed_by_tests)[0] == 0


def test_a_device_that_answers_published_boards_alone_answers_no_question_that_nobody_else_saw(
    signed_by_tests: Asked,
) -> None:
    signed_by_tests.policy("seeded_noise = true", "seeded_noise = true, published_only = true")

    reply = answered(signed_by_tests, "a", question_about(signed_by_tests))

    assert code_of(reply) is Refusal.NOT_PUBLISHED


@pytest.mark.parametrize("wording", [MEAN, replace(NINE_IN_TEN, bisected=True)], ids=["mean", "bisection"])
def test_rows_beyond_the_bound_and_below_nothing_are_left_out_by_the_server_too(wording: Wording) -> None:
    """Of a device that has thrown its own checks away."""
    request = StatedQuestion(question_statement(wording)).plan()[0][0]
    rows = np.array(
        [
            [ROW_BOUND, 0],
            [ROW_BOUND // 2, ROW_BOUND // 2],
            [ROW_BOUND + 1, 0],
            [-1, 5],
            [ROW_BOUND, ROW_BOUND],
        ]
    )
    given = Contribution(
        n_items=60,
        indptr=np.zeros(6, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        totals={request.name: rows},
    )
    running = RunningSums(requests=(request,), backend="numpy")

    running.add_rows(given)

    sums = running.sums()
    assert sums.rejected_rows == 3
    expected = [[ROW_BOUND + ROW_BOUND // 2, ROW_BOUND // 2]]
    np.testing.assert_array_equal(sums.block([request], 0, 1)[request.name], expected)


def question_statement(wording: Wording = MEAN) -> QuestionStatement:
    return wording.statement(
        (1.0, 5.0), release="question-1", epsilon=0.5, delta=1e-5, adjacency=Adjacency.ADD_REMOVE
    )


def test_the_list_of_a_device_keeps_the_newest_and_survives_its_process(tmp_path: Path) -> None:
    asked = AskedQuestions(tmp_path / "questions.json", clock=lambda: 7.0)
    board = StatedQuestion(question_statement()).first_board(Catalogue(item_ids=("i1",)))
    for number in range(MOST + 5):
        asked.note(f"run-{number}", question_statement(), board)
    asked.note(f"run-{MOST}", question_statement(), board, answered=True)

    again = AskedQuestions(tmp_path / "questions.json").all()

    assert len(again) == MOST
    assert again[-1].run == f"run-{MOST + 4}"
    assert [one.run for one in again if one.answered] == [f"run-{MOST}"]
    (tmp_path / "questions.json").write_text("[]")
    with pytest.raises(InputError, match="list of questions is damaged"):
        AskedQuestions(tmp_path / "questions.json")


@pytest.fixture
def ask(asked: Asked) -> Callable[..., Result]:
    """``fedboard query`` to the fleet, of which no server runs."""

    def typed(*words: str) -> Result:
        fleet = ("--fleet", str(asked.fleet.folder / "fleet.toml"))
        return CliRunner().invoke(commands, ["query", *words, *fleet])

    return typed


def test_a_question_is_put_listed_and_told_by_the_command_line(
    asked: Asked, ask: Callable[..., Result]
) -> None:
    put = ask(
        "quantile", "--of", "counts", "--bisect", "--candidates", "4,12,20", "--epsilon", "0.5", "--no-wait"
    )
    assert put.exit_code == 0, put.stderr
    assert "question-1: 0.5 quantile of counts, one of 3 numbers from 4 to 20" in put.stderr
    waiting = ask("results")
    assert re.search(r"question-1  waiting +[0-9a-f]{16}  0\.5 quantile of counts", waiting.stdout)
    early, none = ask("results", "question-1"), ask("results", "question-2", "--json")
    assert (early.exit_code, none.exit_code) == (2, 2)
    assert "is not answered yet" in early.stderr
    assert "its questions: question-1" in none.stderr
    (one,) = queries_of(asked.fleet.state)
    asked.run(one)

    listed = json.loads(ask("results", "--json").stdout)["questions"]
    answer = json.loads(ask("results", "question-1", "--json").stdout)

    assert [(each["name"], each["standing"], each["value"]) for each in listed] == [
        ("question-1", "answered", 12.0)
    ]
    assert (answer["value"], answer["epsilon"], answer["budget"]) == (12.0, 0.5, 2.0)
    assert Certificate.from_dict(answer["certificate"]).holds
    spoken = ask("results", "question-1").stdout
    assert "promised" in spoken
    assert "epsilon 2, the whole budget" in spoken
    assert "a simulation, not a private answer" in spoken


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--epsilon", "0.5", "--noise", "secure"), "--noise is for --data; a fleet has its own"),
        (("--epsilon", "0.5", "--budget", "1"), "--budget is for --data"),
        (("--epsilon", "0.5", "--mechanism", "pure"), "asked with Gaussian noise"),
        (("--epsilon", "0.5", "--data", "synthetic"), "who is asked?"),
        (("--epsilon", "0"), "epsilon must be in"),
        (("--epsilon", "0.5", "--of", "counts", "--bound", "3"), "the bound is for ratings"),
        (("--epsilon", "7"), "the budget is 2"),
    ],
    ids=str,
)
def test_what_cannot_be_put_is_a_sentence_and_takes_no_number(
    asked: Asked, ask: Callable[..., Result], words: tuple[str, ...], sentence: str
) -> None:
    refused = ask("mean", *words)

    assert refused.exit_code in (2, 3)
    assert sentence in refused.stderr
    assert not list(asked.fleet.state.questions.glob("question-*"))


def test_a_question_that_is_given_up_says_why_and_frees_what_was_reserved(
    asked: Asked, ask: Callable[..., Result]
) -> None:
    put = asked.put()

    give_up(put, asked.fleet.state, "nobody came.")

    assert put.standing() is Standing.CLOSED
    refused = ask("results", put.name)
    assert refused.exit_code == 1
    assert "question-1 was given up: nobody came; nothing" in refused.stderr
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) == 0.0
    with pytest.raises(PrivacyError, match="closed"):
        asked.run(put)


def test_a_question_that_is_only_half_written_is_asked_of_nobody_and_stays_paid_for(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server dies between the ledger, which comes first, and the board, by which it is listed."""

    def died(board: Board, path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Board, "save", died)
        with pytest.raises(KeyboardInterrupt):
            asked.put()

    assert queries_of(asked.fleet.state) == []
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) == pytest.approx(0.5, rel=1e-6)
    assert asked.put().name == "question-2"


@pytest.mark.parametrize("stopped", [True, False])
def test_a_backup_brings_the_account_back_and_asks_nothing_on_it_that_might_be_spent_already(
    asked: Asked, tmp_path: Path, stopped: bool
) -> None:
    first, _ = asked.put(), asked.put()
    asked.run(first)
    place, _ = back_up(asked.settings, asked.fleet.folder / "fleet.toml", tmp_path / "backup")

    restored = restore(place, tmp_path / "new", stopped=stopped, closed=not stopped)

    settings = read_settings(restored.config)
    state = StateFolder.of(settings)
    assert [put.standing() for put in queries_of(state)] == [Standing.ANSWERED, Standing.CLOSED]
    assert told(queries_of(state)[0]) == told(first)
    with Population.open(account_path(state), read_only=True) as account:
        assert account.cost(reserved=True) == pytest.approx(epsilon_of(1e-5, mu=2**0.5 * mu_for(0.5, 1e-5)))
    if stopped:
        assert put_query(settings, MEAN, epsilon=0.5).name == "question-3"
    else:
        with pytest.raises(PrivacyError, match="nobody can show what was asked since"):
            put_query(settings, MEAN, epsilon=0.5)
