"""Data sets by name: a folder that the environment points at."""

import os
from pathlib import Path

DATA_FOLDER = "FEDBOARD_DATA"
"""Environment variable: the folder in which a name that is no path is looked up."""


def find_data(name: str) -> str:
    """Where the data of this name are: as given, else ``name`` or ``name.npz`` in ``$FEDBOARD_DATA``.

    A name that is found nowhere is returned as it is, for the reader to complain about.
    """
    folder = os.environ.get(DATA_FOLDER)
    if not folder or name == "synthetic" or Path(name).exists():
        return name
    candidates = (Path(folder) / name, Path(folder) / f"{name}.npz")
    return next((str(place) for place in candidates if place.exists()), name)
