"""``fedboard size``: the cost model in words and as JSON."""

import pytest
from click.testing import CliRunner

from fedboard.cli.fleet.size import size

PHONES = ["--users", "1e6", "--items", "20000", "--rank", "32"]


def test_it_is_told_in_a_table() -> None:
    result = CliRunner().invoke(size, PHONES, catch_exceptions=False)

    assert result.exit_code == 0
    assert "1,000,000" in result.output
    assert "factored" in result.output
    assert "one core does not bear it" in result.output


@pytest.mark.parametrize("number", ["0", "1.5", "many", "1e13"])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    result = CliRunner().invoke(size, ["--users", number, "--items", "10"])

    assert result.exit_code == 2
    assert "is not a whole number from 1 to 1e12" in result.output
