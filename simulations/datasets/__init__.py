"""Data sets: one reader per format, the synthetic set, and a summary for their owner."""

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.simulations.datasets.id_keys import Kind, id_keys
from fedboard.simulations.datasets.loading import features_beside, load_ratings, look_at
from fedboard.simulations.datasets.named import find_data, is_made_up
from fedboard.simulations.datasets.ratings import Ratings, Triples
from fedboard.simulations.datasets.readers import FORMATS
from fedboard.simulations.datasets.summary import describe
from fedboard.simulations.datasets.synthetic.ratings import (
    SyntheticConfig,
    synthetic_ratings,
    synthetic_truth,
)

__all__ = [
    "FORMATS",
    "ColumnMapping",
    "Kind",
    "Ratings",
    "SyntheticConfig",
    "Triples",
    "describe",
    "features_beside",
    "find_data",
    "id_keys",
    "is_made_up",
    "load_ratings",
    "look_at",
    "synthetic_ratings",
    "synthetic_truth",
]
