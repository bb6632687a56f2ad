"""Public contribution sizes: how many values each user has, stated to be public by whoever uses them."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError, PrivacyError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicSizes:
    """How many values each user has. Public, because the caller says why.

    Everything computed from it (weights, bounds, noise) shows these numbers and protects values only: adjacency
    ``replace-values``, or ``replace-labels``. In a fleet a user's number of ratings is private; there the bound
    is a public constant or comes from a private quantile (``fedboard.common.questions``).
    """

    sizes: IntArray
    """int64, shape (n_users,), each >= 1."""
    public_because: str
    """Why everybody may know them; part of what a release says that it covers."""

    def __post_init__(self) -> None:
        """Check the numbers and that the statement is there.

        Raises:
            InputError: no users, or a size below 1.
            PrivacyError: nothing is stated.
        """
        sizes = np.asarray(self.sizes)
        if (
            sizes.ndim != 1
            or sizes.size == 0
            or not np.issubdtype(sizes.dtype, np.integer)
            or sizes.min() < 1
        ):
            raise InputError("contribution sizes must be whole numbers >= 1, one a user")
        if not self.public_because.strip():
            raise PrivacyError(
                "contribution sizes are used as they are, so they must be public: say why in public_because, or "
                "use a bound that does not depend on them"
            )
        object.__setattr__(self, "sizes", sizes.astype(np.int64))

    @classmethod
    def of(cls, users: IntArray, *, n_users: int, public_because: str) -> "PublicSizes":
        """Count the values of users ``0..n_users - 1``.

        Args:
            users: int, shape (n_values,): whose value it is. Public.
            n_users: each must have a value.
            public_because: as the field.
        """
        counts = np.bincount(users, minlength=n_users).astype(np.int64)
        return cls(sizes=counts, public_because=public_because)

    def require_counts_of(self, users: IntArray) -> None:
        """Refuse values of other users, or other numbers of them, than were declared public.

        Raises:
            InputError: they differ; how is not said.
        """
        users = np.asarray(users)
        outside = users.size and (users.min() < 0 or users.max() >= self.sizes.size)
        if outside or not np.array_equal(np.bincount(users, minlength=self.sizes.size), self.sizes):
            raise InputError("the values are not those of the declared contribution sizes")

    def require_values(self, values: FloatArray, users: IntArray) -> None:
        """Refuse values that are none, or of others than were declared.

        Args:
            values: shape (n_values,). Private.
            users: int, shape (n_values,): whose value it is. Public.

        Raises:
            InputError: as for ``require_counts_of``.
            PrivacyError: a value is NaN.
        """
        self.require_counts_of(users)
        if np.isnan(values).any():
            raise PrivacyError("values must be numbers; NaN was refused")

    def user_weights(self, bound: float) -> FloatArray:
        """Each user's total weight ``min(h, s) / sum min(h, s)``, float64, shape (n_users,); sums to 1. Public.

        Args:
            bound: h > 0.

        Raises:
            InputError: the bound is not a finite number > 0.

        Reference: Epasto et al. (2020), lemma 3.
        """
        if not 0 < bound < np.inf:
            raise InputError(f"a bound on contributions must be a finite number > 0, got {bound}")
        capped = np.minimum(float(bound), self.sizes)
        weights: FloatArray = capped / capped.sum()
        return weights

    def value_weights(self, bound: float) -> FloatArray:
        """The weight of each value of a user, ``min(h, s) / (s sum min(h, s))``, shape (n_users,). Public."""
        return self.user_weights(bound) / self.sizes
