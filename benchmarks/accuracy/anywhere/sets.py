"""The data sets of the benchmark: a folder of ``.npz`` files with ``info.json``, and those that have a name."""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.datasets import find_data
from fedboard.simulations.datasets.in_memory import ratings_of_columns
from fedboard.simulations.problem import Problem, load_problem, problem_of

NAMED = ("ml-1m", "ml-100k", "ml-latest-small", "ml-1m-x12")
"""Looked up in ``$FEDBOARD_DATA``; left out where they are not there."""
SYNTHETIC = {"synthetic-2": (20_000, 2), "synthetic-20": (5_000, 20), "synthetic-200": (2_000, 200)}
"""Name -> users and mean ratings of each."""
_LISTS_TOO = ("ml-1m", "ml-100k")
_DEFAULT_DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Where ratings are and what is public about them."""

    name: str
    feedback: str
    """``explicit``: judged by the error of ratings; ``implicit``: by lists."""
    delta: float = _DEFAULT_DELTA
    archive: Path | None = None
    """An ``.npz`` of the folder: user, item, rating; item_id where there is one."""
    rating_range: tuple[float, float] = (1.0, 5.0)
    presence: bool = False
    """Whether who has what is all that is known."""
    n_items: int = 0
    """As stated; items that nobody rated count."""
    source: dict[str, Any] = field(default_factory=dict)
    """``data`` of the configuration, for what is not in the folder."""

    @property
    def key(self) -> str:
        """Names it among all comparisons."""
        return f"{self.name}:{self.feedback}"


def sets_of(folder: Path | None, names: tuple[str, ...]) -> list[DataSet]:
    """All data sets, or those that are named.

    Args:
        folder: of ``.npz`` files and ``info.json``; None for those alone that have a name.
        names: of the sets to keep, in any order; all where empty. With ``:explicit`` or ``:implicit`` one way of
            judging alone.

    Raises:
        InputError: the folder cannot be used, or a name is unknown.
    """
    found = [] if folder is None else _of_folder(folder)
    taken = {data.name for data in found}
    found += [data for data in _of_names() if data.name not in taken]
    # Ratings of a folder are judged by lists where that is asked for: those above five eighths of the range count.
    lists = [replace(data, feedback="implicit") for data in found if f"{data.name}:implicit" in names]
    found += [data for data in lists if data not in found]
    for name in names:
        if not any(name in (data.name, data.key) for data in found):
            known = ", ".join(dict.fromkeys(data.name for data in found))
            raise InputError(f"--sets: unknown set {name!r}; there are {known}")
    if names:
        return [data for data in found if data.name in names or data.key in names]
    return found


def problem_for(data: DataSet, config: SimulationConfig) -> Problem:
    """Ratings of a set, cleaned, split as the configuration says."""
    if data.archive is None:
        return load_problem(config)
    users, items, values, names = _columns(data.archive, at_least=data.n_items)
    if data.presence:
        values = np.ones_like(values)
    low, high = data.rating_range
    if values.min() < low or values.max() > high:
        raise InputError(f"{data.archive}: a rating is outside the stated range {low:g} to {high:g}")
    ratings = ratings_of_columns(
        users,
        names[items],
        values,
        rating_range=data.rating_range,
        titles=dict(zip(names.tolist(), names.tolist(), strict=True)),
        catalogue="listed",
        name=data.name,
    )
    return problem_of(ratings, config)


def configuration(
    data: DataSet, *, algorithm: str, epsilon: float, seed: int, settings: Any
) -> SimulationConfig:
    """One run."""
    raw: dict[str, Any] = {
        "algorithm": algorithm,
        "feedback": data.feedback,
        "seed": seed,
        "data": data.source,
        "privacy": {"epsilon": epsilon, "delta": data.delta},
        "settings": dict(settings),
        "run": {"baselines": False, "evaluate_rounds": False, "workers": 1},
    }
    if data.feedback == "implicit":
        low, high = data.rating_range
        raw["split"] = {"positive_above": low + 0.625 * (high - low)}  # 3.5 of 1 to 5
    return parse_config(raw, source=data.name)


def _of_folder(folder: Path) -> list[DataSet]:
    try:
        info = json.loads((folder / "info.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: needs an info.json that says range and delta of each set ({error})"
        ) from error
    return [_stated(folder / f"{name}.npz", stated) for name, stated in sorted(info.items())]


def _stated(archive: Path, stated: dict[str, Any]) -> DataSet:
    if not archive.exists():
        raise InputError(f"{archive}: info.json names it, and it is not there")
    implicit = "implicit" in str(stated.get("note", ""))
    try:
        low, high = (float(end) for end in stated["range"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{archive.parent / 'info.json'}: {archive.stem} needs range: [lowest, highest]"
        ) from error
    if not -math.inf < low < high < math.inf:
        raise InputError(f"{archive.parent / 'info.json'}: the range of {archive.stem} must ascend")
    return DataSet(
        name=archive.stem,
        feedback="implicit" if implicit else "explicit",
        presence=implicit,
        delta=float(stated.get("delta", _DEFAULT_DELTA)),
        archive=archive,
        rating_range=(0.0, 1.0) if implicit else (low, high),
        n_items=int(stated.get("items", 0)),
    )


def _of_names() -> list[DataSet]:
    found = []
    for name in NAMED:
        place = Path(find_data(name))
        if place.exists():
            scale = (0.5, 5.0) if name == "ml-latest-small" else (1.0, 5.0)
            kinds = ("explicit", "implicit") if name in _LISTS_TOO else ("explicit",)
            source: dict[str, Any] = {"source": str(place)}
            found += [DataSet(name=name, feedback=kind, rating_range=scale, source=source) for kind in kinds]
    for name, (n_users, mean) in SYNTHETIC.items():
        made = {
            "n_users": n_users,
            "mean_ratings_per_user": float(mean),
            "minimum_ratings_per_user": min(mean, 10),
        }
        found.append(
            DataSet(name=name, feedback="explicit", source={"source": "synthetic", "synthetic": made})
        )
    return found


def _columns(archive: Path, *, at_least: int) -> tuple[IntArray, IntArray, Float32Array, NDArray[np.str_]]:
    """User, item and rating, of a pair that is there twice the last one; and the ids of all items there are."""
    with np.load(archive, allow_pickle=False) as arrays:
        missing = [name for name in ("user", "item", "rating") if name not in arrays]
        if missing:
            raise InputError(f"{archive}: has no array {missing[0]!r}")
        users, items = arrays["user"].astype(np.int64), arrays["item"].astype(np.int64)
        values = arrays["rating"].astype(np.float32)
        known = max(at_least, int(items.max()) + 1)
        ids = np.arange(known).astype(np.str_)
        if "item_id" in arrays and np.unique(arrays["item_id"].astype(np.str_)).size >= known:
            ids = arrays["item_id"].astype(np.str_)
    pairs = users * (int(items.max()) + 1) + items
    _, from_the_end = np.unique(pairs[::-1], return_index=True)
    last = np.sort(pairs.size - 1 - from_the_end)
    return users[last], items[last], values[last], ids
