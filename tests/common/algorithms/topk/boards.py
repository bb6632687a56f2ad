"""Boards of each stage with directions and kernels of no meaning, and a task whose noise nobody looks at."""

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig
from fedboard.common.algorithms.topk.algorithm import TopK
from fedboard.common.algorithms.topk.device import KERNELS, Stage, TopKConfig
from fedboard.common.algorithms.topk.server import leaders
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.privacy.adjacency import Adjacency

N_ITEMS = 2500
NAMES = ("users", *map(str, Stage))
POSITIVES = (0, 1, 2, 3, 40, 2000, N_ITEMS)
"""Items of the users of ``cohort``, in their order."""


def a_task(adjacency: Adjacency = Adjacency.ADD_REMOVE, **settings: object) -> TopK:
    shared = RatingsConfig(
        feedback=Feedback.IMPLICIT,
        count_cap=1,
        adjacency=adjacency,
        noise_multipliers=dict.fromkeys(NAMES, 1.0),
    )
    sizes: dict[str, object] = {"rank": 6, "start_width": 20, "kernel_rank": 8, **settings}
    return TopK(TopKConfig(shared=shared, **sizes))  # type: ignore[arg-type]


def cohort() -> Cohort:
    """Users with ``POSITIVES`` items each."""
    rng = np.random.default_rng(3)
    items = [np.sort(rng.permutation(N_ITEMS)[:number]) for number in POSITIVES]
    users = np.repeat(np.arange(len(POSITIVES)), POSITIVES)
    found = np.concatenate(items)
    return cohort_from_triples(
        users.astype(np.int32),
        found.astype(np.int32),
        np.ones(found.size, dtype=np.float32),
        n_users=len(POSITIVES),
        n_items=N_ITEMS,
    )


def board_before(stage: Stage, task: TopK, *, learnt_share: float = 1.0, personal: bool = True) -> Board:
    """Directions with steps of scale from 1 to 1e-9, as an honest server would hardly send them."""
    rng, settings = np.random.default_rng(1), task.settings
    width = {
        Stage.COUNTS: 1,
        Stage.START: settings.start_width,
        Stage.DIRECTIONS: settings.width,
        Stage.ENERGIES: settings.width + settings.kernel_rank,
    }[stage]
    factors = (
        rng.standard_normal((N_ITEMS, width))
        * np.logspace(0, -9, width)
        * rng.choice([0.0, 1.0], (N_ITEMS, 1))
    )
    if not personal:
        factors = leaders(rng.random(N_ITEMS), settings) if stage is Stage.START else np.zeros_like(factors)
    return Board(
        version=list(Stage).index(stage),
        task=task.name,
        config=task.config,
        arrays={
            "item_factors": factors.astype(np.float32),
            "item_counts": 1.0 + rng.random(N_ITEMS),
            "learnt": (rng.random(N_ITEMS) < learnt_share).astype(np.uint8),
            "personal": np.array([personal], dtype=np.uint8),
            "kernel_forms": rng.standard_normal((KERNELS, settings.kernel_rank, settings.kernel_rank)).astype(
                np.float32
            ),
        },
        catalogue=Catalogue(item_ids=tuple(f"item {number}" for number in range(N_ITEMS))),
    )
