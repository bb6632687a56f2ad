"""Models without privacy to compare with: floors (local only, item mean or popularity), ceilings (ALS, EASE)."""

from fedboard.simulations.baselines.als import AlsConfig, AlsModel, default_als, fit_als
from fedboard.simulations.baselines.ease import EaseModel, fit_ease
from fedboard.simulations.baselines.means import (
    BiasConfig,
    BiasModel,
    ItemMeanModel,
    LocalModel,
    PopularityModel,
    Predictor,
    fit_bias,
    fit_item_mean,
    fit_popularity,
)

__all__ = [
    "AlsConfig",
    "AlsModel",
    "BiasConfig",
    "BiasModel",
    "EaseModel",
    "ItemMeanModel",
    "LocalModel",
    "PopularityModel",
    "Predictor",
    "default_als",
    "fit_als",
    "fit_bias",
    "fit_ease",
    "fit_item_mean",
    "fit_popularity",
]
