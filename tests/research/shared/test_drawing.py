"""Labels of lines that would lie on each other are pushed apart."""

import numpy as np

from research.shared.drawing import spread_apart


def test_pushing_apart_keeps_order_and_distance() -> None:
    positions = np.random.default_rng(1).uniform(0, 1, 12)

    placed = np.array(spread_apart(positions, 0.07))

    assert np.argsort(placed).tolist() == np.argsort(positions).tolist()
    assert np.diff(np.sort(placed)).min() >= 0.07 - 1e-12
