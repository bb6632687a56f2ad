"""The guide's dense vector with an L2 clip keeps its bound, to the last integer, and loses next to nothing."""

import re

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.protocols.sums.row_bounds import rows_within_bounds
from tests.test_architecture import ROOT


def test_the_guides_gradients_are_clipped_and_nothing_else_happens_to_them() -> None:
    page = (ROOT / "docs" / "guide" / "algorithms.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(import numpy.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    names = dict[str, object]()
    exec(code, names)
    asked, given = names["asked"], names["given"]
    assert callable(asked)
    assert callable(given)
    rng, clip = np.random.default_rng(0), 0.3
    gradients = rng.normal(size=(500, 7)) * rng.choice([0.0, 1e-3, 1.0, 1e9], size=(500, 1))

    request = asked(RatingsConfig(noise_multipliers={"gradient": 2.0}), width=7, clip=clip)
    contribution = given(gradients, clip, n_items=10)

    assert rows_within_bounds(contribution, (request,)).all()
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    told = contribution.totals["gradient"] * request.release.grid_step
    np.testing.assert_allclose(told, gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-12)), atol=1e-6)
    too_long = given(gradients, 2 * clip, n_items=10).totals["gradient"] * 2
    assert not request.release.keeps_bound(too_long).all()
