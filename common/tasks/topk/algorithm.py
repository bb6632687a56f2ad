"""Top-k lists, as the rest of the house knows them."""

from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.topk.arrays import array_rules
from fedboard.common.tasks.topk.config import TopKConfig, TopKShares, shares_by_release
from fedboard.common.tasks.topk.task import TopK


def _task(settings: TopKConfig, *, backend: str, features: FloatArray | None) -> TopK:
    return TopK(settings, backend=backend)


ALGORITHM = Algorithm(
    name=TopK.NAME,
    feedback=frozenset({Feedback.IMPLICIT}),
    settings=TopKConfig,
    shares=TopKShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
)
"""Presence alone; features come with the catalogue."""
