"""What the tests of a device share."""

import pytest

from fedboard.common.board import Board
from tests.client.certified_boards import certified_boards
from tests.common.algorithms.conftest import a_task


@pytest.fixture(scope="session")
def boards(tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    """All boards of a run that costs epsilon 5, each with its certificate."""
    return certified_boards(tmp_path_factory.mktemp("run"), a_task(epsilon=5.0))
