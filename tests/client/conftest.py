"""A board small enough to check by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig
from fedboard.common.board import Board, Catalogue

TITLES = ("Heat (1995)", "Ran (1985)", "Ran (1985)", "Amélie (2001)", "Alien (1979)", "Aliens (1986)")
FACTORS = [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [0.0, 1.0], [0.1, 0.9], [0.0, 0.0]]


def _board(feedback: Feedback = Feedback.EXPLICIT, *, version: int = 3, titles: bool = True) -> Board:
    """Two tastes; the last item is not learnt."""
    task = AdaDpals(AdaDpalsConfig(shared=RatingsConfig(feedback=feedback), rank=2, user_ridge=0.1))
    return Board(
        version=version,
        task=task.name,
        config=task.config,
        arrays={
            "item_factors": np.array(FACTORS, dtype=np.float32),
            "learnt": np.array([1, 1, 1, 1, 1, 0], dtype=np.uint8),
            "mean": np.array([3.0]),
        },
        catalogue=Catalogue(item_ids=("10", "11", "12", "13", "14", "15"), titles=TITLES if titles else None),
    )


@pytest.fixture
def board() -> Board:
    return _board()


@pytest.fixture
def make_board() -> Callable[..., Board]:
    """``(feedback, version=, titles=)`` to a board."""
    return _board


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "mine.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write
