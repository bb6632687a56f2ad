"""Did a refactoring change a number? The boards of tiny seeded runs, before and after.

usage: python benchmarks/same_boards.py --write before.json   # on the code before
       python benchmarks/same_boards.py --check before.json   # on the code after; exit code 1 if a board differs
       ... [--flower] [--deployment] [--only WORD,...]        # more runtimes; cells whose names hold these words

Every algorithm in the engine, and the four tasks under every protocol, with one worker process, with two, and over
a Flower grid in this process; ``--flower`` adds Flower's simulation on Ray, ``--deployment`` processes over TLS.
Of each run the digest of its last board, which chains to all before it; a digest of the board's arrays alone, which
stays where only the way of writing down a configuration changes; what its certificate claims; and its releases.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from fedboard.common.board import Board  # noqa: E402
from fedboard.common.certificate import Certificate  # noqa: E402
from fedboard.server.publication import BoardStore  # noqa: E402
from fedboard.simulations.config import parse_config  # noqa: E402
from fedboard.simulations.problem import load_problem  # noqa: E402
from fedboard.simulations.simulate import simulate  # noqa: E402

PEOPLE = {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}
CLIENTS = 6
ROUNDS, STEPS = {"rank": 2, "rounds": 2}, {"rank": 2, "steps": 2}
SETTINGS = {
    "adadpals": ROUNDS,
    "adadpals-clipped": ROUNDS,
    "adadpals-overcount": ROUNDS,
    "dpals-uniform": ROUNDS,
    "dpals-tail": ROUNDS,
    "residual": ROUNDS,
    "adadpsgd": STEPS,
    "adadpsgd-clipped": STEPS,
    "adadpsgd-overcount": STEPS,
    "dpsgd-uniform": STEPS,
    "dpsgd-tail": STEPS,
    "langevin": STEPS,
}
TASKS = ("adadpals", "adadpsgd", "langevin", "residual")
PROTOCOLS = ("trusted", "secure-sum", "distributed-dp", "two-server", "local")
IMPLICIT: dict[str, Any] = {"feedback": "implicit", "split": {"held_out_users": 0.05, "positive_above": 2.5}}
VARIANTS: dict[str, dict[str, Any]] = {
    "residual implicit": {"algorithm": "residual", **IMPLICIT},
    "adadpals implicit": {"algorithm": "adadpals", **IMPLICIT},
    "residual replace": {"algorithm": "residual", "privacy": {"adjacency": "replace"}},
    "residual poisson": {
        "algorithm": "residual",
        "privacy": {"participation": {"kind": "poisson", "probability": 0.5}},
    },
    "residual fixed-size": {
        "algorithm": "residual",
        "privacy": {"participation": {"kind": "fixed-size", "size": 60}},
    },
    "residual cohorts": {
        "algorithm": "residual",
        "privacy": {"participation": {"kind": "shuffled-cohorts", "cohorts": 2}},
    },
    "residual personal": {
        "algorithm": "residual",
        "privacy": {"personal": [{"epsilon": 1.0, "share": 0.5}]},
    },
    "residual features": {"algorithm": "residual", "data": {"features": "titles"}},
    "residual spectral": {"algorithm": "residual", "settings": {"start": "spectral", "clip_quantile": 0.5}},
}
MOST_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run."""

    name: str
    algorithm: str
    run: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def raw(self) -> dict[str, Any]:
        """The run as a configuration."""
        quiet = {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"}
        base: dict[str, Any] = {
            "algorithm": self.algorithm,
            "seed": 3,
            "data": {"synthetic": PEOPLE, **self.more.get("data", {})},
            "settings": {**SETTINGS[self.algorithm], **self.more.get("settings", {})},
            "run": {**quiet, **self.run},
        }
        return {**{k: v for k, v in self.more.items() if k not in base}, **base}


def all_cells(*, flower: bool, deployment: bool) -> Iterator[Cell]:
    """Quick ones first."""
    for algorithm in SETTINGS:
        yield Cell(name=f"{algorithm} / trusted / engine-1", algorithm=algorithm)
    for name, more in VARIANTS.items():
        yield Cell(name=f"{name} / trusted / engine-1", algorithm=more["algorithm"], more=more)
    runtimes: dict[str, dict[str, Any]] = {
        "engine-1": {},
        "engine-2": {"workers": 2},
        "in-process": {"runtime": "in-process", "nodes": 3},
    }
    runtimes |= {"flower": {"runtime": "flower", "nodes": 3, "workers": 2}} if flower else {}
    for runtime, run in runtimes.items():
        for protocol in PROTOCOLS:
            for algorithm in TASKS:
                if (runtime, protocol) != ("engine-1", "trusted"):
                    chosen = {"protocol": protocol} | ({} if protocol == "trusted" else {"clients": CLIENTS})
                    name = f"{algorithm} / {protocol} / {runtime}"
                    yield Cell(name=name, algorithm=algorithm, run={**run, **chosen})
    for algorithm in TASKS if deployment else ():
        yield Cell(name=f"{algorithm} / trusted / deployment", algorithm=algorithm)


def board_of(cell: Cell, place: Path) -> Board:
    """Run it and take its last board."""
    if not cell.name.endswith("deployment"):
        return simulate(parse_config(cell.raw()), place / "run", report=False).board
    from fleets.deployment import FleetPlan, deployed, make_fleet, wait_for

    problem = load_problem(parse_config(cell.raw()))
    low, high = problem.rating_range
    half = problem.train.n_users // 2
    plan = FleetPlan(
        nodes={"a": problem.train.rows(0, half), "b": problem.train.rows(half, 2 * half)},
        catalogue=problem.catalogue,
        task={
            "algorithm": cell.algorithm,
            "rating_range": [low, high],
            "settings": SETTINGS[cell.algorithm],
        },
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "seeded", "seed": 3},
        rounds={"quorum": 2, "deadline_seconds": 120.0, "poll_seconds": 0.1},
    )
    with deployed(place, make_fleet(place, plan)) as fleet:
        for name in ("server", *plan.nodes):
            fleet.start(name)
        wait_for(lambda: fleet.status("server") is not None, "end of training", place, seconds=MOST_SECONDS)
        return BoardStore(fleet.state.run / "boards").latest()


def told(board: Board) -> dict[str, Any]:
    """What is compared."""
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    arrays = hashlib.sha256()
    for name, values in sorted(board.arrays.items()):
        arrays.update(json.dumps([name, str(values.dtype), list(values.shape)]).encode())
        arrays.update(np.ascontiguousarray(values).tobytes())
    releases = json.dumps(certificate.releases, sort_keys=True).encode()
    return {
        "board": board.digest,
        "arrays": arrays.hexdigest(),
        "version": board.version,
        "releases": hashlib.sha256(releases).hexdigest(),
        "epsilon": certificate.composition.epsilon,
        "verifies": certificate.holds,
    }


def measured(cells: list[Cell]) -> dict[str, dict[str, Any]]:
    """Run all; one that cannot run says so in the record, which is compared too."""
    found: dict[str, dict[str, Any]] = {}
    for number, cell in enumerate(cells, start=1):
        with tempfile.TemporaryDirectory() as place:
            try:
                found[cell.name] = told(board_of(cell, Path(place)))
            except Exception as error:
                found[cell.name] = {"error": f"{type(error).__name__}: {error}"}
        seen = found[cell.name]
        print(
            f"{number:3} of {len(cells)}  {cell.name:45} {seen.get('board', seen.get('error'))}",
            file=sys.stderr,
        )
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each cell that is not the same."""
    lines = []
    for name, now in after.items():
        then = before.get(name)
        if then is None:
            lines.append(f"{name}: not in the record")
        elif then != now:
            keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
            only = " (arrays and releases are the same)" if set(keys) == {"board"} else ""
            told = "; ".join(f"{key} {then.get(key)} -> {now.get(key)}" for key in keys)
            lines.append(f"{name}{only}: {told}")
    return lines


def main() -> None:
    """Write the digests of all boards, or compare with those written; exit code 1 where one differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", type=Path, metavar="FILE")
    task.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--flower", action="store_true", help="Flower's simulation on Ray, too")
    parser.add_argument("--deployment", action="store_true", help="a server and two devices over TLS, too")
    parser.add_argument("--only", metavar="WORD,...", help="cells whose names hold all of these words")
    given = parser.parse_args()
    words = given.only.split(",") if given.only else []
    cells = [
        cell
        for cell in all_cells(flower=given.flower, deployment=given.deployment)
        if all(word in cell.name for word in words)
    ]
    found = measured(cells)
    if given.write:
        given.write.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} boards written to {given.write}")
        return
    lines = differences(json.loads(given.check.read_text(encoding="utf-8")), found)
    print("\n".join([*lines, f"{len(found) - len(lines)} of {len(found)} boards are the same"]))
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
