"""Made-up examples of users whose models share a linear representation, as in sec. 4 and 6 of the paper."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from fedboard.common.algorithms.representation.config import LossName
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Catalogue
from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLinear:
    """``x ~ N(0, I)``, ``v_j ~ N(0, I)``, U with orthonormal columns, ``y = <U^T x, v_j> + N(0, sigma^2)``.

    With the logistic loss y is 1 with probability ``1 / (1 + exp(-<U^T x, v_j>))`` and there is no other noise.
    """

    users: int = 50_000
    examples: int = 10
    """Of each user, m."""
    dimension: int = 50
    rank: int = 2
    field_noise: float = 0.01
    """sigma_F."""
    loss: LossName = LossName.SQUARED

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a size is below 1, or the rank above the dimension.
        """
        sizes = (self.users, self.examples, self.rank)
        if min(sizes) < 1 or self.rank > self.dimension or not self.field_noise >= 0:
            raise InputError("examples are made for users, examples >= 1, 1 <= rank <= dimension, noise >= 0")

    def sample(self, seed: int) -> "Population":
        """Draw everything from one seed."""
        generator = np.random.default_rng(seed)
        gaussian = generator.standard_normal((self.dimension, self.rank))
        representation = np.linalg.qr(gaussian)[0]
        vectors = generator.standard_normal((self.users, self.rank))
        features = generator.standard_normal((self.users * self.examples, self.dimension), dtype=np.float32)
        owners = np.repeat(np.arange(self.users), self.examples)
        scores = np.einsum("nk,nk->n", features @ representation, vectors[owners])
        if self.loss is LossName.LOGISTIC:
            labels = (generator.random(scores.size) < expit(scores)).astype(np.float64)
        else:
            labels = scores + self.field_noise * generator.standard_normal(scores.size)
        examples = Examples(
            indptr=np.arange(self.users + 1, dtype=np.int64) * self.examples,
            features=features,
            labels=labels.astype(np.float32),
        )
        return Population(examples=examples, representation=representation, vectors=vectors, source=self)

    @property
    def catalogue(self) -> Catalogue:
        """The public names of the features."""
        return Catalogue(item_ids=tuple(f"feature-{number}" for number in range(self.dimension)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Population:
    """Examples and the truth behind them. The truth is for judging alone."""

    examples: Examples
    representation: FloatArray
    """U*, float64, shape (dimension, rank)."""
    vectors: FloatArray
    """v*_j, float64, shape (n_users, rank)."""
    source: SharedLinear

    def mean_squared_error(self, representation: FloatArray, vectors: FloatArray) -> float:
        """Population mean squared error of the models ``U v_j`` on fresh examples, averaged over the users.

        ``mean_j |U v_j - U* v*_j|^2 + sigma^2``: what fresh Gaussian features and field noise give in
        expectation. Not private.

        Args:
            representation: float64, shape (dimension, k).
            vectors: float64, shape (n_users, k), or (k,) for one model for all.
        """
        own, truth = np.broadcast_to(vectors, (self.vectors.shape[0], vectors.shape[-1])), self.vectors
        # |U v - U* v*|^2 by the small products of the columns, so that no n_users x dimension array is formed
        between = np.einsum("jk,kl,jl->j", own, representation.T @ self.representation, truth)
        lengths = np.einsum("jk,kl,jl->j", own, representation.T @ representation, own)
        truths = np.einsum("jk,kl,jl->j", truth, self.representation.T @ self.representation, truth)
        return float(np.mean(lengths - 2.0 * between + truths)) + self.source.field_noise**2
