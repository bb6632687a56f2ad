"""Metrics on held-out data, as the papers define them. Not private: for simulations only."""

from fedboard.simulations.evaluation.metrics.beyond_accuracy import coverage_at_k, gini_at_k, novelty_at_k
from fedboard.simulations.evaluation.metrics.first_hits import map_at_k, mrr_at_k
from fedboard.simulations.evaluation.metrics.metric import N_BUCKETS, bucket_edges, popularity_buckets
from fedboard.simulations.evaluation.metrics.neighbours import (
    cosine_neighbours,
    inner_product_neighbours,
    neighbour_overlap,
    overlap_at_k,
)
from fedboard.simulations.evaluation.metrics.ranking import (
    SLICE_POSITIONS,
    ndcg_at_k,
    recall_at_k,
    recall_of_head,
    sliced_recall,
)
from fedboard.simulations.evaluation.metrics.rating import mae, rmse, sliced_rmse

__all__ = [
    "N_BUCKETS",
    "SLICE_POSITIONS",
    "bucket_edges",
    "cosine_neighbours",
    "coverage_at_k",
    "gini_at_k",
    "inner_product_neighbours",
    "mae",
    "map_at_k",
    "mrr_at_k",
    "ndcg_at_k",
    "neighbour_overlap",
    "novelty_at_k",
    "overlap_at_k",
    "popularity_buckets",
    "recall_at_k",
    "recall_of_head",
    "rmse",
    "sliced_recall",
    "sliced_rmse",
]
