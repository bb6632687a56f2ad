"""Data sets: one reader per format, the synthetic set, and a summary for their owner."""

from fedboard.simulations.datasets.columns import ColumnMapping
from fedboard.simulations.datasets.loading import load_ratings
from fedboard.simulations.datasets.named import find_data
from fedboard.simulations.datasets.ratings import Ratings, Triples
from fedboard.simulations.datasets.sources import FORMATS
from fedboard.simulations.datasets.summary import describe
from fedboard.simulations.datasets.synthetic import SyntheticConfig, synthetic_ratings

__all__ = [
    "FORMATS",
    "ColumnMapping",
    "Ratings",
    "SyntheticConfig",
    "Triples",
    "describe",
    "find_data",
    "load_ratings",
    "synthetic_ratings",
]
