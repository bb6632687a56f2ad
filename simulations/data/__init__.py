"""Data sets: one reader per format, the synthetic set, and a summary for their owner."""

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.loading import features_beside, load_ratings, look_at
from fedboard.simulations.data.named import find_data, is_made_up
from fedboard.simulations.data.ratings import Ratings, Triples
from fedboard.simulations.data.readers import FORMATS
from fedboard.simulations.data.summary import describe
from fedboard.simulations.data.synthetic.ratings import (
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
