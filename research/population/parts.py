"""The runs of a curve, one after the other: each leaves a small file, so that an interrupted curve goes on."""

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

import fedboard
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.evaluation.references import is_reference
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.sweeps.cells import Cell, run_cell

METRIC = "test_rmse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run. Public, but for the ratings that its configuration names."""

    name: str
    """Of its file; no other part has it."""
    config: SimulationConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of it. Not private: simulation only."""

    rmse: float
    seconds: float
    """Of the call that finished it."""


class Parts:
    """A folder of finished parts.

    Guarantee: a part that is there was run with the very configuration that is asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ran(self, part: Part) -> Ran:
        """The part's outcome: as it was written down, or by running it, or going on with it.

        Raises:
            InputError: it cannot be run, or was run with other settings.
        """
        kept = self._folder / f"{part.name}.json"
        wanted = _deciding(part.config)
        if kept.exists():
            record = json.loads(kept.read_text(encoding="utf-8"))
            if msgspec.convert(record["configuration"], SimulationConfig) != wanted:
                raise InputError(
                    f"{kept}: it was run with other settings than are asked for now; choose another --out, or "
                    "delete it"
                )
            return Ran(**record["ran"])
        place, began = self._folder / part.name, time.monotonic()
        ran = Ran(rmse=_rmse(part.config, place), seconds=time.monotonic() - began)
        record = {
            "configuration": msgspec.to_builtins(wanted, str_keys=True),
            "ran": msgspec.to_builtins(ran),
        }
        half = kept.with_suffix(".half")
        half.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        half.replace(kept)  # whole or not at all
        shutil.rmtree(place, ignore_errors=True)
        return ran


def _rmse(config: SimulationConfig, place: Path) -> float:
    """Of a private run, or of a model without privacy.

    Raises:
        InputError: it failed.
    """
    if not is_reference(config.algorithm):
        plain = msgspec.to_builtins(config, str_keys=True)
        resume = RunDirectory(place).config.exists()
        done = fedboard.simulate(config=plain, out=place, resume=resume, report=False, progress=False)
        return float(done.metrics[METRIC])
    found = run_cell(Cell(name=place.name, config=config), place.parent)
    if found.final is None:
        raise InputError(f"run {place.name} failed: {found.error}")
    return float(found.final["metrics"][METRIC])


def _deciding(config: SimulationConfig) -> SimulationConfig:
    """What decides about a result: all but who computes it."""
    run = msgspec.structs.replace(config.run, workers=1, kernels="auto")
    return msgspec.structs.replace(config, run=run)
