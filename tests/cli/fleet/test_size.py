"""``fedboard size``: the cost model in words and as JSON."""

import json

import pytest
from click.testing import CliRunner

from fedboard.cli.fleet.size import size

PHONES = ["--users", "1e6", "--items", "20000", "--rank", "32"]


def told(*more: str) -> dict[str, dict[str, float]]:
    result = CliRunner().invoke(size, [*PHONES, *more, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, dict[str, float]] = json.loads(result.output)
    return found


def test_it_is_told_in_a_table() -> None:
    result = CliRunner().invoke(size, PHONES, catch_exceptions=False)

    assert result.exit_code == 0
    assert "1,000,000" in result.output
    assert "factored" in result.output
    assert "one core does not bear it" in result.output


def test_gateways_make_a_million_users_bearable() -> None:
    phones, gateways = told(), told("--users-per-node", "10000")

    assert (phones["nodes"], gateways["nodes"]) == (1_000_000, 100)
    assert phones["over_hours"]["shortest_poll_seconds_on_one_core"] is None
    assert gateways["over_hours"]["shortest_poll_seconds_on_one_core"] < 60
    assert gateways["server"]["cpu_seconds_carrying"] < 1e-3 * phones["server"]["cpu_seconds_carrying"]


def test_devices_without_flower_cost_the_server_a_tenth_and_less() -> None:
    by_flower, direct = told(), told("--carrier", "direct")

    assert (by_flower["carrier"], direct["carrier"]) == ("flower", "direct")
    assert direct["server"]["cpu_seconds_carrying"] < 0.1 * by_flower["server"]["cpu_seconds_carrying"]
    assert direct["server"]["cpu_seconds_training"] == by_flower["server"]["cpu_seconds_training"]


def test_more_hours_need_less_of_everything_a_second() -> None:
    one, ten = told("--hours", "1"), told("--hours", "10")

    assert one["server"] == ten["server"]
    for name in ("cores", "megabits_out_per_second", "megabits_in_per_second"):
        assert ten["over_hours"][name] == pytest.approx(one["over_hours"][name] / 10)


@pytest.mark.parametrize("number", ["0", "1.5", "many", "1e13"])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    result = CliRunner().invoke(size, ["--users", number, "--items", "10"])

    assert result.exit_code == 2
    assert "is not a whole number from 1 to 1e12" in result.output
