"""``fedboard ledger``: what it finds, what it cannot, and runs on the same users."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.certificate import Certificate
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore

Command = Callable[..., Result]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


@pytest.fixture
def account(fedboard: Command, tmp_path: Path) -> Path:
    path = tmp_path / "population.ledger"
    made = fedboard("ledger", "create", path, "--epsilon", "4", "--delta", "1e-6")
    assert made.exit_code == 0, made.stderr
    return path


def edit(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def failures(result: Result) -> set[str]:
    return {entry["check"] for entry in json.loads(result.stdout)["failed"]}


def test_a_whole_ledger_passes_and_says_what_cannot_be_shown(fedboard: Command, finished: Path) -> None:
    result = fedboard("certificate", "verify", finished)

    assert result.exit_code == ExitCode.NOT_PRIVATE == 5, result.stdout
    assert fedboard("certificate", "verify", finished, "--simulation").exit_code == 0
    assert "checks passed" in result.stdout
    assert "NOT PRIVATE: the noise can be reproduced from its seed." in result.stdout
    assert "spent epsilon 5 of 5 at delta 1e-05" in result.stdout
    told = " ".join(result.stdout.split("What this cannot show:")[1].split())
    assert "rewrites the whole file and every head" in told
    assert "cut off at the end show only against a published head" in told
    assert "rewrites the whole file" in " ".join(
        fedboard("certificate", "verify", "--help-all").stdout.split()
    )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET event = replace(event, '\"rows\":1,', '\"rows\":2,') WHERE seq = 1",
        "DELETE FROM events WHERE seq = 3",
        "UPDATE events SET seq = CASE seq WHEN 2 THEN -3 WHEN 3 THEN -2 ELSE seq END",
        "INSERT INTO events SELECT seq + 1, time, 'other', name, event, hash, hash FROM events"
        " ORDER BY seq DESC LIMIT 1",
        "UPDATE meta SET header = replace(header, '\"epsilon\":5.0', '\"epsilon\":50.0')",
        'UPDATE meta SET header = replace(header, \'"plan":{\', \'"plan":{"more":1.0,\')',
    ],
    ids=["edited", "deleted", "reordered", "inserted", "budget raised", "plan changed"],
)
def test_tampering_ends_with_exit_code_1(fedboard: Command, copied: Path, statement: str) -> None:
    edit(copied / "ledger.sqlite", statement)

    result = fedboard("certificate", "verify", copied)

    assert result.exit_code == 1
    assert result.stdout.startswith("FAILED  ledger: the ledger was tampered with")
    assert failures(fedboard("certificate", "verify", copied / "ledger.sqlite", "--json")) == {"ledger"}


def test_cut_off_rows_show_against_the_boards_or_a_given_head_only(fedboard: Command, copied: Path) -> None:
    ledger = copied / "ledger.sqlite"
    head = Certificate.from_json((copied / "certificate.json").read_text()).ledger_head
    edit(ledger, "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")

    assert fedboard("certificate", "verify", ledger, "--simulation").exit_code == 0
    assert fedboard("certificate", "verify", ledger, "--head", head).exit_code == 1
    found = failures(fedboard("certificate", "verify", copied, "--json"))
    assert found == {"published head", "booked releases"}


def test_a_ledger_rewritten_from_scratch_shows_against_the_boards(
    fedboard: Command, copied: Path, tmp_path: Path
) -> None:
    path = copied / "ledger.sqlite"
    with Ledger.open(path, read_only=True) as honest:
        budget, plan, events = honest.budget, honest.plan, honest.events()
    path.unlink()
    with Ledger.create(path, budget, plan=plan) as forged:
        forged.book_all(events)

    assert fedboard("certificate", "verify", path, "--simulation").exit_code == 0
    assert failures(fedboard("certificate", "verify", copied, "--json")) == {"published head"}


def test_a_raised_budget_in_a_ledger_without_rows_shows_against_the_first_board(
    fedboard: Command, copied: Path
) -> None:
    for path in (copied / "boards").glob("board-000[1-9].board"):
        path.unlink()
    (copied / "certificate.json").unlink()
    edit(copied / "ledger.sqlite", "DELETE FROM events")
    assert fedboard("certificate", "verify", copied, "--simulation").exit_code == 0

    edit(copied / "ledger.sqlite", "UPDATE meta SET header = replace(header, ':5.0', ':50.0')")

    found = failures(fedboard("certificate", "verify", copied, "--json"))
    assert found == {"published head", "commitment"}


def test_a_ledger_that_is_not_there_or_not_one_is_an_input_error(fedboard: Command, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ledger")
    for target in (tmp_path, tmp_path / "text", tmp_path / "missing"):
        for command in (("ledger", "show"), ("certificate", "verify")):
            assert fedboard(*command, target).exit_code == InputError.exit_code


def test_runs_on_one_population_add_up_and_the_certificate_says_so(
    fedboard: Command, tiny: tuple[str, ...], account: Path, tmp_path: Path
) -> None:
    for name, epsilon in (("first", "1"), ("second", "2")):
        flags = ("--epsilon", epsilon, "--population", account, "--no-baselines", "--out", tmp_path / name)
        result = fedboard("simulate", *tiny, *flags)
        assert result.exit_code == 0, result.stderr
    refused = fedboard("simulate", *tiny, "--population", account, "--out", tmp_path / "third")
    boards = [BoardStore(tmp_path / name / "boards").latest() for name in ("first", "second")]
    certificates = [Certificate.from_dict(dict(board.certificate or {})) for board in boards]
    multipliers = [e["noise_multiplier"] for c in certificates for e in c.releases]
    both = epsilon_of(1e-6, mu=compose(multipliers))

    assert refused.exit_code == BudgetExceededError.exit_code == 3
    assert "all runs on this population" in refused.stderr
    assert not (tmp_path / "third").exists()
    totals = [certificate.population for certificate in certificates]
    assert totals[1] is not None
    assert totals[1].spent == pytest.approx(both, rel=1e-12)
    assert any("The 2 runs so far count" in sentence for sentence in certificates[1].statements)
    for name in ("first", "second"):
        assert fedboard("certificate", "verify", tmp_path / name, "--simulation").exit_code == 0
    shown = fedboard("ledger", "show", account).stdout
    assert f"spent {both:.6g} " in " ".join(shown.split())
    assert json.loads(fedboard("certificate", "verify", account, "--json").stdout)["ledger"]["runs"] == 2


def test_an_account_put_back_to_an_older_state_shows_in_the_runs(
    fedboard: Command, tiny: tuple[str, ...], account: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    flags = ("--epsilon", "1", "--population", account, "--no-baselines", "--out", run)
    shutil.copy(account, tmp_path / "backup")
    assert fedboard("simulate", *tiny, *flags).exit_code == 0
    shutil.copy(tmp_path / "backup", account)

    assert failures(fedboard("certificate", "verify", run, "--json")) == {"population's account"}
    assert fedboard("certificate", "verify", run).exit_code == 1
    (run / "boards" / "board-0004.board").unlink()
    assert fedboard("simulate", "--out", run, "--resume").exit_code == PrivacyError.exit_code


def test_what_an_abandoned_run_reserved_can_be_given_back(
    fedboard: Command, tiny: tuple[str, ...], account: Path, tmp_path: Path
) -> None:
    abandoned = tmp_path / "abandoned"
    budget = Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    abandoned.mkdir()
    with Population.open(account) as population:
        plan = {"a": 1.5}
        Ledger.create(abandoned / "ledger.sqlite", budget, plan=plan, population=population).close()
    flags = ("--epsilon", "3", "--population", account, "--no-baselines", "--out", tmp_path / "next")

    assert fedboard("simulate", *tiny, *flags).exit_code == BudgetExceededError.exit_code
    given = fedboard("ledger", "create", account, "--give-back", abandoned)
    again = fedboard("simulate", *tiny, *flags)

    assert given.exit_code == 0, given.stderr
    assert "epsilon 0 of 4 is booked or reserved" in given.stdout
    assert again.exit_code == 0, again.stderr
    assert fedboard("ledger", "create", account, "--give-back", "nobody").exit_code == InputError.exit_code


def test_a_population_that_is_not_there_is_named_and_nothing_is_left(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    result = fedboard("simulate", *tiny, "--population", tmp_path / "none", "--out", tmp_path / "run")

    assert result.exit_code == InputError.exit_code
    assert "no such ledger" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_when_its_account_was_moved(
    fedboard: Command, tiny: tuple[str, ...], account: Path, tmp_path: Path
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved.ledger"
    flags = ("--epsilon", "1", "--no-baselines", "--out", run)
    assert fedboard("simulate", *tiny, *flags, "--population", account).exit_code == 0
    (run / "report.html").unlink()
    account.rename(moved)

    assert "account is not here" in fedboard("certificate", "verify", run / "ledger.sqlite").stdout
    assert "account of its population is not here" in fedboard("certificate", "verify", run).stdout
    assert fedboard("simulate", "--out", run, "--resume").exit_code == InputError.exit_code
    resumed = fedboard("simulate", "--out", run, "--resume", "--population", moved)

    assert resumed.exit_code == 0, resumed.stderr
    assert (run / "report.html").exists()
