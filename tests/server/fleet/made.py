"""The files of a fleet in a folder, of which nothing runs: keys, catalogue and ``fleet.toml``."""

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fedboard.server.fleet.credentials import make_keys
from fedboard.server.fleet.settings import FleetSettings, read_settings

N_ITEMS = 30
USUAL: dict[str, Any] = {
    "name": "trial",
    "task": {"algorithm": "adadpals", "settings": {"rank": 2, "rounds": 2}},
    "privacy": {"epsilon": 5.0, "seed": 0},
    "catalogue": {"file": "catalogue.csv"},
    "rounds": {"devices": 3, "quorum": 2, "deadline_seconds": 30.0},
}


@cache
def _kept_keys() -> Path:
    folder = Path(mkdtemp()) / "keys"
    make_keys(folder, name="trial", hosts=())
    return folder


def write_fleet(folder: Path, **sections: Any) -> Path:
    """Write all of it; the keys are the same in every test of a process.

    Args:
        folder: of ``fleet.toml``; made if need be.
        sections: what differs from ``USUAL``; tables are joined, None leaves a table or a key out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "keys").exists():
        shutil.copytree(_kept_keys(), folder / "keys")
    films = [f"{n},Film {n} ({1950 + n}),{('Drama', 'Comedy')[n % 2]}" for n in range(N_ITEMS)]
    (folder / "catalogue.csv").write_text("item,title,genres\n" + "\n".join(films))
    plain = dict(USUAL)
    for name, value in sections.items():
        both = isinstance(value, dict) and isinstance(plain.get(name), dict)
        plain[name] = {**plain[name], **value} if both else value
    path = folder / "fleet.toml"
    lines = [f"{name} = {toml_value(value)}" for name, value in plain.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")
    return path


def toml_value(value: Any) -> str:
    """One value; tables inline, without what is None."""
    if not isinstance(value, dict):
        return json.dumps(value, default=str)
    return (
        "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items() if one is not None) + " }"
    )


def a_fleet(folder: Path, **sections: Any) -> FleetSettings:
    """The same, read."""
    return read_settings(write_fleet(folder, **sections))
