"""The runs of a curve, one after the other: each leaves a small file, so that an interrupted curve goes on."""

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import load_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.without_privacy import is_reference, run_reference
from fedboard.simulations.simulate import simulate
from fedboard.simulations.streams.problem import is_streamed, open_problem
from research.population.cpu_time import cpu_seconds

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
    cpu_seconds: float
    """Of this process and of its workers; those of the ending that finished it."""
    judged: int | None
    """On how many people, where that is a sample."""


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
        place = self._folder / part.name
        ran = self._run(part.config, place)
        record = {
            "configuration": msgspec.to_builtins(wanted, str_keys=True),
            "ran": msgspec.to_builtins(ran),
        }
        write_atomically(kept, (json.dumps(record, indent=2) + "\n").encode())
        shutil.rmtree(place, ignore_errors=True)
        return ran

    @staticmethod
    def _run(config: SimulationConfig, place: Path) -> Ran:
        started, cpu = time.monotonic(), cpu_seconds()
        resume = RunDirectory(place).config.exists()
        if is_reference(config.algorithm):
            problem = open_problem(config) if is_streamed(config) else load_problem(config)
            final = run_reference(config, place, resume=resume, problem=problem)
        else:
            final = dict(simulate(config, place, resume=resume, report=False).final)
        return Ran(
            rmse=float(final["metrics"][METRIC]),
            seconds=time.monotonic() - started,
            cpu_seconds=cpu_seconds() - cpu,
            judged=(final.get("sample") or {}).get("users"),
        )


def _deciding(config: SimulationConfig) -> SimulationConfig:
    """What decides about a result: all but who computes it."""
    run = msgspec.structs.replace(config.run, workers=1, kernels="auto")
    return msgspec.structs.replace(config, run=run)
