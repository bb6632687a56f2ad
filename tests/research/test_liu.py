"""The experiments of Liu et al. on a small set: they run, and say what they must."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations.data import SyntheticConfig
from research.block_solvers.sgd import SgdConfig, fit_sgd
from research.liu.ratings import rated
from research.shared.experiment import Setting
from tests.research.few_ratings import setting_of


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return setting_of(tmp_path, SyntheticConfig(n_users=300, n_items=80, mean_ratings_per_user=25))


def test_errors_are_those_of_the_test_ratings(setting: Setting) -> None:
    data = rated(setting)
    model = fit_sgd(data.stream, SgdConfig(rank=4, passes=20))

    assert data.config.feedback is Feedback.EXPLICIT
    assert data.train_error(model) < data.joint_error(model) < data.error(np.full(data.test.n_ratings, 3.0))
    assert data.local_error(model) < data.error(np.full(data.test.n_ratings, 3.0))
