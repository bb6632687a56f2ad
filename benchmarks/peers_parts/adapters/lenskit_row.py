"""LensKit: ``BiasedMFScorer`` for explicit jobs, ``ImplicitMFScorer`` for implicit ones.

Its explicit model subtracts damped biases first; a damping beyond all counts leaves the mean alone, which is the
job. Its weight w is what observed pairs get above the 1 of all: c - 1.
"""

from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured

NO_BIASES = 1e12


def load() -> Any:
    import pandas as pd
    from lenskit.als import BiasedMFScorer, ImplicitMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    return pd, from_interactions_df, BiasedMFScorer, ImplicitMFScorer, TrainingOptions


def prepare(library: Any, job: Job) -> Any:
    pd, from_interactions_df, *_ = library
    rows = pd.DataFrame({"user_id": job.user, "item_id": job.item, "rating": job.rating})
    return from_interactions_df(rows)


def fit(library: Any, job: Job, data: Any) -> tuple[Arrays, Told]:
    _, _, explicit, implicit, training = library
    spec = job.spec
    common = {"embedding_size": spec["rank"], "epochs": spec["epochs"], "regularization": spec["ridge"]}
    if spec["kind"] == "explicit":
        scorer = explicit(damping=NO_BIASES, **common)
    else:
        scorer = implicit(weight=spec["confidence"] - 1.0, use_ratings=False, **common)
    scorer.train(data, training(rng=spec["seed"]))
    users = placed(scorer.user_embeddings, scorer.users.ids(), job.n_users)
    return {"users": users, "items": placed(scorer.item_embeddings, scorer.items.ids(), job.n_items)}, {}


def placed(vectors: Any, ids: Any, n_rows: int) -> np.ndarray:
    """Rows by our numbers: it knows only who has ratings."""
    rows = np.zeros((n_rows, vectors.shape[1]), np.float32)
    rows[np.asarray(ids, dtype=np.int64)] = np.asarray(vectors)
    return rows


if __name__ == "__main__":
    measured("lenskit", load, prepare, fit)
