"""The made-up examples are what they say, and the error is that on fresh examples."""

import numpy as np
import pytest

from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.errors import InputError
from fedboard.simulations.data.synthetic.examples import SharedLinear

SOURCE = SharedLinear(users=400, examples=5, dimension=7, rank=2, field_noise=0.1)


def test_labels_follow_the_shared_representation() -> None:
    drawn = SOURCE.sample(0)
    owners = np.repeat(np.arange(400), 5)
    scores = np.einsum("nk,nk->n", drawn.examples.features @ drawn.representation, drawn.vectors[owners])

    assert float(np.std(drawn.examples.labels - scores)) == pytest.approx(0.1, rel=0.1)
    np.testing.assert_allclose(drawn.representation.T @ drawn.representation, np.eye(2), atol=1e-12)


def test_the_error_is_that_on_fresh_examples() -> None:
    drawn = SOURCE.sample(1)
    rng = np.random.default_rng(0)
    guess = np.linalg.qr(rng.standard_normal((7, 3)))[0]
    vectors = rng.standard_normal((400, 3))
    fresh = rng.standard_normal((400, 500, 7))

    labels = np.einsum("jmd,jd->jm", fresh, drawn.vectors @ drawn.representation.T)
    labels += 0.1 * rng.standard_normal(labels.shape)
    guessed = np.einsum("jmd,jd->jm", fresh, vectors @ guess.T)

    measured = float(np.mean((labels - guessed) ** 2))
    assert drawn.mean_squared_error(guess, vectors) == pytest.approx(measured, rel=0.02)
    assert drawn.mean_squared_error(drawn.representation, drawn.vectors) == pytest.approx(0.01)


def test_what_cannot_be_made_or_held_is_refused() -> None:
    with pytest.raises(InputError, match="rank"):
        SharedLinear(rank=51)
    with pytest.raises(InputError, match="finite"):
        Examples(
            indptr=np.array([0, 1]),
            features=np.full((1, 2), np.nan, dtype=np.float32),
            labels=np.zeros(1, dtype=np.float32),
        )
    with pytest.raises(InputError, match="ascend"):
        Examples(
            indptr=np.array([0, 3]),
            features=np.zeros((1, 2), dtype=np.float32),
            labels=np.zeros(1, dtype=np.float32),
        )
