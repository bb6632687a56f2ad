"""Configuration of a simulation: one TOML file, one command line, one record in the run directory."""

from fedboard.simulations.config.run import RunConfig
from fedboard.simulations.config.simulation import (
    DataConfig,
    PersonalLevel,
    PrivacyConfig,
    SimulationConfig,
    SplitConfig,
    TunedConfig,
    overlay,
    parse_config,
    read_config,
    with_kernels,
)

__all__ = [
    "DataConfig",
    "PersonalLevel",
    "PrivacyConfig",
    "RunConfig",
    "SimulationConfig",
    "SplitConfig",
    "TunedConfig",
    "overlay",
    "parse_config",
    "read_config",
    "with_kernels",
]
