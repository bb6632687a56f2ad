"""Data sets by name: a folder that the environment points at."""

import os
from pathlib import Path

from fedboard.common.checks import did_you_mean
from fedboard.simulations.data.synthetic.people import is_people

SYNTHETIC = "synthetic"
"""The name of the built-in set."""
DATA_FOLDER = "FEDBOARD_DATA"
"""Environment variable: the folder in which a name that is no path is looked up."""
MANIFEST = "shards.json"
"""What tells that a folder is a sharded data set, see ``fedboard.simulations.data.shards``."""


def is_made_up(name: str) -> bool:
    """Whether there is no file of these ratings: the built-in set, or people as they are asked for."""
    return name == SYNTHETIC or is_people(name)


def find_data(name: str) -> str:
    """Where the data of this name are: as given, else ``name`` or ``name.npz`` in ``$FEDBOARD_DATA``.

    A name that is found nowhere is returned as it is, for the reader to complain about.
    """
    folder = os.environ.get(DATA_FOLDER)
    if not folder or is_made_up(name) or Path(name).exists():
        return name
    candidates = (Path(folder) / name, Path(folder) / f"{name}.npz")
    return next((str(place) for place in candidates if place.exists()), name)


def is_sharded(source: str | Path) -> bool:
    """Whether there is a sharded data set at a path: a folder with a manifest."""
    return (Path(source) / MANIFEST).is_file()


def near_data(path: Path) -> str:
    """What somebody may have meant who named data that are not there, as the end of a sentence.

    Looked for among the neighbours of that path, the data sets of ``$FEDBOARD_DATA``, and the one that is built in.
    """
    near = {str(path.with_name(name)) for name in _names_in(path.parent)}
    folder = os.environ.get(DATA_FOLDER)
    named = _names_in(Path(folder)) if folder and path.parent == Path() else set()
    return did_you_mean(
        path, sorted({"synthetic", *near, *named, *(name.partition(".")[0] for name in named)})
    )


def _names_in(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}
    except OSError:
        return set()
