"""What every model that is judged can do: predict ratings and recommend, for users given by their history."""

from typing import Protocol

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError


class Predictor(Protocol):
    """A fitted model, applied on a device: published parameters plus one user's own history.

    Guarantee: what a user gets depends on her own row of ``history`` and on the model only, so evaluation may
    be cut into blocks of users in any way and spread over processes. Implementations are frozen and picklable.
    """

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings for (user, item) pairs.

        Args:
            history: what the users are known by, one row a user. Private.
            users: int32, shape (n_pairs,), row numbers in ``history``. Private.
            items: int32, shape (n_pairs,), item numbers. Private.

        Returns:
            float64, shape (n_pairs,), clipped to the public rating range for explicit feedback; scores without
            a unit for implicit feedback.

        Raises:
            InputError: ``history`` is over another catalogue.
        """
        ...

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """The k best items for each user, those of her history excluded.

        Args:
            history: what the users are known by, one row a user. Private.
            k: items per user, >= 1.

        Returns:
            int32, shape (n_users, k), best first, ties to the lower item number; -1 where a user has fewer
            than k candidates.

        Raises:
            InputError: k < 1, or ``history`` is over another catalogue.
        """
        ...


def require_catalogue(history: Cohort, n_items: int) -> None:
    """Refuse a history over another catalogue than the model was fitted to.

    Raises:
        InputError: the sizes differ.
    """
    if history.n_items != n_items:
        raise InputError(
            f"the model was fitted to a catalogue of {n_items} items, the history is over {history.n_items}; "
            "use the catalogue of the training data"
        )
