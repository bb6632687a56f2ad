"""``fedboard protocols``: whom to trust, and at what cost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.common.protocols.registry import PROTOCOL_NAMES, sized_protocol

Command = Callable[..., Result]
COSTS = ("protocols", "compare", "--items", "40", "--ratings", "8", "--rank", "2", "--kernels", "numpy")


def test_the_list_has_a_line_for_each_protocol(fedboard: Command) -> None:
    result = fedboard("protocols", "list")

    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(PROTOCOL_NAMES)]] == list(PROTOCOL_NAMES)
    assert "one of two servers" in result.output


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_whole_statement_is_shown_as_the_certificate_has_it(fedboard: Command, name: str) -> None:
    trust = sized_protocol(name, clients=50, users=50).trust

    result = fedboard("protocols", "show", name, "--devices", "50")

    shown = " ".join(result.output.split())
    assert result.exit_code == 0
    assert all(" ".join(sentence.split()) in shown for sentence in trust.sentences)


def test_parameters_are_explained(fedboard: Command) -> None:
    result = fedboard("protocols", "show", "two-server")
    record = json.loads(fedboard("protocols", "show", "two-server", "--json").output)

    for name, value in record["parameters"].items():
        line = next(line for line in result.output.splitlines() if line.startswith(name))
        assert str(value) in line
        assert len(line.split()) > 4
    assert record["trust"]["privacy_relies_on"]


@pytest.mark.slow
def test_costs_are_compared_without_data(fedboard: Command, tmp_path: Path) -> None:
    out, numbers = tmp_path / "out", tmp_path / "costs.json"

    result = fedboard(
        *COSTS, "--protocols", "trusted,two-server", "--sessions", "20,5", "--out", out, "--json", numbers
    )

    assert result.exit_code == 0, result.output
    record = json.loads(numbers.read_text())
    assert [line["rmse"] for line in record["protocols"].values()] == [None, None]
    assert record["protocols"]["trusted"]["server_seconds"] > 0
    first, second, *_ = [line.split() for line in result.output.split("two-server")[1].splitlines()]
    assert (first[0], second[0]) == ("5", "20")
    assert "one of two servers" in " ".join(first)
    assert json.loads((out / "comparison.json").read_text()) == record


@pytest.mark.slow
def test_a_protocols_own_settings_can_be_given(fedboard: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"

    result = fedboard(
        *(*COSTS, "--protocols", "two-server", "--sessions", "6", "--json", "-", "--out", out),
        *("--setting", "two-server.most_items=5"),
    )

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["protocols"]["two-server"]["parameters"]["most_items"] == 5


@pytest.mark.slow
def test_what_a_protocol_cannot_carry_is_said_and_the_others_are_compared(
    fedboard: Command, tmp_path: Path
) -> None:
    result = fedboard(
        *(*COSTS, "--protocols", "trusted,secure-sum", "--sessions", "2", "--out", tmp_path / "out"),
    )

    assert result.exit_code == 0
    assert "secure-sum: " in result.output
    assert "at least 3 clients" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--items"),
        (("--data", "synthetic", "--items", "40"), "--items"),
        (("--items", "40", "--clients", "0"), "--clients"),
        (("--items", "40", "--sessions", "ten"), "--sessions"),
        (("--items", "40", "--clients", "500"), "cannot host"),
        (("--items", "40", "--setting", "most_items=5"), "NAME.KEY=VALUE"),
        (("--items", "40", "--protocols", "trusted,trusted"), "--protocols"),
        (("--items", "40", "--protocols", "shuffled"), "shuffled"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(
    fedboard: Command, arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = fedboard("protocols", "compare", *arguments, "--out", tmp_path / "out")

    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
