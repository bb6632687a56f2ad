"""Made-up ratings of a few people, as a user would bring them to an experiment."""

from pathlib import Path

import numpy as np

from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from fedboard.simulations.sections import DataConfig
from research.shared.experiment import Setting


def setting_of(folder: Path, people: SyntheticConfig) -> Setting:
    """One seed on these ratings, written to ``folder``; nobody hears of progress."""
    cohort = synthetic_ratings(people).cohort()
    columns = {"user": cohort.user_of_entry(), "item": cohort.items, "rating": cohort.ratings}
    np.savez(folder / "ratings.npz", **columns, item_id=np.arange(cohort.n_items))
    return Setting(
        data=DataConfig(source=str(folder / "ratings.npz")),
        seeds=1,
        scratch=folder,
        on_progress=lambda phase, done, total: None,
    )
