"""Examples over Flower: nodes with cohorts of people answer as the engine does, to the same boards."""

from pathlib import Path

import pytest

from fedboard.simulations.simulate import simulate
from tests.client.ratings.written import write_examples
from tests.simulations.runs.test_example_runs import arrays, configured, table


@pytest.mark.slow
def test_the_boards_are_those_of_the_engine(tmp_path: Path) -> None:
    write_examples(tmp_path / "people.csv", table())
    data = tmp_path / "people.csv"

    simulate(configured(data), tmp_path / "engine")
    simulate(configured(data, run={"runtime": "in-process", "nodes": 3}), tmp_path / "flower")

    assert arrays(tmp_path / "flower") == arrays(tmp_path / "engine")
    assert len(arrays(tmp_path / "engine")) == 5
