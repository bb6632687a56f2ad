"""The made-up ratings that the speed benchmarks run on: 70 000 users, 10 700 items, 10M ratings."""

from fedboard.common.cohort import Cohort
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings


def made_up(*, quick: bool) -> Cohort:
    """All of it; or a tenth of the users and half the items, to see that everything works."""
    n_users, n_items = (6_987, 5_338) if quick else (69_878, 10_677)
    people = SyntheticConfig(n_users=n_users, n_items=n_items, mean_ratings_per_user=143.3)
    return synthetic_ratings(people).cohort()
