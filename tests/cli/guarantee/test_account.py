"""``fedboard account`` answers with the numbers that a ledger will hold a run to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.exact_curves import gaussian, laplace

pytestmark = pytest.mark.slow

Command = Callable[..., Result]
PLAN = """
counts = 30
[round-1]
linear = 12
quadratic = 20
"""
REFUSED = (InputError.exit_code, PrivacyError.exit_code)
NOISE = {"noise": SecureNoise.label, "private": True}


@pytest.fixture
def ask(fedboard: Command) -> Callable[..., dict[str, Any]]:
    """Ask with --json and read the answer."""

    def answer(*arguments: str | Path) -> dict[str, Any]:
        return answered(fedboard("account", *arguments, "--json"))

    return answer


@pytest.fixture
def left(fedboard: Command) -> Callable[..., dict[str, Any]]:
    """What is left of a ledger."""
    return lambda *arguments: answered(fedboard("ledger", "show", *arguments, "--json"))


def answered(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    budget = Budget(epsilon=2.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(path, budget, plan={"a": 20.0, "b": 10.0}) as opened:
        opened.book({**gaussian(20.0, name="a"), **NOISE})
    return path


def test_noise_is_what_spends_the_budget(ask: Callable[..., Any], fedboard: Command) -> None:
    answer = ask("--epsilon", "1", "--delta", "1e-5", "--releases", "9")
    text = fedboard("account", "--epsilon", "1", "--delta", "1e-5", "--releases", "9").stdout

    multipliers = list(answer["noise_multipliers"].values())
    assert len(multipliers) == 9
    assert epsilon_of(1e-5, mu=compose(multipliers)) == pytest.approx(1.0)
    assert "each of 9" in text
    assert "11.1919" in text


def test_noise_and_epsilon_are_inverse(ask: Callable[..., Any]) -> None:
    for poisson in ((), ("--poisson", "0.05")):
        noise = ask("--epsilon", "2", "--delta", "1e-6", "--releases", "5", *poisson)
        z = noise["noise_multipliers"]["release-1"]

        cost = ask(*("--noise-multiplier", str(z), "--releases", "5", "--delta", "1e-6", *poisson))

        assert cost["epsilon"] == pytest.approx(2.0, rel=2e-5)
        assert cost["exact"] is not bool(poisson)


def test_shares_are_parts_of_mu_squared(ask: Callable[..., Any]) -> None:
    found = ask("--epsilon", "5", "--shares", "counts=0.1, items=0.9")["noise_multipliers"]

    assert found["counts"] / found["items"] == pytest.approx(3.0)
    assert 1 / found["items"] ** 2 == pytest.approx(0.9 * mu_for(5.0, 1e-5) ** 2)


def test_releases_of_a_round_share_its_coin(ask: Callable[..., Any]) -> None:
    def with_names(first: str, second: str) -> float:
        shares = f"{first}=0.5,{second}=0.5"
        found = ask("--epsilon", "1", "--shares", shares, "--poisson", "0.1")["noise_multipliers"]
        return float(found[first])

    # One coin for both costs more than two coins, so it needs more noise.
    assert with_names("round-1/a", "round-1/b") > 1.02 * with_names("round-1/a", "round-2/b")
    assert with_names("a", "b") == pytest.approx(with_names("round-1/a", "round-2/b"), rel=1e-4)


def test_a_plan_file_is_accounted(ask: Callable[..., Any], fedboard: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)

    answer = ask(plan, "--group", "3")
    text = fedboard("account", plan).stdout

    mu = compose([30, 12, 20])
    assert answer["mu"] == pytest.approx(mu)
    assert answer["epsilon"] == epsilon_of(1e-5, mu=mu)
    assert answer["epsilon"] <= answer["epsilon_pld"] < answer["epsilon_rdp"] < answer["epsilon_zcdp"]
    assert answer["group"]["epsilon"] == epsilon_of(1e-5, mu=3 * mu)
    assert answer["rating_epsilon"] == answer["pair_epsilon"] == epsilon_of(1e-5, mu=2 * mu)
    assert "exact curve" in text
    assert "Renyi orders" in text


def test_a_mixed_plan_has_loss_distributions_and_a_second_opinion(
    ask: Callable[..., Any], fedboard: Command, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('items = 10\n[mean]\nnoise_multiplier = 15\nmechanism = "laplace"\n')

    for adjacency in ("add-remove", "replace"):
        answer = ask(plan, "--adjacency", adjacency)

        assert not answer["exact"]
        assert answer["epsilon"] == answer["epsilon_pld"] < answer["epsilon_rdp"] < answer["epsilon_zcdp"]
        assert (answer["rating_epsilon"] == answer["epsilon"]) is (adjacency == "replace")
    text = fedboard("account", plan).stdout
    assert "exact" not in text
    assert "at most" in text


def test_a_run_its_board_and_its_certificate_have_one_answer(ask: Callable[..., Any], finished: Path) -> None:
    certificate = finished / "certificate.json"
    claimed = json.loads(certificate.read_text())["composition"]

    board = finished / "boards" / "board-0004.board"
    for source in (finished, finished / "ledger.sqlite", certificate, board):
        answer = ask(source)
        assert answer["epsilon"] == pytest.approx(claimed["epsilon"])
        assert answer["epsilon_rdp"] == pytest.approx(claimed["epsilon_rdp"])


def test_what_is_left_counts_what_the_plan_reserves(
    left: Callable[..., Any], fedboard: Command, ledger: Path
) -> None:
    answer = left(ledger, "--for", "8")
    text = fedboard("ledger", "show", ledger, "--for", "8").stdout

    room = mu_for(2.0, 1e-6) ** 2 - 1 / 400 - 1 / 100
    assert answer["spent"] == epsilon_of(1e-6, mu=1 / 20)
    assert (len(answer["releases"]), answer["reserved_releases"]) == (1, 1)
    assert answer["committed"] == epsilon_of(1e-6, mu=compose([20, 10]))
    assert answer["left"]["mu"] == pytest.approx(room**0.5)
    assert answer["left"]["releases"] == int(room * 64)
    assert f"Releases of noise multiplier 8 that fit: {answer['left']['releases']}." in text
    assert "1 more planned" in text


def test_what_is_left_of_a_ledger_with_laplace_releases(left: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, Budget(epsilon=2.0, delta=1e-6, adjacency=Adjacency.REPLACE)) as opened:
        opened.book({**laplace(4.0, adjacency="replace"), **NOISE})

    answer = left(path)

    assert 0 < answer["left"]["mu"] < mu_for(2.0, 1e-6)
    assert answer["adjacency"] == "replace"


def test_a_finished_run_has_nothing_left(left: Callable[..., Any], fedboard: Command, finished: Path) -> None:
    answer = left(finished, "--for", "100")

    assert answer["spent"] == pytest.approx(answer["budget"])
    assert answer["left"]["mu"] == pytest.approx(0.0, abs=1e-4)
    assert answer["left"]["releases"] == 0
    assert fedboard("ledger", "show", finished / "ledger.sqlite").exit_code == 0


def test_a_population_has_left_what_its_runs_do_not_hold(left: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "members.ledger"
    budget = Budget(epsilon=3.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    with Population.create(path, budget) as population:
        population.join("ab" * 16, name="run", plan={"a": 10.0, "b": 10.0})
        population.book("ab" * 16, [{**gaussian(10.0, name="a"), **NOISE}])

    answer = left(path)

    assert answer["committed"] == epsilon_of(1e-6, mu=compose([10, 10]))
    assert answer["left"]["mu"] == pytest.approx((mu_for(3.0, 1e-6) ** 2 - 0.02) ** 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "1"), "give either --releases N or --shares"),
        (("--epsilon", "1", "--shares", "=1"), "--shares must be NAME=PART"),
        (("--epsilon", "1", "--shares", "a=0.7,b=0.7"), "must add to at most 1"),
        ((), "give either SOURCE"),
        (("--noise-multiplier", "1", "--poisson", "1"), r"poisson must be in \(0, 1\)"),
        (
            ("--noise-multiplier", "1", "--poisson", "0.1", "--adjacency", "replace"),
            "add-remove only",
        ),
        (("missing",), "nothing can be read there"),
        (("--epsilon", "1", "--noise-multiplier", "1"), "give either SOURCE"),
        (("--epsilon", "1", "--releases", "3", "--delta", "0"), "delta must be"),
        (("--noise-multiplier", "1", "--delta", "0"), "delta must be"),
        (("--epsilon", "1", "--releases", "3", "--adjacency", "replace"), "not with --epsilon"),
        (("--epsilon", "1", "--releases", "3", "--group", "2"), "not with --epsilon"),
        (("--noise-multiplier", "1", "--shares", "a=1"), "--shares goes with --epsilon"),
        (("missing", "--releases", "2"), "--releases goes with"),
    ],
)
def test_what_has_no_answer_is_told_in_a_sentence(
    fedboard: Command, arguments: tuple[str, ...], message: str
) -> None:
    import re

    result = fedboard("account", *arguments)

    assert result.exit_code in REFUSED, result.output
    assert re.search(message, result.stderr)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = 'x'", "must be a noise multiplier"),
        ("[a]\nnoise_multiplier = 3\nsigma = 4", "unknown sigma"),
        ("[a]\nnoise_multiplier = 3\nmechanism = 'staircase'", "mechanism must be one of"),
        ("[a]\nnoise_multiplier = 3\nparticipation = {kind = 'poisson'}", "participation probability"),
        ("a = ", "not a plan"),
        ("a = 1 #" + "[" * (1 << 18), "at most 262144 are read"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(
    fedboard: Command, tmp_path: Path, content: str, message: str
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(content)

    result = fedboard("account", plan)

    assert result.exit_code in REFUSED, result.output
    assert message in result.stderr


def test_a_ledger_that_was_tampered_with_is_not_accounted(fedboard: Command, ledger: Path) -> None:
    import sqlite3

    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE events SET event = replace(event, '20.0', '90.0')")
    connection.close()

    result = fedboard("ledger", "show", ledger)

    assert result.exit_code != 0
    assert "tampered" in result.stderr
