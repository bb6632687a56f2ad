"""Running the cells of the benchmark, one after the other or side by side; each ends as a line of a file."""

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from accuracy.anywhere.sets import DataSet, configuration, problem_for
from fedboard.common.errors import FedboardError
from fedboard.common.tasks.registry import ALGORITHMS, variant_of
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.engine.starting import one_blas_thread
from fedboard.simulations.judging.evaluation import judge
from fedboard.simulations.judging.references import fit_reference, is_reference
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.kernel_choice import backend_of
from fedboard.simulations.simulate import simulate

_RANK_OF_REFERENCES = 64
METRICS = {"explicit": "test_rmse", "implicit": "recall@20"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of the table."""

    data: DataSet
    label: str
    """What the table calls it."""
    algorithm: str
    epsilon: float | None
    """None without privacy."""
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same number, whenever it is computed by the same code."""
        said = [self.data.key, self.data.delta, self.label, self.algorithm, self.epsilon, self.seed]
        text = json.dumps([*said, dict(self.settings), code_of(self.algorithm)], default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_all(cells: Sequence[Cell], lines: Path, *, jobs: int) -> list[dict[str, Any]]:
    """What all cells gave; those that the file has are not run again. A line is appended as each ends."""
    kept = {line["key"]: line for line in read_lines(lines) if line.get("error") is None}
    missing = [cell for cell in cells if cell.key not in kept]
    lines.parent.mkdir(parents=True, exist_ok=True)
    with lines.open("a", encoding="utf-8") as stream:
        for number, line in enumerate(_ran(missing, jobs), start=1):
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            kept[line["key"]] = line
            print(f"[{number}/{len(missing)}] {_told(line)}", file=sys.stderr, flush=True)
    return [kept[cell.key] for cell in cells]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """What earlier calls found; a line that was cut short is left out."""
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            continue


def _ran(cells: Sequence[Cell], jobs: int) -> Iterable[dict[str, Any]]:
    if jobs == 1 or len(cells) < 2:
        return map(run_cell, cells)
    return _side_by_side(cells, jobs)


def _side_by_side(cells: Sequence[Cell], jobs: int) -> Iterator[dict[str, Any]]:
    with one_blas_thread(), get_context("spawn").Pool(min(jobs, len(cells))) as pool:
        yield from pool.imap(run_cell, cells)


def run_cell(cell: Cell) -> dict[str, Any]:
    """One run; a failure is a sentence in the line."""
    started = time.perf_counter()
    line: dict[str, Any] = {
        "key": cell.key,
        "set": cell.data.name,
        "feedback": cell.data.feedback,
        "algorithm": cell.label,
        "epsilon": cell.epsilon,
        "seed": cell.seed,
        "error": None,
    }
    try:
        line |= {"metric": METRICS[cell.data.feedback], **_measured(cell)}
    except FedboardError as error:
        line["error"] = str(error)
    except (ArithmeticError, ValueError, MemoryError, LookupError) as error:
        line["error"] = f"{type(error).__name__}: {error}"
    return line | {"seconds": round(time.perf_counter() - started, 2)}


def _measured(cell: Cell) -> dict[str, Any]:
    config = configuration(
        cell.data,
        algorithm=cell.algorithm,
        epsilon=cell.epsilon or 1.0,
        seed=cell.seed,
        settings=cell.settings,
    )
    problem = _loaded(_Keyed(cell.data))
    shape = {
        "users": int((problem.train.counts > 0).sum()),
        "items": problem.catalogue.n_items,
        "ratings": problem.train.n_ratings,
    }
    if not is_reference(cell.algorithm):
        with tempfile.TemporaryDirectory(prefix="fedboard-anywhere-") as folder:
            final = simulate(config, Path(folder) / "run", problem=problem, report=False).final
        metrics = final["metrics"]
    else:
        model = fit_reference(
            cell.algorithm,
            problem,
            feedback=config.feedback,
            backend=backend_of(config, problem, usual_rank=_RANK_OF_REFERENCES),
            settings=cell.settings,
            seed=cell.seed,
        )
        with WorkerPool(1) as pool:
            metrics = judge(model, problem, part="test", pool=pool).metrics
    return {"value": float(metrics[METRICS[cell.data.feedback]]), "metrics": dict(metrics), **shape}


@dataclass(frozen=True)
class _Keyed:
    """A data set as a key: its dictionary of settings cannot be hashed."""

    data: DataSet

    def __hash__(self) -> int:
        return hash(self.data.key)


@lru_cache(maxsize=1)
def _loaded(keyed: _Keyed) -> Problem:
    config = configuration(keyed.data, algorithm="residual", epsilon=1.0, seed=0, settings={})
    return problem_for(keyed.data, config)


@lru_cache(maxsize=64)
def code_of(algorithm: str) -> str:
    """Digest of the code that one algorithm's number comes from: that of other algorithms does not count."""
    others = set(ALGORITHMS)
    if not is_reference(algorithm):
        others.discard(variant_of(algorithm).algorithm.name.replace("-", "_"))
    digest = hashlib.sha256()
    for package in ("common", "server", "simulations"):
        root = Path(str(import_module(f"fedboard.{package}").__file__)).parent
        for path in sorted((*root.rglob("*.py"), *root.rglob("*.toml"))):
            place = path.relative_to(root).parts
            unread = place[0] in ("audit", "drawing", "report", "sessions", "protocols", "wire")
            other = package == "common" and place[0] == "tasks" and place[1] in others
            if not (unread or other):
                digest.update(f"{package}/{'/'.join(place)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _told(line: Mapping[str, Any]) -> str:
    epsilon = "no privacy" if line["epsilon"] is None else f"epsilon {line['epsilon']:g}, seed {line['seed']}"
    found = line["error"] or f"{line['metric']} {line['value']:.4f}"
    return f"{line['set']} {line['algorithm']}, {epsilon}: {found} ({line['seconds']} s)"
