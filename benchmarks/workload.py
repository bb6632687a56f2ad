"""The made-up ratings that the speed benchmarks run on, in the sizes of well-known sets. Nothing is downloaded."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.cohort import Cohort
from fedboard.simulations.datasets import SyntheticConfig, synthetic_ratings


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A population of made-up users."""

    name: str
    people: SyntheticConfig
    copies: int = 1
    """The users are repeated this often, so that costs per run do not hide costs per user."""

    def cohort(self) -> Cohort:
        return repeated(synthetic_ratings(self.people).cohort(), self.copies)


ML_1M = Workload(
    name="6k x 3.7k x 1M, 12 copies",
    people=SyntheticConfig(n_users=6_040, n_items=3_706, mean_ratings_per_user=168.5),
    copies=12,
)
ML_10M = Workload(
    name="70k x 10.7k x 10M",
    people=SyntheticConfig(n_users=69_878, n_items=10_677, mean_ratings_per_user=143.3),
)
ML_20M_SPARSE = Workload(
    name="137k x 20k x 10M",
    people=SyntheticConfig(n_users=136_677, n_items=20_108, mean_ratings_per_user=73.1),
)


def tenth(workload: Workload) -> Workload:
    """A tenth of the users and half the items, to see that everything works."""
    people = workload.people
    smaller = SyntheticConfig(
        n_users=people.n_users // 10,
        n_items=people.n_items // 2,
        mean_ratings_per_user=people.mean_ratings_per_user,
    )
    return Workload(name=f"a tenth of {workload.name}", people=smaller, copies=workload.copies)


def repeated(cohort: Cohort, copies: int) -> Cohort:
    """The same users several times."""
    ends = np.concatenate([cohort.indptr[1:] + k * cohort.n_ratings for k in range(copies)])
    return Cohort(
        indptr=np.concatenate([np.zeros(1, dtype=np.int64), ends]),
        items=np.tile(cohort.items, copies),
        ratings=np.tile(cohort.ratings, copies),
        n_items=cohort.n_items,
    )
