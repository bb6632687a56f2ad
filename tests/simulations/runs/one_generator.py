"""The split that fedboard had before: one generator for all ratings, or for all users. A control, never to be used.

One user's presence re-deals everybody's ratings between training and test, so that the sums which are released
depend on her through everybody: the tests show that they would notice.
"""

import numpy as np

from fedboard.common.cohort import Cohort
from fedboard.simulations.datasets import Ratings, Triples
from fedboard.simulations.datasets.ratings import sorted_cohort
from fedboard.simulations.datasets.splits import HeldOut, RatingSplit, UserSplit

_TRAIN, _VALIDATION, _TEST = 0, 1, 2
_ENOUGH, _LIKED = 5, 3.5


def split_ratings(ratings: Ratings, *, seed: int, validation: float = 0.1, test: float = 0.1) -> RatingSplit:
    """All ratings shuffled by one generator: exact shares."""
    n_validation, n_test = (round(share * ratings.n_ratings) for share in (validation, test))
    part = np.full(ratings.n_ratings, _TRAIN, dtype=np.int8)
    part[:n_test] = _TEST
    part[n_test : n_test + n_validation] = _VALIDATION
    np.random.default_rng([seed, 0]).shuffle(part)
    return RatingSplit(
        train=_rows(ratings, part == _TRAIN),
        train_and_validation=_rows(ratings, part != _TEST),
        validation=_triples(ratings, part == _VALIDATION),
        test=_triples(ratings, part == _TEST),
    )


def split_users(ratings: Ratings, *, seed: int, share: float = 0.1) -> UserSplit:
    """All eligible users permuted by one generator: exactly so many held out."""
    positive = ratings.values > _LIKED
    counts = np.bincount(ratings.users[positive], minlength=ratings.n_users)
    eligible, n_held_out = np.flatnonzero(counts >= _ENOUGH), round(share * ratings.n_users)
    drawn = np.random.default_rng([seed, 1]).permutation(eligible)[: 2 * n_held_out]
    learning = np.zeros(ratings.n_users, dtype=np.bool_)
    learning[eligible] = True
    learning[drawn] = False
    train = _rows(ratings, positive & learning[ratings.users], ones=True)
    nobody = HeldOut(users=np.zeros(0, dtype=np.int32), history=train.rows(0, 0), target=train.rows(0, 0))
    return UserSplit(train=train, validation=nobody, test=nobody)


def _triples(ratings: Ratings, chosen: np.ndarray) -> Triples:
    return Triples(users=ratings.users[chosen], items=ratings.items[chosen], values=ratings.values[chosen])


def _rows(ratings: Ratings, chosen: np.ndarray, *, ones: bool = False) -> Cohort:
    part = _triples(ratings, chosen)
    values = np.ones_like(part.values) if ones else part.values
    return sorted_cohort(
        part.users, part.items, values, user_keys=ratings.user_keys(), n_items=ratings.n_items
    )
