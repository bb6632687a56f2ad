"""Models without privacy, to compare with: two floors (local only, item mean or popularity) and a ceiling (ALS)."""

from fedboard.simulations.baselines.als import AlsModel, fit_als
from fedboard.simulations.baselines.als_config import AlsConfig, default_als
from fedboard.simulations.baselines.bias import BiasConfig, BiasModel, fit_bias
from fedboard.simulations.baselines.item_mean import ItemMeanModel, fit_item_mean
from fedboard.simulations.baselines.local import LocalModel
from fedboard.simulations.baselines.popularity import PopularityModel, fit_popularity
from fedboard.simulations.baselines.predictor import Predictor

__all__ = [
    "AlsConfig",
    "AlsModel",
    "BiasConfig",
    "BiasModel",
    "ItemMeanModel",
    "LocalModel",
    "PopularityModel",
    "Predictor",
    "default_als",
    "fit_als",
    "fit_bias",
    "fit_item_mean",
    "fit_popularity",
]
