"""Flower is imported once, before warnings become errors: its own imports use names that Click has deprecated."""

import warnings
from pathlib import Path

import pytest

from tests.cli.fleet.key_drill import Drill, drilled, stolen_mirror

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.build
    import flwr.clientapp
    import flwr.serverapp
    import flwr.supercore.control  # noqa: F401


@pytest.fixture(scope="session")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    return drilled(tmp_path_factory.mktemp("drill"))


@pytest.fixture
def theft(drill: Drill, tmp_path: Path) -> Path:
    return stolen_mirror(drill, tmp_path / "theft")
