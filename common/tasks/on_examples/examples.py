"""Examples: the features and labels of the users that one client hosts. A phone hosts one user."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray, ascends
from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Examples:
    """Examples (x, y) of ``n_users`` users in compressed rows. Private: they stay on its device."""

    indptr: IntArray
    """int64, shape (n_users + 1,): user j holds the examples ``indptr[j]:indptr[j + 1]``."""
    features: Float32Array
    """float32, shape (n_examples, dimension), finite."""
    labels: Float32Array
    """float32, shape (n_examples,), finite; 0 or 1 for the logistic loss."""

    def __post_init__(self) -> None:
        """Check shapes and that all is finite.

        Raises:
            InputError: the arrays do not fit together, or hold NaN or infinity.
        """
        fits = self.indptr.ndim == 1 and self.indptr.size >= 1 and self.features.ndim == 2
        if not fits or self.labels.shape != (self.features.shape[0],):
            raise InputError("examples need indptr (n_users + 1,), features (n, dimension) and labels (n,)")
        ascending = self.indptr[0] == 0 and ascends(self.indptr)
        if not ascending or self.indptr[-1] != self.labels.size:
            raise InputError("the indptr of examples must ascend from 0 to the number of examples")
        if not (np.isfinite(self.features).all() and np.isfinite(self.labels).all()):
            raise InputError("features and labels must be finite numbers")

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.indptr.size - 1

    @property
    def dimension(self) -> int:
        """Number of features, d. Public."""
        return int(self.features.shape[1])

    def rows(self, users: IndexArray) -> "Examples":
        """The examples of some users, in the order given.

        Args:
            users: int32, shape (n,), row numbers.
        """
        counts = np.diff(self.indptr)[users]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        shift = np.repeat(self.indptr[users] - indptr[:-1], counts)
        entries = np.arange(indptr[-1]) + shift
        return Examples(indptr=indptr, features=self.features[entries], labels=self.labels[entries])

    def padded(self) -> "PaddedExamples":
        """All users with as many places as the one with most examples: for a block of users."""
        counts = np.diff(self.indptr)
        places = np.arange(int(counts.max(initial=0)))
        used = places[None, :] < counts[:, None]
        features = np.zeros((*used.shape, self.dimension))
        labels = np.zeros(used.shape)
        features[used], labels[used] = self.features, self.labels
        return PaddedExamples(features=features, labels=labels, used=used)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaddedExamples:
    """A block of users in arrays of one shape. Private."""

    features: FloatArray
    """float64, shape (n_users, places, dimension); 0 in places that are not used."""
    labels: FloatArray
    """float64, shape (n_users, places)."""
    used: BoolArray
    """bool, shape (n_users, places)."""
