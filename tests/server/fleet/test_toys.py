"""One fleet of processes with both toys: an algorithm by its entry point, a protocol by its line."""

import json
from pathlib import Path

import pytest

from fedboard.server.fleet.running import RoundLog
from tests.server.fleet.deployed import deployed
from tests.toys import SAYS, assert_verified, house_with_the_protocol, install_the_algorithm

pytestmark = pytest.mark.slow


def test_a_fleet_of_processes_trains_a_verified_board_of_one_under_the_other(tmp_path: Path) -> None:
    for name in ("house", "site", "fleet"):
        (tmp_path / name).mkdir()
    house = house_with_the_protocol(tmp_path / "house")
    install_the_algorithm(tmp_path / "site")
    both = {**house.environment, "PYTHONPATH": f"{house.environment['PYTHONPATH']}:{tmp_path / 'site'}"}

    with deployed(
        tmp_path / "fleet",
        protocol={"name": "toy"},
        task={"algorithm": "toy", "settings": None},
        environment=both,
    ) as fleet:
        fleet.trained()

    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    assert {line["protocol"] for line in lines} == {"toy"}
    assert all(3 <= line["answers"] <= 4 for line in lines if line["releases"])
    certificate = json.loads((fleet.state.run / "certificate.json").read_text())
    assert SAYS in certificate["trust"]
    boards = fleet.boards()
    assert [board.task for board in boards] == ["toy"] * 3
    assert abs(boards[-1].arrays["item_biases"]).max() > 0
    assert_verified(fleet.state.run)
