# %% [markdown]
# # Your own algorithm
#
# An algorithm says which sums are asked for, what a device answers, and what follows from the noised sums. It never sees
# noise, bookkeeping or the network. Here is a complete one in three parts: *centred means*, which learns for each item how
# far above the middle of the scale it is rated, in a single round. You should see it run, cost exactly the epsilon that
# was asked for, and beat a guess.

# %%
import math
from dataclasses import dataclass, field

import numpy as np

import fedboard
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.clipping import (
    clip_responses,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.algorithms.shared.algorithm import Algorithm
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig
from fedboard.common.algorithms.shared.ratings_config import as_written
from fedboard.common.algorithms.shared.sums import item_counts, item_vectors

# %% [markdown]
# ## 1. What is public: settings, and how the budget is shared
#
# Two sums are asked for: of each item, how many rated it, and by how much above the middle. What the run may spend is
# shared among them in parts of mu^2, which add up to 1.


# %%
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    # The rating range, the adjacency and the noise, which every algorithm on ratings has.
    shared: RatingsConfig = field(default_factory=RatingsConfig)
    damping: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    counts: float = 0.3


def shares_by_release(settings, shares):
    return {"counts": shares.counts, "centred": 1.0 - shares.counts}


# %% [markdown]
# ## 2. The task
#
# A user gives each item that they rated the weight `1 / sqrt(n)`, so that the squares of their n weights add up to 1. That
# bounds what they can change: 1 in the counts, and the half width of the scale in the other sum. Bounds are stated in whole
# numbers on a public grid, and every row is checked against them before anything is added up.


# %%
@dataclass(frozen=True, slots=True)
class CentredMeans:
    settings: Settings
    backend: str = "numpy"
    name = "centred-means"

    @property
    def config(self):
        return as_written(self.settings)

    def plan(self):
        return (self._asked(1),)

    def first_board(self, catalogue):
        nothing = np.zeros(catalogue.n_items, dtype=np.float32)
        return Board(
            version=0,
            task=self.name,
            config=self.config,
            arrays={"item_biases": nothing},
            catalogue=catalogue,
        )

    def requests(self, board):
        return self._asked(board.catalogue.n_items) if board.version == 0 else ()

    def _asked(self, n_items):
        half = (
            self.settings.shared.rating_high - self.settings.shared.rating_low
        ) / 2
        return (
            item_counts(
                self.settings.shared,
                "counts",
                n_items=n_items,
                covers="how many rated each item, each user's row of norm at most 1",
            ),
            item_vectors(
                self.settings.shared,
                "centred",
                n_items=n_items,
                largest=half,
                covers="ratings minus the middle of the scale, each user's row of norm at most half its width",
            ),
        )

    def weigh(self, cohort, board):
        return 1.0 / np.sqrt(cohort.counts[cohort.user_of_entry()])

    def contribute(self, cohort, board, requests):
        low, high = self.settings.shared.rating_low, self.settings.shared.rating_high
        return Contribution(
            n_items=cohort.n_items,
            indptr=cohort.indptr,
            items=cohort.items,
            weights=quantise_weights(self.weigh(cohort, board)),
            vectors=clip_vectors(np.ones((cohort.n_users, 1), dtype=np.float32), 1.0),
            responses=clip_responses(
                cohort.ratings - np.float32((low + high) / 2), (high - low) / 2
            ),
        )

    def update(self, board, released):
        counts = np.maximum(released.array("counts")[:, 0], 0.0)
        biases = released.array("centred")[:, 0] / (counts + self.settings.damping)
        return board.successor(
            item_biases=biases.astype(np.float32),
            item_counts=counts,
            item_weights=np.ones(
                len(biases)
            ),  # how strongly each item took part: all alike
            learnt=np.ones(
                len(biases), dtype=np.uint8
            ),  # items that may be recommended
        )

    # What a person's own device does with the board: how far above it she rates.

    def fit_local(self, cohort, board):
        left = cohort.ratings - self._base(board)[cohort.items]
        sums = np.bincount(
            cohort.user_of_entry(), weights=left, minlength=cohort.n_users
        )
        return (sums / (cohort.counts + 5.0)).astype(np.float32)[:, None]

    def predict(self, local, board, users, items):
        shared = self.settings.shared
        return np.clip(
            self._base(board)[items] + local[users, 0],
            shared.rating_low,
            shared.rating_high,
        )

    def ranking_factors(self, local, board):
        return np.ones_like(local), np.asarray(board.arrays["item_biases"])[:, None]

    def _base(self, board):
        middle = (
            self.settings.shared.rating_low + self.settings.shared.rating_high
        ) / 2
        return middle + np.asarray(board.arrays["item_biases"], dtype=np.float64)


# %% [markdown]
# ## 3. The record
#
# By it the rest of the house knows the algorithm. `array_rules` is what a device demands of a board before it computes
# anything from it.


# %%
def array_rules(board, settings):
    n_items = board.catalogue.n_items
    return (
        ArrayRule(
            name="item_biases",
            dtype=np.dtype(np.float32),
            shape=(n_items,),
            low=-1e6,
            high=1e6,
        ),
    )


ALGORITHM = Algorithm(
    name="centred-means",
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=Settings,
    shares=Shares,
    shares_by_release=shares_by_release,
    task=lambda settings, *, backend, features: CentredMeans(settings, backend),
    array_rules=array_rules,
)

# %% [markdown]
# ## It runs
#
# In a notebook the record is named `__main__:ALGORITHM`; in a file of yours `my_file.py:ALGORITHM`, for this and for
# `fedboard simulate --algorithm`.

# %%
data = {"synthetic": {"n_users": 2000, "n_items": 200}}
run = fedboard.simulate(
    data=data,
    algorithm="__main__:ALGORITHM",
    epsilon=1.0,
    baselines=False,
    report=False,
    out="runs/centred",
)
print(run.certificate.promise)
print("test RMSE", round(run.metrics["test_rmse"], 3), "stars")
assert fedboard.verify("runs/centred").holds
assert math.isclose(fedboard.epsilon("runs/centred"), 1.0, rel_tol=1e-6)

# %% [markdown]
# ## Against what is here already
#
# `bias-private` is what every private recommender must beat; the last line is matrix factorisation without any privacy.

# %%
swept = fedboard.sweep(
    algorithms=["__main__:ALGORITHM", "bias-private", "als"],
    floors=False,
    epsilons=[1.0],
    data=data,
    out="runs/compared",
)
assert not swept.failed
for row in swept.rows:
    print(
        f"{row['algorithm']:22} epsilon {row['epsilon']}  RMSE {row['test_rmse']:.3f}"
    )
assert all(row["test_rmse"] < 1.2 for row in swept.rows)

# %% [markdown]
# ## A bound that does not hold
#
# What if the task gives more than it declared? Say it forgets the square root. Nothing leaves the device:


# %%
class Careless(CentredMeans):
    def weigh(self, cohort, board):
        return np.ones(cohort.n_ratings)


CARELESS = Algorithm(
    name="careless-means",
    feedback=ALGORITHM.feedback,
    settings=Settings,
    shares=Shares,
    shares_by_release=shares_by_release,
    task=lambda settings, *, backend, features: Careless(settings, backend),
    array_rules=array_rules,
)
Careless.name = "careless-means"

# %% tags=["raises-exception"]
fedboard.simulate(
    data=data,
    algorithm="__main__:CARELESS",
    baselines=False,
    report=False,
    out="runs/careless",
)

# %% [markdown]
# **Next:** [Extending](../guide/extending.md) installs an algorithm for good, so that fleets and devices know it; the
# complete list of what a task has is in [the reference](../api/seams.md).
