"""Simulations that take a fraction of a second, over any runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedboard.server.publication import BoardStore
from fedboard.simulations.config import SimulationConfig, parse_config

N_USERS, N_ITEMS = 150, 30
FEATURES = "features.csv"
SETTINGS: dict[str, dict[str, Any]] = {
    "adadpals": {"rank": 2, "rounds": 2},
    "residual": {"rank": 2, "rounds": 2, "start": "spectral", "clip_quantile": 0.5},
}
Digests = Callable[..., list[str]]


def a_config(
    algorithm: str = "adadpals",
    *,
    privacy: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    split: dict[str, Any] | None = None,
    **run: Any,
) -> SimulationConfig:
    made_up = {"n_users": N_USERS, "n_items": N_ITEMS, "mean_ratings_per_user": 10.0}
    usual = {"baselines": False, "kernels": "numpy", "evaluate_rounds": False}
    return parse_config(
        {
            "algorithm": algorithm,
            "data": {"synthetic": made_up, **(data or {})},
            "settings": {**SETTINGS.get(algorithm, {}), **(settings or {})},
            "privacy": privacy or {},
            "split": split or {},
            "run": {**usual, **run},
        }
    )


def features_file(folder: Path) -> Path:
    """Two public features of each item."""
    lines = [f"{item},{1950 + item},{'a|b' if item % 2 else 'b'}\n" for item in range(1, N_ITEMS + 1)]
    path = folder / FEATURES
    path.write_text("item,year,kinds\n" + "".join(lines))
    return path


def digests(out: Path) -> list[str]:
    store = BoardStore(out / "boards")
    return [store.load(version).digest for version in store.versions()]
