from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.open_board import open_board
from fedboard.client.recommend import rating_range_of, recommend
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals_config import Feedback
from tests_client_board import FACTORS, made_board


def person(items: list[int], ratings: list[float]) -> Cohort:
    return Cohort(
        indptr=np.array([0, len(items)]),
        items=np.array(items, dtype=np.int32),
        ratings=np.array(ratings, dtype=np.float32),
        n_items=len(FACTORS),
    )
