"""``fedboard query``: answers, who pays, and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.client.verification.evidence import Evidence
from fedboard.client.verification.verification import verify_evidence
from fedboard.common.certificate import Certificate, certify
from fedboard.common.privacy.ledger.population import Population
from tests.common.privacy.commitments import planned

Command = Callable[..., Result]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    lines = [f"{user},{item},{1 + (user + item) % 5}" for user in range(300) for item in range(1 + user % 20)]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return path


@pytest.fixture
def question(fedboard: Command, ratings: Path, tmp_path: Path) -> Command:
    def asked(kind: str, *arguments: str | Path) -> Result:
        common = ("--data", ratings, "--rating-range", "1,5", "--epsilon", "0.5")
        return fedboard("query", kind, *common, *arguments)

    return asked


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "questions.ledger"


def test_a_first_question_makes_its_ledger_and_later_ones_use_it_up(
    question: Command, fedboard: Command, ledger: Path
) -> None:
    first = question("mean", "--ledger", ledger, "--budget", "1", "--json")
    second = question("quantile", "--ledger", ledger, "--json")
    third = question("mean", "--of", "counts", "--ledger", ledger)

    told = [json.loads(result.stdout) for result in (first, second)]
    assert [answer["mechanism"] for answer in told] == ["pure", "pure"]
    assert [answer["release"] for answer in told] == ["question-1", "question-2"]
    assert told[0]["interval"][0] <= told[0]["value"] <= told[0]["interval"][1]
    assert told[1]["spent"] == pytest.approx(1.0)
    assert told[1]["private"] is True
    assert Certificate.from_dict(told[1]["certificate"]).holds
    assert third.exit_code != 0
    assert "question-3' is refused: spent epsilon 1, with it 1.5" in third.stderr
    assert fedboard("certificate", "verify", ledger).exit_code == 0
    account = fedboard("account", ledger, "--json")
    assert json.loads(account.stdout)["epsilon"] == pytest.approx(
        1.0
    )  # not the 0.99 of a plan's loss distributions
    assert "the budget, which holds however each was chosen" in fedboard("account", ledger).stdout
    left = fedboard("ledger", "show", ledger).stdout
    assert "Nothing is left for Gaussian releases." in left
    assert "Left for questions of delta 0 if it stays at those: epsilon 0." in left


def test_the_certificate_is_a_file_that_verifies(
    question: Command, fedboard: Command, ledger: Path, tmp_path: Path
) -> None:
    place = tmp_path / "certificate.json"
    told = question("quantile", "--of", "norms", "--ledger", ledger, "--budget", "1", "--certificate", place)

    assert told.exit_code == 0, told.stderr
    assert re.search(r"rank error, 95 % +at most [\d.]+ users\n", told.stdout)
    assert "epsilon 0.5 of 1 at delta 1e-05, add-remove" in told.stdout
    assert fedboard("certificate", "verify", place).exit_code == 0
    assert "user" in fedboard("certificate", "show", place).stdout


def test_a_certificate_that_states_a_plan_which_its_ledger_has_not_is_caught(
    question: Command, fedboard: Command, ledger: Path
) -> None:
    asked = question("mean", "--ledger", ledger, "--budget", "1", "--mechanism", "gaussian", "--json")
    honest = Certificate.from_dict(json.loads(asked.stdout)["certificate"])
    forged = certify(
        honest.releases,
        commitment=planned(honest.releases),
        trust=honest.trust,
        assumptions=honest.assumptions,
        dataset=honest.dataset,
        ledger_head=honest.ledger_head,
    )

    assert not honest.planned
    assert forged.holds
    for certificate, holds in ((honest, True), (forged, False)):
        failed = verify_evidence(Evidence(certificate=certificate, ledger=ledger)).failed
        assert [finding.check for finding in failed] == (
            [] if holds else ["published releases", "commitment"]
        )


def test_a_population_pays_and_counts_the_question_beside_its_runs(
    question: Command, fedboard: Command, tmp_path: Path
) -> None:
    account = tmp_path / "members.ledger"
    assert fedboard("ledger", "create", account, "--epsilon", "1", "--delta", "1e-6").exit_code == 0
    told = json.loads(question("mean", "--population", account, "--json").stdout)
    again = question("mean", "--population", account)
    beyond = question("mean", "--population", account)

    assert told["certificate"]["population"]["spent"] == pytest.approx(0.5)
    assert again.exit_code == 0, again.stderr
    assert beyond.exit_code != 0
    assert "the budget is 1" in beyond.stderr
    with Population.open(account, read_only=True) as population:
        assert [len(member.booked) for member in population.members()] == [2]
    assert fedboard("certificate", "verify", account).exit_code == 0


def test_seeded_answers_repeat_and_say_that_they_protect_nobody(question: Command, tmp_path: Path) -> None:
    seeded = ("--noise", "seeded", "--seed", "3", "--budget", "1")
    answers = [question("mean", "--ledger", tmp_path / name, *seeded) for name in ("a", "b")]

    assert answers[0].stdout == answers[1].stdout
    assert "not a private answer" in answers[0].stdout


def test_gaussian_noise_is_chosen_where_the_account_has_some(question: Command, ledger: Path) -> None:
    question("mean", "--ledger", ledger, "--budget", "4", "--mechanism", "gaussian")
    told = json.loads(question("quantile", "--candidates", "1,2,3,4,5", "--ledger", ledger, "--json").stdout)

    assert told["mechanism"] == "gaussian"
    assert told["value"] in (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "who pays"),
        (("--ledger", "{ledger}"), "--budget EPSILON starts one"),
        (("--ledger", "{ledger}", "--budget", "1", "--seed", "1"), "--seed N goes with --noise seeded"),
        (("--ledger", "{ledger}", "--budget", "1", "--noise", "seeded"), "--seed N goes with --noise seeded"),
        (
            ("--ledger", "{ledger}", "--budget", "1", "--of", "counts", "--bound", "3"),
            "the bound is for ratings",
        ),
    ],
)
def test_what_does_not_fit_is_a_sentence(
    question: Command, ledger: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    result = question("mean", *(argument.format(ledger=ledger) for argument in arguments))

    assert result.exit_code != 0
    assert sentence in result.stderr


def test_a_ledger_keeps_the_budget_that_it_was_made_with(question: Command, ledger: Path) -> None:
    question("mean", "--ledger", ledger, "--budget", "1")
    result = question("mean", "--ledger", ledger, "--budget", "9")

    assert result.exit_code != 0
    assert "leave out --budget" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mean", "--epsilon", "-1"), "epsilon of a question must be a finite number > 0, got -1"),
        (("mean", "--budget", "-4"), "epsilon of a budget must be a finite number > 0, got -4"),
        (("mean", "--delta", "0"), "delta must be in (0, 1), got 0"),
        (("mean", "--of", "counts", "--highest", "0"), "highest must be a finite number > 0, got 0.0"),
        (("quantile", "--share", "1.5"), "got 1.5"),
        (("quantile", "--candidates", "3,2,1"), "ascending"),
        (("mean", "--population", "none.ledger"), "none.ledger"),
    ],
)
def test_ratings_are_not_read_for_a_question_that_cannot_be_asked(
    fedboard: Command, tmp_path: Path, ledger: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """The file would be refused as soon as it is read; and no ledger is begun for a question that none asks."""
    unreadable = tmp_path / "ratings.csv"
    unreadable.write_text("user,item,rating\n1,2,many\n")
    kind, *own = arguments
    usual = {"--rating-range": "1,5", "--epsilon": "0.5", "--ledger": str(ledger), "--budget": "1"}
    given = {**usual, **dict(zip(own[::2], own[1::2], strict=True))}

    result = fedboard("query", kind, "--data", unreadable, *(word for pair in given.items() for word in pair))

    assert result.exit_code != 0
    assert sentence in " ".join(result.stderr.split())
    assert not ledger.exists()


def test_a_question_beyond_the_budget_leaves_no_ledger(question: Command, ledger: Path) -> None:
    over = question("mean", "--epsilon", "3", "--budget", "2", "--ledger", ledger)
    left = ledger.exists()
    within = question("mean", "--epsilon", "2", "--budget", "2", "--ledger", ledger)
    again = question("mean", "--epsilon", "1", "--ledger", ledger)

    assert (over.exit_code, left, within.exit_code, again.exit_code) == (3, False, 0, 3)
    assert "with it 3 at delta 1e-05, but the budget is 2" in over.stderr
    assert ledger.exists()
